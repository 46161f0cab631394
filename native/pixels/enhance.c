/* enhance.c: Pillow's ImageEnhance without tables, and other ops that look at a pixel's three
 * channels together without a colour space. The loops here are the definition; enhance_avx2.c gives
 * the same bytes. */
#include "kernels.h"
#include "pixels.h"

void hrn_blend_scalar(uint8_t *pixels, size_t count, int32_t from, float factor) {
  uint8_t table[256];
  for (int32_t v = 0; v < 256; v++) table[v] = hrn_blend(from, v, factor);
  for (size_t k = 0; k < 4 * count; k++) pixels[k] = table[pixels[k]];
}

void hrn_saturate_scalar(uint8_t *pixel, size_t count, float factor) {
  for (size_t x = 0; x < count; x++, pixel += 4) {
    const int32_t grey = hrn_grey(pixel);
    for (int32_t c = 0; c < 3; c++) pixel[c] = hrn_blend(grey, pixel[c], factor);
  }
}

void hrn_turn_grey_scalar(uint8_t *pixel, size_t count) {
  for (size_t x = 0; x < count; x++, pixel += 4) pixel[0] = pixel[1] = pixel[2] = hrn_grey(pixel);
}

uint64_t hrn_sum_grey_scalar(const uint8_t *pixel, size_t count) {
  uint64_t sum = 0;
  for (size_t x = 0; x < count; x++, pixel += 4) sum += hrn_grey(pixel);
  return sum;
}

static uint8_t *row_of(const hrn_image *image, int32_t y) {
  return image->pixels + (size_t)y * image->stride;
}

/* The mean of the grey image, rounded as by ImageEnhance.Contrast. A sum of bytes over 2^48 pixels
 * still fits. */
static int32_t mean_grey(const hrn_image *image) {
  const hrn_pixel_kernels *kernels = hrn_pixel_kernels_chosen();
  uint64_t sum = 0;
  for (int32_t y = 0; y < image->height; y++) {
    sum += kernels->sum_grey(row_of(image, y), (size_t)image->width);
  }
  const double pixels = (double)image->width * (double)image->height;
  return (int32_t)((double)sum / pixels + 0.5);
}

static void blend(hrn_image *image, int32_t from, float factor) {
  const hrn_pixel_kernels *kernels = hrn_pixel_kernels_chosen();
  const size_t width = (size_t)image->width, height = (size_t)image->height;
  /* Rows without gaps are treated as one long row, so that the scalar loop makes its table only
   * once. */
  if (image->stride == 4 * width) {
    kernels->blend(image->pixels, width * height, from, factor);
    return;
  }
  for (int32_t y = 0; y < image->height; y++) {
    kernels->blend(row_of(image, y), width, from, factor);
  }
}

/* ImageEnhance.Brightness: from black (factor 0) to the image (factor 1) and beyond. */
void hrn_brightness(hrn_image *image, float factor) { blend(image, 0, factor); }

/* ImageEnhance.Contrast: the same, but from the mean's grey. */
void hrn_contrast(hrn_image *image, float factor) { blend(image, mean_grey(image), factor); }

/* ImageEnhance.Color: the same, but from the grey image. */
void hrn_saturation(hrn_image *image, float factor) {
  const hrn_pixel_kernels *kernels = hrn_pixel_kernels_chosen();
  for (int32_t y = 0; y < image->height; y++) {
    kernels->saturate(row_of(image, y), (size_t)image->width, factor);
  }
}

void hrn_turn_grey(hrn_image *image) {
  const hrn_pixel_kernels *kernels = hrn_pixel_kernels_chosen();
  for (int32_t y = 0; y < image->height; y++) {
    kernels->turn_grey(row_of(image, y), (size_t)image->width);
  }
}

void hrn_permute_channels(hrn_image *image, const int32_t order[3]) {
  for (int32_t y = 0; y < image->height; y++) {
    uint8_t *pixel = row_of(image, y);
    for (int32_t x = 0; x < image->width; x++, pixel += 4) {
      const uint8_t was[3] = {pixel[0], pixel[1], pixel[2]};
      for (int32_t c = 0; c < 3; c++) pixel[c] = was[order[c]];
    }
  }
}
