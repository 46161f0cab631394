/* webp.h: reads a WebP, lossy or lossless, or a window of it. Of an animation only the first
 * frame. */
#ifndef HEADRACE_WEBP_WEBP_H
#define HEADRACE_WEBP_WEBP_H

#include <stdbool.h>

#include "../core/context.h"
#include "../core/facts.h"
#include "../core/image.h"

/* One WebP: what its chunks say. `frame` points into the record. */
typedef struct hrn_webp {
  const uint8_t *frame; /* the chunks of the first frame: alpha, if any, and its image data */
  size_t length;
  hrn_box place; /* place of the frame in the image, which is 0 around it */
  uint32_t width, height;
  bool lossless, alpha;
  uint8_t orientation;
} hrn_webp;

/* For example "1.6.0". */
const char *hrn_webp_version(void);

/* The size of the record that is in the context, its pixels, and its facts. The first function
 * fills `webp`. */
int hrn_webp_header(hrn_context *context, hrn_webp *webp, uint32_t *width, uint32_t *height,
                    hrn_status *status);
int hrn_webp_window(hrn_context *context, const hrn_webp *webp, const hrn_box *box,
                    hrn_image *image, hrn_status *status);
int hrn_webp_inspect(hrn_context *context, hrn_webp *webp, int depth, hrn_facts *facts,
                     hrn_status *status);

#endif
