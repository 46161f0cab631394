/* kernels.h: the inner loops of ops on pixels. An instruction set has its own.
 *
 * All sets give the same bytes. A pixel has four bytes, of which the fourth means nothing. `count`
 * is a number of pixels. Nothing beyond them is read or written.
 */
#ifndef HEADRACE_PIXELS_KERNELS_H
#define HEADRACE_PIXELS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "../core/cpu.h"

/* A map to nearest pixels in Pillow's fixed point. Output pixel n of a row shows the input's pixel
 * (x + n * step_x, y + n * step_y), in 1/65536, or the fill if that lies outside. */
typedef struct hrn_nearest_row {
  const uint8_t *pixels; /* of the input */
  size_t stride;
  int32_t width, height;
  uint8_t fill[4];
  int64_t x, y, step_x, step_y;
} hrn_nearest_row;

/* An image, and places in it. Pixel (c, r) reaches from c to c + 1 and from r to r + 1. */
typedef struct hrn_places {
  const uint8_t *pixels;
  size_t stride;
  int32_t width, height;
  const double *x, *y;
} hrn_places;

/* This is written so that NaN, which a perspective's horizon gives, is outside. */
static inline int hrn_inside(const hrn_places *image, double x, double y) {
  return x >= 0.0 && x < image->width && y >= 0.0 && y < image->height;
}

/* An input image, the output image, and a kernel of `down` rows of `across` weights. Rows and
 * columns are mirrored at the edges. Rows of weights are `step` apart, a multiple of HRN_BLUR_STEP,
 * with weights of 0 between them. Sums are made in the order of rows, with one rounding for a
 * product and its sum. */
#define HRN_BLUR_STEP 4
typedef struct hrn_blur_window {
  const uint8_t *pixels;
  uint8_t *out;
  size_t stride, out_stride;
  int32_t width, height;
  const float *weight;
  int32_t across, down, step;
} hrn_blur_window;

/* Value 3 * x + channel of a row. */
typedef struct hrn_blur_value {
  int32_t row;
  uint32_t at;
} hrn_blur_value;

/* A sum is in doubt if its distance to the nearest integer, plus `slope` times the sum, is more
 * than `most`. */
typedef struct hrn_blur_doubt {
  float slope, most;
} hrn_blur_doubt;

/* Where position `at` is in a line that is mirrored at its ends without repeating them. It must be
 * less than a line away. */
static inline int32_t hrn_mirrored(int32_t at, int32_t length) {
  if (at < 0) at = -at;
  return at < length ? at : 2 * (length - 1) - at;
}

typedef struct hrn_pixel_kernels {
  /* enhance.c, in place. blend: from `from` (factor 0) to the value itself (factor 1) and beyond.
   * saturate: the same from the pixel's own grey. */
  void (*blend)(uint8_t *pixels, size_t count, int32_t from, float factor);
  void (*saturate)(uint8_t *pixels, size_t count, float factor);
  void (*turn_grey)(uint8_t *pixels, size_t count);
  uint64_t (*sum_grey)(const uint8_t *pixels, size_t count);

  /* point.c: widens the range of each channel, low to high, so that it holds the pixels' values. */
  void (*extremes)(const uint8_t *pixels, size_t count, uint8_t low[4], uint8_t high[4]);

  /* hue.c, in place: turns the hue by `turn` of 256. */
  void (*turn_hue)(uint8_t *pixels, size_t count, uint8_t turn);

  /* sharpen.c: for pixels that have neighbours on both sides, and rows above and below. */
  void (*sharpen)(const uint8_t *above, const uint8_t *here, const uint8_t *below, size_t count,
                  float factor, uint8_t *out);

  /* blur.c, three values a pixel. Products are added in the order of k, with a rounding for the
   * product and one for the sum. blur_open gives the values of pixels. blur_across gives sums[n],
   * the sum of weight[k] times line[n + 3 * k]. blur_down gives the rounded sums of weight[k] times
   * row[k][n], of the pixels from `first` up to `count`. It writes down which of the row's values
   * are in doubt, and counts them. blur_again makes those values again. */
  void (*blur_open)(const uint8_t *pixels, size_t count, float *line);
  void (*blur_across)(const float *line, const float *weight, int32_t size, size_t count,
                      float *sums);
  size_t (*blur_down)(const float *const *row, const float *weight, int32_t size, size_t first,
                      size_t count, hrn_blur_doubt doubt, uint8_t *out, uint32_t *doubtful);
  void (*blur_again)(const hrn_blur_window *window, const hrn_blur_value *value, size_t count);

  /* warp.c */
  void (*nearest)(const hrn_nearest_row *row, size_t count, uint8_t *out);

  /* filter.c: makes a pixel for each place. If the place lies outside, `out` stays as it is. */
  void (*bilinear)(const hrn_places *places, size_t count, uint8_t *out);
  void (*bicubic)(const hrn_places *places, size_t count, uint8_t *out);
} hrn_pixel_kernels;

