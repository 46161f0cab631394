/* recompress.h: encodes an image as a JPEG file and decodes it again. */
#ifndef HEADRACE_JPEG_RECOMPRESS_H
#define HEADRACE_JPEG_RECOMPRESS_H

#include "../core/image.h"

/* Encodes `image` at a quality of 1 to 100 and decodes it again into *out, which has the same
 * size. */
int hrn_recompress(hrn_context *context, int32_t quality, const hrn_image *image,
                   const hrn_image *out, hrn_status *status);

#endif
