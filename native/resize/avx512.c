/* avx512.c: the two passes with 512-bit vectors, with the same bytes as scalar.c.
 *
 * vpdpbusd multiplies four unsigned bytes with four signed ones and adds all four products to a
 * 32-bit lane. So one instruction takes four taps of a channel, with pixels as they are. A 22-bit
 * weight is three signed digits, weight = (d2 * 2^8 + d1) * 2^8 + d0, and the exact sum is computed
 * by Horner's rule. Partial sums may wrap; whole sums never do.
 */
#include "resize.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni"
#define HRN_AVX512 __attribute__((target(TARGET)))
#define HRN_AVX512_INLINE static inline __attribute__((always_inline, target(TARGET)))

/* One half, before the two shifts by 8 of Horner's rule. */
#define HALF (1 << (HRN_COEFFICIENT_BITS - 1 - 16))

/* A digit is a signed byte. The highest digit takes what is left. Below this weight it is a signed
 * byte as well. */
#define MOST_WEIGHT (127 << 16)

/* Bytes of a step of 4 taps: for 4 outputs of a row, and for 1 output row. */
#define ACROSS_STEP (3 * 64)
#define DOWN_STEP 12

/* ---- weights ---- */

/* Takes the lowest digit of each lane, rounded so that the rest is an integer. *weights becomes the
 * rest. */
HRN_AVX512_INLINE __m512i take_digit(__m512i *weights) {
  const __m512i digit = _mm512_srai_epi32(_mm512_slli_epi32(*weights, 24), 24);
  *weights = _mm512_srai_epi32(_mm512_sub_epi32(*weights, digit), 8);
  return digit;
}

/* Stores the weights of four outputs with four taps each, 64 bytes a digit, the highest digit
 * first. An output has a lane of 16 bytes: its four digits, once for each channel. */
HRN_AVX512_INLINE void store_digits(__m512i weights, int8_t *to) {
  const __m512i lowest_bytes = _mm512_set1_epi32(0x0C080400);
  for (int digit = 2; digit >= 0; digit--) {
    const __m512i bytes = _mm512_shuffle_epi8(take_digit(&weights), lowest_bytes);
    _mm512_store_si512(to + 64 * digit, bytes);
  }
}

/* For each group of 4 outputs, stores which of the 64 bytes from the first output's first pixel on
 * are its taps, R0 R1 R2 R3 G0 ... X3 a lane. The digits follow, step by step. False if the 4
 * outputs are too far apart for one load. */
HRN_AVX512_INLINE int arrange_across(hrn_taps *taps) {
  const __m512i lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  const __m512i order =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  int8_t *to = (int8_t *)taps->halves;
  const int32_t outputs = (taps->count + HRN_TAPS_GROUP - 1) / HRN_TAPS_GROUP * HRN_TAPS_GROUP;
  for (int32_t i = 0; i < outputs; i += 4) {
    const int32_t *start = taps->start + i;
    if (start[3] - start[0] > 12) return 0;
    const __m128i first = _mm_loadu_si128((const __m128i *)start);
    __m128i bytes = _mm_slli_epi32(_mm_sub_epi32(first, _mm_set1_epi32(start[0])), 2);
    bytes = _mm_mullo_epi32(bytes, _mm_set1_epi32(0x01010101));
    const __m512i offsets = _mm512_permutexvar_epi32(lanes, _mm512_castsi128_si512(bytes));
    _mm512_store_si512(to, _mm512_add_epi8(offsets, order));
    to += 64;
    const int32_t *weight = taps->weight + (size_t)i * (size_t)taps->stride;
    for (int32_t k = 0; k < taps->stride; k += 4, to += ACROSS_STEP) {
      __m512i four = _mm512_setzero_si512();
      four = _mm512_inserti32x4(four, _mm_loadu_si128((const __m128i *)(weight + k)), 0);
      four = _mm512_inserti32x4(four, _mm_loadu_si128((const __m128i *)(weight + taps->stride + k)),
                                1);
      four = _mm512_inserti32x4(
          four, _mm_loadu_si128((const __m128i *)(weight + 2 * taps->stride + k)), 2);
      four = _mm512_inserti32x4(
          four, _mm_loadu_si128((const __m128i *)(weight + 3 * taps->stride + k)), 3);
      store_digits(four, to);
    }
  }
  return 1;
}

/* For each output, stores three digits of four taps, the highest digit first, step by step. */
HRN_AVX512_INLINE void arrange_down(hrn_taps *taps) {
  int8_t *to = (int8_t *)taps->halves;
  const size_t weights = (size_t)taps->count * (size_t)taps->stride;
  for (size_t k = 0; k < weights; k += 4, to += DOWN_STEP) {
    for (size_t tap = 0; tap < 4; tap++) {
      int32_t rest = taps->weight[k + tap];
      for (int digit = 2; digit >= 0; digit--) {
        to[4 * digit + (int)tap] = (int8_t)rest;
        rest = (rest - (int8_t)rest) >> 8;
      }
    }
  }
}

