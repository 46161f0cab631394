/* sharpen.c: ImageEnhance.Sharpness: from the smoothed image (factor 0) to the image (factor 1) and
 * beyond.
 *
 * Pillow's SMOOTH gives the pixel a weight of 5/13 and its neighbours 1/13 each. It works in single
 * precision, beginning with the row below, and leaves the border as it is. An image smaller than
 * the kernel is not smoothed.
 */
#include <string.h>

#include "kernels.h"
#include "pixels.h"

static uint8_t smooth(const uint8_t *above, const uint8_t *here, const uint8_t *below) {
  const float side = 1.0f / 13.0f, middle = 5.0f / 13.0f;
  float sum = 0.5f;
  sum += (float)below[-4] * side + (float)below[0] * side + (float)below[4] * side;
  sum += (float)here[-4] * side + (float)here[0] * middle + (float)here[4] * side;
  sum += (float)above[-4] * side + (float)above[0] * side + (float)above[4] * side;
  return (uint8_t)(sum > 255.0f ? 255.0f : sum);
}

void hrn_sharpen_scalar(const uint8_t *above, const uint8_t *here, const uint8_t *below,
                        size_t count, float factor, uint8_t *out) {
  for (size_t x = 0; x < count; x++, above += 4, here += 4, below += 4, out += 4) {
    for (int32_t c = 0; c < 3; c++) {
      out[c] = hrn_blend(smooth(above + c, here + c, below + c), here[c], factor);
    }
  }
}

void hrn_sharpness(const hrn_image *image, const hrn_image *out, float factor) {
  const hrn_pixel_kernels *kernels = hrn_pixel_kernels_chosen();
  const size_t width = (size_t)image->width, stride = image->stride;
  for (int32_t y = 0; y < image->height; y++) {
    const uint8_t *here = image->pixels + (size_t)y * stride;
    uint8_t *row = out->pixels + (size_t)y * out->stride;
    if (y == 0 || y == image->height - 1 || width < 3) {
      memcpy(row, here, width * 4);
      continue;
    }
    const size_t last = 4 * (width - 1);
    memcpy(row, here, 4);
    memcpy(row + last, here + last, 4);
    kernels->sharpen(here - stride + 4, here + 4, here + stride + 4, width - 2, factor, row + 4);
  }
}
