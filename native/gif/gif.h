/* gif.h: reads the first frame of a GIF, or a window of it. */
#ifndef HEADRACE_GIF_GIF_H
#define HEADRACE_GIF_GIF_H

#include <stdbool.h>

#include "../core/context.h"
#include "../core/facts.h"
#include "../core/image.h"

/* One GIF up to the image data of its first frame. */
typedef struct hrn_gif {
  uint32_t width, height; /* size of the image, which contains the frame */
  uint32_t left, top;     /* place of the frame */
  uint32_t frame_width, frame_height;
  const uint8_t *palette; /* red, green, blue; NULL: indices are greys */
  uint32_t colours;
  uint8_t around; /* the index of pixels around the frame */
  bool interlaced;
  uint8_t bits; /* bits of the first codes, minus one */
  size_t data;  /* offset of the first block of image data */
} hrn_gif;

/* The size of the record that is in the context, its pixels, and its facts. The first function
 * fills `gif`. */
int hrn_gif_header(hrn_context *context, hrn_gif *gif, uint32_t *width, uint32_t *height,
                   hrn_status *status);
int hrn_gif_window(hrn_context *context, const hrn_gif *gif, const hrn_box *box, hrn_image *image,
                   hrn_status *status);
int hrn_gif_inspect(hrn_context *context, hrn_gif *gif, int depth, hrn_facts *facts,
                    hrn_status *status);

/* lzw.c: makes the frame's indices, row by row. If the frame is not interlaced, only the first
 * `rows`. */
int hrn_gif_expand(const hrn_context *context, const hrn_gif *gif, uint32_t rows, uint8_t *indices,
                   hrn_status *status);

#endif
