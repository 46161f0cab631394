/* point.c: ops that come down to one table of 256 values a channel.
 *
 * Pillow computes them so itself (Image.point) or is equal to it: Image.blend with a black or a
 * grey image looks at one value at a time. 768 entries are made with the very arithmetic, and the
 * image is then only looked up.
 */
#include <math.h>
#include <string.h>

#include "pixels.h"

static void count_values(const hrn_image *image, hrn_histogram histogram) {
  memset(histogram, 0, sizeof(hrn_histogram));
  for (int32_t y = 0; y < image->height; y++) {
    const uint8_t *pixel = image->pixels + (size_t)y * image->stride;
    for (int32_t x = 0; x < image->width; x++, pixel += 4) {
      histogram[0][pixel[0]]++;
      histogram[1][pixel[1]]++;
      histogram[2][pixel[2]]++;
    }
  }
}

/* The mean of the grey image as ImageEnhance.Contrast rounds it. A sum of bytes over 2^48 pixels
 * still fits. */
static int32_t mean_grey(const hrn_image *image) {
  uint64_t sum = 0;
  for (int32_t y = 0; y < image->height; y++) {
    const uint8_t *pixel = image->pixels + (size_t)y * image->stride;
    for (int32_t x = 0; x < image->width; x++, pixel += 4) sum += hrn_grey(pixel);
  }
  const double pixels = (double)image->width * (double)image->height;
  return (int32_t)((double)sum / pixels + 0.5);
}

/* ImageOps.autocontrast without cutoff: the darkest value there is becomes 0, the lightest 255. */
static void stretch(const uint32_t count[256], uint8_t table[256]) {
  int32_t low = 0, high = 255;
  while (low < 255 && count[low] == 0) low++;
  while (high > 0 && count[high] == 0) high--;
  if (high <= low) return;
  const double scale = 255.0 / (high - low), offset = -low * scale;
  for (int32_t v = 0; v < 256; v++) {
    const int32_t value = (int32_t)(v * scale + offset); /* int() cuts off towards 0 */
    table[v] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
  }
}

/* ImageOps.equalize: whole numbers all along; the step leaves out the lightest value there is. */
static void equalize(const uint32_t count[256], uint8_t table[256]) {
  uint64_t sum = 0;
  uint32_t last = 0;
  for (int32_t v = 0; v < 256; v++) {
    sum += count[v];
    if (count[v] != 0) last = count[v];
  }
  /* One value alone: sum == last, and the step is 0. */
  const uint64_t step = (sum - last) / 255;
  if (step == 0) return;
  uint64_t n = step / 2;
  for (int32_t v = 0; v < 256; v++) {
    const uint64_t value = n / step;
    table[v] = (uint8_t)(value > 255 ? 255 : value); /* as Image.point takes a list */
    n += count[v];
  }
}

/* The value that one pixel's channel becomes, where all channels share it. */
static uint8_t point(const hrn_pixel_op *op, int32_t v, int32_t grey) {
  switch (op->kind) {
    case HRN_PIXEL_INVERT:
      return (uint8_t)(255 - v);
    case HRN_PIXEL_POSTERIZE:
      return (uint8_t)(v & ~((1 << (8 - op->i[0])) - 1));
    case HRN_PIXEL_SOLARIZE:
      return (uint8_t)(v < op->p[0] ? v : 255 - v);
    case HRN_PIXEL_SOLARIZE_ADD:
      return (uint8_t)(v < op->i[1] ? (v + op->i[0] < 255 ? v + op->i[0] : 255) : v);
    case HRN_PIXEL_GAMMA: {
      /* torchvision's own list; beyond 255 a list is cut off, and so is NaN's stand-in. */
      const double value = (255 + 1 - 1e-3) * op->p[1] * pow(v / 255.0, op->p[0]);
      return (uint8_t)(value >= 255 ? 255 : value > 0 ? value : 0);
    }
    default: /* brightness: from black; contrast: from the mean's grey */
      return hrn_blend(grey, v, (float)op->p[0]);
  }
}

int hrn_table_of(const hrn_pixel_op *op, const hrn_image *image, hrn_table table) {
  int32_t grey = 0;
  switch (op->kind) {
    case HRN_PIXEL_AUTOCONTRAST:
    case HRN_PIXEL_EQUALIZE: {
      hrn_histogram histogram;
      count_values(image, histogram);
      for (int32_t c = 0; c < 3; c++) {
        for (int32_t v = 0; v < 256; v++) table[c][v] = (uint8_t)v;
        (op->kind == HRN_PIXEL_EQUALIZE ? equalize : stretch)(histogram[c], table[c]);
      }
      return 1;
    }
    case HRN_PIXEL_CONTRAST:
      grey = mean_grey(image);
      break;
    case HRN_PIXEL_INVERT:
    case HRN_PIXEL_POSTERIZE:
    case HRN_PIXEL_SOLARIZE:
    case HRN_PIXEL_SOLARIZE_ADD:
    case HRN_PIXEL_GAMMA:
    case HRN_PIXEL_BRIGHTNESS:
      break;
    default:
      return 0;
  }
  for (int32_t v = 0; v < 256; v++) table[0][v] = table[1][v] = table[2][v] = point(op, v, grey);
  return 1;
}

void hrn_table_apply(hrn_table table, hrn_image *image) {
  for (int32_t y = 0; y < image->height; y++) {
    uint8_t *pixel = image->pixels + (size_t)y * image->stride;
    for (int32_t x = 0; x < image->width; x++, pixel += 4) {
      pixel[0] = table[0][pixel[0]];
      pixel[1] = table[1][pixel[1]];
      pixel[2] = table[2][pixel[2]];
    }
  }
}
