/* sharpen.c: ImageEnhance.Sharpness: from the smoothed image (factor 0) to the image (factor 1)
 * and beyond.
 *
 * Pillow's SMOOTH weighs the pixel 5/13 and its neighbours 1/13, in single precision, row below
 * first, and leaves the border as it is; an image smaller than the kernel is not smoothed.
 */
#include <string.h>

#include "pixels.h"

static uint8_t smooth(const uint8_t *above, const uint8_t *here, const uint8_t *below) {
  const float side = 1.0f / 13.0f, middle = 5.0f / 13.0f;
  float sum = 0.5f;
  sum += (float)below[-4] * side + (float)below[0] * side + (float)below[4] * side;
  sum += (float)here[-4] * side + (float)here[0] * middle + (float)here[4] * side;
  sum += (float)above[-4] * side + (float)above[0] * side + (float)above[4] * side;
  return (uint8_t)(sum > 255.0f ? 255.0f : sum);
}

void hrn_sharpness(const hrn_image *image, const hrn_image *out, float factor) {
  const int32_t width = image->width, height = image->height;
  for (int32_t y = 0; y < height; y++) {
    const uint8_t *here = image->pixels + (size_t)y * image->stride;
    uint8_t *row = out->pixels + (size_t)y * out->stride;
    memcpy(row, here, (size_t)width * 4);
    if (y == 0 || y == height - 1) continue;
    for (int32_t x = 1; x < width - 1; x++) {
      const uint8_t *pixel = here + 4 * (size_t)x;
      for (int32_t c = 0; c < 3; c++) {
        const uint8_t smoothed =
            smooth(pixel - image->stride + c, pixel + c, pixel + image->stride + c);
        row[4 * (size_t)x + (size_t)c] = hrn_blend(smoothed, pixel[c], factor);
      }
    }
  }
}