HRN_AVX512 void hrn_arrange_avx512(hrn_taps *taps, int horizontal) {
  const size_t weights = (size_t)taps->count * (size_t)taps->stride;
  int32_t least = 0, greatest = 0;
  for (size_t k = 0; k < weights; k++) {
    if (taps->weight[k] < least) least = taps->weight[k];
    if (taps->weight[k] > greatest) greatest = taps->weight[k];
  }
  taps->split = HRN_SPLIT_DIGITS;
  if (least <= -MOST_WEIGHT || greatest >= MOST_WEIGHT || (horizontal && !arrange_across(taps))) {
    hrn_arrange_avx2(taps, horizontal);
  } else if (!horizontal) {
    arrange_down(taps);
  }
}

/* ---- across ---- */

/* Computes four outputs: their sums shifted down to pixel values, not yet clipped, each in a lane
 * of R, G, B, X. `steps` is a constant if it is small. */
HRN_AVX512_INLINE __m512i four_outputs(const int8_t *group, const uint8_t *row, int32_t steps) {
  const __m512i order = _mm512_load_si512(group);
  const int8_t *digits = group + 64;
  __m512i sum = _mm512_set1_epi32(HALF);
  if (steps == 1) {
    const __m512i pixels = _mm512_permutexvar_epi8(order, _mm512_loadu_si512(row));
    sum = _mm512_dpbusd_epi32(sum, pixels, _mm512_load_si512(digits));
    sum = _mm512_slli_epi32(sum, 8);
    sum = _mm512_dpbusd_epi32(sum, pixels, _mm512_load_si512(digits + 64));
    sum = _mm512_slli_epi32(sum, 8);
    sum = _mm512_dpbusd_epi32(sum, pixels, _mm512_load_si512(digits + 128));
  } else {
    __m512i middle = _mm512_setzero_si512(), low = middle;
    for (int32_t s = 0; s < steps; s++, row += 16, digits += ACROSS_STEP) {
      const __m512i pixels = _mm512_permutexvar_epi8(order, _mm512_loadu_si512(row));
      sum = _mm512_dpbusd_epi32(sum, pixels, _mm512_load_si512(digits));
      middle = _mm512_dpbusd_epi32(middle, pixels, _mm512_load_si512(digits + 64));
      low = _mm512_dpbusd_epi32(low, pixels, _mm512_load_si512(digits + 128));
    }
    sum = _mm512_add_epi32(_mm512_slli_epi32(sum, 8), middle);
    sum = _mm512_add_epi32(_mm512_slli_epi32(sum, 8), low);
  }
  return _mm512_srai_epi32(sum, HRN_COEFFICIENT_BITS);
}

/* Computes 16 outputs in each iteration. */
HRN_AVX512_INLINE void across(const hrn_taps *taps, const uint8_t *row0, const uint8_t *row1,
                              uint8_t *out0, uint8_t *out1, int32_t steps) {
  /* Packing leaves lane j with output j of each of four groups. */
  const __m512i lanes = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const size_t bytes = 64 + (size_t)steps * ACROSS_STEP;
  const int8_t *group = (const int8_t *)taps->halves;
  const uint8_t *const rows[2] = {row0, row1};
  uint8_t *const out[2] = {out0, out1};
  for (int32_t i = 0; i < taps->count; i += 16, group += 4 * bytes) {
    for (int r = 0; r < 2; r++) {
      __m512i sums[4];
      for (size_t g = 0; g < 4; g++) {
        const size_t at = 4 * (size_t)(uint32_t)taps->start[(size_t)i + 4 * g];
        sums[g] = four_outputs(group + g * bytes, rows[r] + at, steps);
      }
      const __m512i pixels = _mm512_packus_epi16(_mm512_packs_epi32(sums[0], sums[1]),
                                                 _mm512_packs_epi32(sums[2], sums[3]));
      _mm512_storeu_si512(out[r] + 4 * (size_t)i, _mm512_permutexvar_epi32(lanes, pixels));
    }
  }
}

HRN_AVX512 void hrn_horizontal_avx512(const hrn_taps *taps, const uint8_t *row0,
                                      const uint8_t *row1, uint8_t *out0, uint8_t *out1) {
  if (taps->split != HRN_SPLIT_DIGITS) {
    hrn_horizontal_avx2(taps, row0, row1, out0, out1);
  } else if (taps->stride == 4) {
    across(taps, row0, row1, out0, out1, 1);
  } else if (taps->stride == 8) {
    across(taps, row0, row1, out0, out1, 2);
  } else {
    across(taps, row0, row1, out0, out1, taps->stride / 4);
  }
}

/* ---- down ---- */

