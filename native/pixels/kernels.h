/* kernels.h: the inner loops of ops on pixels, of which an instruction set has its own.
 *
 * All sets give the same bytes. Pixels are four bytes, of which the fourth means nothing; `count`
 * is of pixels. Nothing beyond them is read or written.
 */
#ifndef HEADRACE_PIXELS_KERNELS_H
#define HEADRACE_PIXELS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "../core/cpu.h"

/* A map of nearest pixels as Pillow's fixed point has it: output pixel n of a row shows the input's
 * pixel (x + n * step_x, y + n * step_y), in 1/65536, or the fill where that lies outside. */
typedef struct hrn_nearest_row {
  const uint8_t *pixels; /* of the input */
  size_t stride;
  int32_t width, height;
  uint8_t fill[4];
  int64_t x, y, step_x, step_y;
} hrn_nearest_row;

/* An image, and places in it: pixel (c, r) reaches from c to c + 1 and from r to r + 1. */
typedef struct hrn_places {
  const uint8_t *pixels;
  size_t stride;
  int32_t width, height;
  const double *x, *y;
} hrn_places;

/* Written so that NaN, which a perspective's horizon gives, is outside. */
static inline int hrn_inside(const hrn_places *image, double x, double y) {
  return x >= 0.0 && x < image->width && y >= 0.0 && y < image->height;
}

/* A kernel of `down` rows of `across` weights around one row of an image: the rows under it, and
 * the width, beyond which columns are mirrored. Sums are in the order of rows, with one rounding
 * for a product and its sum. */
typedef struct hrn_blur_window {
  const uint8_t *const *row;
  const float *weight;
  int32_t across, down, width;
} hrn_blur_window;

/* Where position `at` stands in a line that is mirrored at its ends without repeating them; it is
 * less than a line away. */
static inline int32_t hrn_mirrored(int32_t at, int32_t length) {
  if (at < 0) at = -at;
  return at < length ? at : 2 * (length - 1) - at;
}

typedef struct hrn_pixel_kernels {
  /* enhance.c, in place. blend: each value from `from` (factor 0) to itself (factor 1) and beyond;
   * saturate: the same from the pixel's own grey. */
  void (*blend)(uint8_t *pixels, size_t count, int32_t from, float factor);
  void (*saturate)(uint8_t *pixels, size_t count, float factor);
  void (*turn_grey)(uint8_t *pixels, size_t count);
  uint64_t (*sum_grey)(const uint8_t *pixels, size_t count);

  /* point.c: widens the range of each channel, low to high, by the pixels' values. */
  void (*extremes)(const uint8_t *pixels, size_t count, uint8_t low[4], uint8_t high[4]);

  /* hue.c, in place: `turn` of 256. */
  void (*turn_hue)(uint8_t *pixels, size_t count, uint8_t turn);

  /* sharpen.c: pixels that have neighbours on both sides, and rows above and below. */
  void (*sharpen)(const uint8_t *above, const uint8_t *here, const uint8_t *below, size_t count,
                  float factor, uint8_t *out);

  /* blur.c: line[n] = the sum of weight[k] * row[k][n] in order of k, for 4 * count values; each
   * pixel the sum of weight[k] * pixel x + k of the line, rounded, of which those values within
   * `margin` of a tie are written down, 3 * count at most, and counted; and those made again. */
  void (*blur_down)(const uint8_t *const *row, const float *weight, int32_t size, size_t count,
                    float *line);
  size_t (*blur_across)(const float *line, const float *weight, int32_t size, size_t count,
                        float margin, uint8_t *out, uint32_t *doubtful);
  void (*blur_again)(const hrn_blur_window *window, const uint32_t *value, size_t count,
                     uint8_t *out);

  /* warp.c */
  void (*nearest)(const hrn_nearest_row *row, size_t count, uint8_t *out);

  /* filter.c: a pixel for each place; where that lies outside, `out` stays as it is. */
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
void hrn_blur_down_scalar(const uint8_t *const *, const float *, int32_t, size_t, float *);
size_t hrn_blur_across_scalar(const float *, const float *, int32_t, size_t, float, uint8_t *,
                              uint32_t *);
void hrn_blur_again_scalar(const hrn_blur_window *, const uint32_t *, size_t, uint8_t *);
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
void hrn_blur_down_avx2(const uint8_t *const *, const float *, int32_t, size_t, float *);
size_t hrn_blur_across_avx2(const float *, const float *, int32_t, size_t, float, uint8_t *,
                            uint32_t *);
void hrn_blur_again_avx2(const hrn_blur_window *, const uint32_t *, size_t, uint8_t *);
void hrn_nearest_avx2(const hrn_nearest_row *, size_t, uint8_t *);
void hrn_bilinear_avx2(const hrn_places *, size_t, uint8_t *);
void hrn_bicubic_avx2(const hrn_places *, size_t, uint8_t *);
#endif

extern const hrn_pixel_kernels hrn_pixel_kernels_of[HRN_LEVELS];

static inline const hrn_pixel_kernels *hrn_pixel_kernels_chosen(void) {
  return &hrn_pixel_kernels_of[hrn_cpu_level()];
}

#endif
