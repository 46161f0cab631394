/* point.c: ops that come down to one table of 256 values a channel, as Pillow computes them
 * (Image.point), and ops whose table in Pillow is arithmetic on a few bits. */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "pixels.h"

/* Counts in two parts that are added up at the end. Neighbouring pixels often have the same value,
 * and a count would wait for the one before it. */
static void count_values(const hrn_image *image, hrn_histogram histogram) {
  hrn_histogram other;
  memset(histogram, 0, sizeof(hrn_histogram));
  memset(other, 0, sizeof(hrn_histogram));
  for (int32_t y = 0; y < image->height; y++) {
    const uint8_t *pixel = image->pixels + (size_t)y * image->stride;
    for (int32_t x = 0; x < image->width / 2; x++, pixel += 8) {
      for (int c = 0; c < 3; c++) {
        histogram[c][pixel[c]]++;
        other[c][pixel[4 + c]]++;
      }
    }
    for (int c = 0; c < 3 && image->width % 2 != 0; c++) histogram[c][pixel[c]]++;
  }
  for (int c = 0; c < 3; c++) {
    for (int v = 0; v < 256; v++) histogram[c][v] += other[c][v];
  }
}

void hrn_extremes_scalar(const uint8_t *pixel, size_t count, uint8_t low[4], uint8_t high[4]) {
  for (size_t x = 0; x < count; x++, pixel += 4) {
    for (int c = 0; c < 3; c++) {
      low[c] = pixel[c] < low[c] ? pixel[c] : low[c];
      high[c] = pixel[c] > high[c] ? pixel[c] : high[c];
    }
  }
}

/* ImageOps.autocontrast without cutoff: the darkest value in the image becomes 0, the lightest
 * 255. */
static void stretch(int32_t low, int32_t high, uint8_t table[256]) {
  if (high <= low) return;
  const double scale = 255.0 / (high - low), offset = -low * scale;
  for (int32_t v = 0; v < 256; v++) {
    const int32_t value = (int32_t)(v * scale + offset); /* int() truncates towards 0 */
    table[v] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
  }
}

/* ImageOps.equalize: all numbers are integers. The step leaves out the lightest value in the
 * image. */
static void equalize(const uint32_t count[256], uint8_t table[256]) {
  uint64_t sum = 0;
  uint32_t last = 0;
  for (int32_t v = 0; v < 256; v++) {
    sum += count[v];
    if (count[v] != 0) last = count[v];
  }
  /* With only one value, sum == last and the step is 0. */
  const uint64_t step = (sum - last) / 255;
  if (step == 0) return;
  uint64_t n = step / 2;
  for (int32_t v = 0; v < 256; v++) {
    const uint64_t value = n / step;
    table[v] = (uint8_t)(value > 255 ? 255 : value); /* as Image.point takes a list */
    n += count[v];
  }
}

/* torchvision's own list for a gamma. As Pillow limits a list's entries, values beyond 255 become
 * 255, and values below 0 become 0. NaN becomes 0, too. */
static uint8_t gamma_of(const hrn_pixel_gamma *gamma, int32_t v) {
  const double value = (255 + 1 - 1e-3) * gamma->gain * pow(v / 255.0, gamma->gamma);
  return (uint8_t)(value >= 255 ? 255 : value > 0 ? value : 0);
}

void hrn_table_of(const hrn_pixel_op *op, const hrn_image *image, hrn_table table) {
  for (int32_t c = 0; c < 3; c++) {
    for (int32_t v = 0; v < 256; v++) table[c][v] = (uint8_t)v;
  }
  switch (op->kind) {
    case HRN_PIXEL_AUTOCONTRAST: {
      uint8_t low[4] = {255, 255, 255, 255}, high[4] = {0, 0, 0, 0};
      const hrn_pixel_kernels *kernels = hrn_pixel_kernels_chosen();
      for (int32_t y = 0; y < image->height; y++) {
        const uint8_t *row = image->pixels + (size_t)y * image->stride;
        kernels->extremes(row, (size_t)image->width, low, high);
      }
      for (int32_t c = 0; c < 3; c++) stretch(low[c], high[c], table[c]);
      break;
    }
    case HRN_PIXEL_EQUALIZE: {
      hrn_histogram histogram;
      count_values(image, histogram);
      for (int32_t c = 0; c < 3; c++) equalize(histogram[c], table[c]);
      break;
    }
    case HRN_PIXEL_SOLARIZE_ADD:
      for (int32_t v = 0; v < op->args.solarize_add.threshold; v++) {
        const int32_t sum = v + op->args.solarize_add.add;
        table[0][v] = table[1][v] = table[2][v] = (uint8_t)(sum < 255 ? sum : 255);
      }
      break;
    default: /* HRN_PIXEL_GAMMA */
      for (int32_t v = 0; v < 256; v++) {
        table[0][v] = table[1][v] = table[2][v] = gamma_of(&op->args.gamma, v);
      }
      break;
  }
}

static int changes_nothing(hrn_table table) {
  for (int32_t c = 0; c < 3; c++) {
    for (int32_t v = 0; v < 256; v++) {
      if (table[c][v] != v) return 0;
    }
  }
  return 1;
}

void hrn_table_apply(hrn_table table, hrn_image *image) {
  /* For example, the table of autocontrast for most photographs, which have black and white
   * already. */
  if (changes_nothing(table)) return;
  for (int32_t y = 0; y < image->height; y++) {
    uint8_t *pixel = image->pixels + (size_t)y * image->stride;
    for (int32_t x = 0; x < image->width; x++, pixel += 4) {
      pixel[0] = table[0][pixel[0]];
      pixel[1] = table[1][pixel[1]];
      pixel[2] = table[2][pixel[2]];
    }
  }
}

/* The three ops that follow are loops over bytes, which compilers make vectors of. */
void hrn_invert(hrn_image *image) {
  const size_t bytes = 4 * (size_t)image->width;
  for (int32_t y = 0; y < image->height; y++) {
    uint8_t *row = image->pixels + (size_t)y * image->stride;
    for (size_t k = 0; k < bytes; k++) row[k] = (uint8_t)~row[k];
  }
}

void hrn_posterize(hrn_image *image, int32_t bits) {
  const size_t bytes = 4 * (size_t)image->width;
  const uint8_t kept = (uint8_t)(0xFF00 >> bits);
  for (int32_t y = 0; y < image->height; y++) {
    uint8_t *row = image->pixels + (size_t)y * image->stride;
    for (size_t k = 0; k < bytes; k++) row[k] &= kept;
  }
}

void hrn_solarize(hrn_image *image, double threshold) {
  if (!(threshold <= 255)) return;
  /* An integer is at least the threshold if it is at least the next integer from there on. */
  const uint8_t from = (uint8_t)(threshold > 0 ? ceil(threshold) : 0);
  const size_t bytes = 4 * (size_t)image->width;
  for (int32_t y = 0; y < image->height; y++) {
    uint8_t *row = image->pixels + (size_t)y * image->stride;
    for (size_t k = 0; k < bytes; k++) row[k] = row[k] < from ? row[k] : (uint8_t)~row[k];
  }
}