HRN_AVX512_INLINE __m512i digits_of(const int8_t *digits) {
  int32_t four;
  memcpy(&four, digits, 4);
  return _mm512_set1_epi32(four);
}

/* Interleaves 64 bytes of four rows: each lane gets the 4 taps of one byte. */
HRN_AVX512_INLINE void interleave(const uint8_t *a, const uint8_t *b, const uint8_t *c,
                                  const uint8_t *d, __m512i pixels[4]) {
  const __m512i ra = _mm512_loadu_si512(a), rb = _mm512_loadu_si512(b);
  const __m512i rc = _mm512_loadu_si512(c), rd = _mm512_loadu_si512(d);
  const __m512i ab0 = _mm512_unpacklo_epi8(ra, rb), ab1 = _mm512_unpackhi_epi8(ra, rb);
  const __m512i cd0 = _mm512_unpacklo_epi8(rc, rd), cd1 = _mm512_unpackhi_epi8(rc, rd);
  pixels[0] = _mm512_unpacklo_epi16(ab0, cd0);
  pixels[1] = _mm512_unpackhi_epi16(ab0, cd0);
  pixels[2] = _mm512_unpacklo_epi16(ab1, cd1);
  pixels[3] = _mm512_unpackhi_epi16(ab1, cd1);
}

HRN_AVX512_INLINE __m512i joined(const __m512i sum[4]) {
  __m512i value[4];
  for (int i = 0; i < 4; i++) value[i] = _mm512_srai_epi32(sum[i], HRN_COEFFICIENT_BITS);
  return _mm512_packus_epi16(_mm512_packs_epi32(value[0], value[1]),
                             _mm512_packs_epi32(value[2], value[3]));
}

HRN_AVX512 void hrn_vertical_avx512(const hrn_taps *taps, int32_t output, const uint8_t *first,
                                    size_t stride, uint8_t *out, size_t bytes) {
  if (taps->split != HRN_SPLIT_DIGITS) {
    hrn_vertical_avx2(taps, output, first, stride, out, bytes);
    return;
  }
  const int32_t length = taps->length[output];
  const int8_t *digits =
      (const int8_t *)taps->halves + (size_t)output * ((size_t)taps->stride / 4) * DOWN_STEP;
  const __m512i half = _mm512_set1_epi32(HALF);
  if (length <= 4) {
    /* Rows that do not exist have weight 0, so any row will do. */
    const uint8_t *a = first, *b = length > 1 ? a + stride : a, *c = length > 2 ? b + stride : a,
                  *d = length > 3 ? c + stride : a;
    const __m512i d2 = digits_of(digits), d1 = digits_of(digits + 4), d0 = digits_of(digits + 8);
    for (size_t x = 0; x < bytes; x += 64) {
      __m512i pixels[4], sum[4];
      interleave(a + x, b + x, c + x, d + x, pixels);
      for (int i = 0; i < 4; i++) {
        sum[i] = _mm512_slli_epi32(_mm512_dpbusd_epi32(half, pixels[i], d2), 8);
        sum[i] = _mm512_slli_epi32(_mm512_dpbusd_epi32(sum[i], pixels[i], d1), 8);
        sum[i] = _mm512_dpbusd_epi32(sum[i], pixels[i], d0);
      }
      _mm512_storeu_si512(out + x, joined(sum));
    }
    return;
  }
  for (size_t x = 0; x < bytes; x += 64) {
    __m512i sum[4], middle[4], low[4];
    for (int i = 0; i < 4; i++) sum[i] = half, middle[i] = low[i] = _mm512_setzero_si512();
    const int8_t *step = digits;
    const uint8_t *row = first + x;
    for (int32_t k = 0; k < length; k += 4, row += 4 * stride, step += DOWN_STEP) {
      const int32_t left = length - k;
      __m512i pixels[4];
      interleave(row, left > 1 ? row + stride : row, left > 2 ? row + 2 * stride : row,
                 left > 3 ? row + 3 * stride : row, pixels);
      const __m512i d2 = digits_of(step), d1 = digits_of(step + 4), d0 = digits_of(step + 8);
      for (int i = 0; i < 4; i++) {
        sum[i] = _mm512_dpbusd_epi32(sum[i], pixels[i], d2);
        middle[i] = _mm512_dpbusd_epi32(middle[i], pixels[i], d1);
        low[i] = _mm512_dpbusd_epi32(low[i], pixels[i], d0);
      }
    }
    for (int i = 0; i < 4; i++) {
      sum[i] = _mm512_add_epi32(_mm512_slli_epi32(sum[i], 8), middle[i]);
      sum[i] = _mm512_add_epi32(_mm512_slli_epi32(sum[i], 8), low[i]);
    }
    _mm512_storeu_si512(out + x, joined(sum));
  }
}
#else
/* An empty translation unit is not ISO C. */
typedef int hrn_resize_avx512_absent;
#endif
