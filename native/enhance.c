/* enhance.c: ops on one pixel's three channels together, without colour spaces. */
#include "pixels.h"

/* ImageEnhance.Color: from the grey image (factor 0) to the image (factor 1) and beyond. */
void hrn_saturation(hrn_image *image, float factor) {
  for (int32_t y = 0; y < image->height; y++) {
    uint8_t *pixel = image->pixels + (size_t)y * image->stride;
    for (int32_t x = 0; x < image->width; x++, pixel += 4) {
      const int32_t grey = hrn_grey(pixel);
      for (int32_t c = 0; c < 3; c++) pixel[c] = hrn_blend(grey, pixel[c], factor);
    }
  }
}

void hrn_turn_grey(hrn_image *image) {
  for (int32_t y = 0; y < image->height; y++) {
    uint8_t *pixel = image->pixels + (size_t)y * image->stride;
    for (int32_t x = 0; x < image->width; x++, pixel += 4) {
      pixel[0] = pixel[1] = pixel[2] = hrn_grey(pixel);
    }
  }
}

void hrn_permute_channels(hrn_image *image, const int32_t order[3]) {
  for (int32_t y = 0; y < image->height; y++) {
    uint8_t *pixel = image->pixels + (size_t)y * image->stride;
    for (int32_t x = 0; x < image->width; x++, pixel += 4) {
      const uint8_t was[3] = {pixel[0], pixel[1], pixel[2]};
      for (int32_t c = 0; c < 3; c++) pixel[c] = was[order[c]];
    }
  }
}
