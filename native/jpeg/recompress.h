/* recompress.h: what a JPEG file makes of an image. */
#ifndef HEADRACE_JPEG_RECOMPRESS_H
#define HEADRACE_JPEG_RECOMPRESS_H

#include "../core/image.h"

/* `image` encoded at that quality, 1 to 100, and decoded again, as *out of the same size. */
int hrn_recompress(hrn_context *context, int32_t quality, const hrn_image *image,
                   const hrn_image *out, hrn_status *status);

#endif
