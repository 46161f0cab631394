/* plane_kernels.h: what turns the coefficients of a JPEG into pixels: inverse DCT, upsampling of
 * chroma, and YCbCr to RGB, as kernels on planes of samples. */
#ifndef HEADRACE_JPEG_PLANE_KERNELS_H
#define HEADRACE_JPEG_PLANE_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "../core/cpu.h"

/* Bytes behind the samples of a row that the kernels may read, and hrn_idct may write: they go on
 * in whole vectors. Before a row the upsampling reads one. */
#define HRN_PLANE_PADDING 64

/* Where blocks lie: pairs of them, `second` coefficients from the first to the other one, `step`
 * from one pair to the next. */
typedef struct hrn_block_pairs {
  const int16_t *first;
  size_t second, step, count;
} hrn_block_pairs;

/* Dequantises (16-bit products, as libjpeg-turbo's SIMD has them) and transforms with
 * libjpeg-turbo's slow integer DCT, side by side: 8 rows of 16 bytes a pair, `stride` apart. */
typedef void (*hrn_idct_kernel)(const hrn_block_pairs *pairs, const int16_t *quantisation,
                                uint8_t *rows, size_t stride);

/* libjpeg's fancy upsampling: `count` samples to twice as many. Samples before the first and behind
 * the last count, too. With `far`, the row next to `near` on the side where the output row lies. */
typedef void (*hrn_double_kernel)(const uint8_t *row, int32_t count, uint8_t *out);
typedef void (*hrn_quadruple_kernel)(const uint8_t *near, const uint8_t *far, int32_t count,
                                     uint8_t *out);

/* To RGBX, X 255; writes whole vectors of pixels, so up to 31 beyond `count`. */
typedef void (*hrn_colour_kernel)(const uint8_t *y, const uint8_t *cb, const uint8_t *cr,
                                  int32_t count, uint8_t *rgbx);
typedef void (*hrn_grey_kernel)(const uint8_t *y, int32_t count, uint8_t *rgbx);
#define HRN_COLOUR_PADDING (31 * 4)

typedef struct hrn_plane_kernels {
  hrn_idct_kernel idct;
  hrn_double_kernel h2v1;
  hrn_quadruple_kernel h2v2;
  hrn_colour_kernel colour;
  hrn_grey_kernel grey;
} hrn_plane_kernels;

#if defined(__x86_64__)
void hrn_idct_avx2(const hrn_block_pairs *, const int16_t *, uint8_t *, size_t);
void hrn_h2v1_avx2(const uint8_t *, int32_t, uint8_t *);
void hrn_h2v2_avx2(const uint8_t *, const uint8_t *, int32_t, uint8_t *);
void hrn_colour_avx2(const uint8_t *, const uint8_t *, const uint8_t *, int32_t, uint8_t *);
void hrn_grey_avx2(const uint8_t *, int32_t, uint8_t *);
#endif

extern const hrn_plane_kernels hrn_plane_kernels_of[HRN_LEVELS]; /* all NULL: there are none */

/* NULL: libjpeg makes the pixels. */
static inline const hrn_plane_kernels *hrn_plane_kernels_chosen(void) {
  const hrn_plane_kernels *kernels = &hrn_plane_kernels_of[hrn_cpu_level()];
  return kernels->idct != NULL ? kernels : NULL;
}

#endif
