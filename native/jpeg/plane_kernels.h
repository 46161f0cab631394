/* plane_kernels.h: kernels that turn the coefficients of a JPEG into pixels, on planes of samples:
 * inverse DCT, upsampling of chroma, and YCbCr to RGB. */
#ifndef HEADRACE_JPEG_PLANE_KERNELS_H
#define HEADRACE_JPEG_PLANE_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "../core/cpu.h"

/* Bytes behind a row's samples that the kernels may read, and that hrn_idct may write, because they
 * work in whole vectors. Upsampling also reads one byte before a row. */
#define HRN_PLANE_PADDING 64

/* Where pairs of blocks lie: the second block of a pair is `second` coefficients behind its first
 * one, and the next pair `step` coefficients behind this one. */
typedef struct hrn_block_pairs {
  const int16_t *first;
  size_t second, step, count;
} hrn_block_pairs;

/* Dequantises (with 16-bit products, as libjpeg-turbo's SIMD does) and transforms with
 * libjpeg-turbo's slow integer DCT. The blocks of a pair come side by side: 8 rows of 16 bytes,
 * `stride` apart. */
typedef void (*hrn_idct_kernel)(const hrn_block_pairs *pairs, const int16_t *quantisation,
                                uint8_t *rows, size_t stride);

/* libjpeg's fancy upsampling: makes twice `count` samples of `count`. It uses the samples before
 * the first and behind the last as well. `far` is the row next to `near`, on the side where the
 * output row lies. */
typedef void (*hrn_double_kernel)(const uint8_t *row, int32_t count, uint8_t *out);
typedef void (*hrn_quadruple_kernel)(const uint8_t *near, const uint8_t *far, int32_t count,
                                     uint8_t *out);

/* Converts to RGBX, with 255 for X. Writes whole vectors of pixels, so up to 31 pixels beyond
 * `count`. */
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

extern const hrn_plane_kernels hrn_plane_kernels_of[HRN_LEVELS]; /* all members NULL: no kernels */

/* NULL: libjpeg makes the pixels. */
static inline const hrn_plane_kernels *hrn_plane_kernels_chosen(void) {
  const hrn_plane_kernels *kernels = &hrn_plane_kernels_of[hrn_cpu_level()];
  return kernels->idct != NULL ? kernels : NULL;
}

#endif