void hrn_blend_scalar(uint8_t *, size_t, int32_t, float);
void hrn_saturate_scalar(uint8_t *, size_t, float);
void hrn_turn_grey_scalar(uint8_t *, size_t);
uint64_t hrn_sum_grey_scalar(const uint8_t *, size_t);
void hrn_extremes_scalar(const uint8_t *, size_t, uint8_t[4], uint8_t[4]);
void hrn_turn_hue_scalar(uint8_t *, size_t, uint8_t);
void hrn_sharpen_scalar(const uint8_t *, const uint8_t *, const uint8_t *, size_t, float,
                        uint8_t *);
void hrn_blur_open_scalar(const uint8_t *, size_t, float *);
void hrn_blur_across_scalar(const float *, const float *, int32_t, size_t, float *);
size_t hrn_blur_down_scalar(const float *const *, const float *, int32_t, size_t, size_t,
                            hrn_blur_doubt, uint8_t *, uint32_t *);
void hrn_blur_again_scalar(const hrn_blur_window *, const hrn_blur_value *, size_t);
void hrn_nearest_scalar(const hrn_nearest_row *, size_t, uint8_t *);
void hrn_bilinear_scalar(const hrn_places *, size_t, uint8_t *);
void hrn_bicubic_scalar(const hrn_places *, size_t, uint8_t *);

#if defined(__x86_64__)
void hrn_blend_avx2(uint8_t *, size_t, int32_t, float);
void hrn_saturate_avx2(uint8_t *, size_t, float);
void hrn_turn_grey_avx2(uint8_t *, size_t);
uint64_t hrn_sum_grey_avx2(const uint8_t *, size_t);
void hrn_extremes_avx2(const uint8_t *, size_t, uint8_t[4], uint8_t[4]);
void hrn_turn_hue_avx2(uint8_t *, size_t, uint8_t);
void hrn_sharpen_avx2(const uint8_t *, const uint8_t *, const uint8_t *, size_t, float, uint8_t *);
void hrn_blur_open_avx2(const uint8_t *, size_t, float *);
void hrn_blur_across_avx2(const float *, const float *, int32_t, size_t, float *);
size_t hrn_blur_down_avx2(const float *const *, const float *, int32_t, size_t, size_t,
                          hrn_blur_doubt, uint8_t *, uint32_t *);
void hrn_blur_again_avx2(const hrn_blur_window *, const hrn_blur_value *, size_t);
void hrn_nearest_avx2(const hrn_nearest_row *, size_t, uint8_t *);
void hrn_bilinear_avx2(const hrn_places *, size_t, uint8_t *);
void hrn_bicubic_avx2(const hrn_places *, size_t, uint8_t *);
#endif

extern const hrn_pixel_kernels hrn_pixel_kernels_of[HRN_LEVELS];

static inline const hrn_pixel_kernels *hrn_pixel_kernels_chosen(void) {
  return &hrn_pixel_kernels_of[hrn_cpu_level()];
}

#endif
