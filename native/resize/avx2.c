/* avx2.c: the two passes with 256-bit vectors, with the same bytes as scalar.c.
 *
 * AVX2 multiplies 16-bit integers two at a time and adds the products (vpmaddwd), at the price of
 * one 32-bit multiply. A 22-bit coefficient does not fit, so it is split into two halves, and the
 * exact 32-bit sum is computed from both. Nothing is approximated.
 */
#include "resize.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define HRN_AVX2 __attribute__((target("avx2,fma,f16c")))
#define HRN_AVX2_INLINE static inline __attribute__((always_inline, target("avx2,fma,f16c")))

/* Copies two neighbouring 16-bit coefficients to every 32-bit lane. */
HRN_AVX2_INLINE __m256i pair_of(const int16_t *coefficients) {
  int32_t pair;
  memcpy(&pair, coefficients, 4);
  return _mm256_set1_epi32(pair);
}

/* Bytes R0 . R1 . G0 . G1 . ..., zero-extended, so that vpmaddwd finds side by side what it
 * adds. */
#define TAPS_0_1 0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1
#define TAPS_2_3 8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1

/* One output of two rows at once, with row 0 in the low lane and row 1 in the high one: R, G, B, X
 * as 32-bit sums shifted down to pixel values, not yet clipped. Four taps a step. With `two` there
 * is one step, and only its first two taps count. */
HRN_AVX2_INLINE __m256i weigh(const uint8_t *row0, const uint8_t *row1, const int16_t *halves,
                              int32_t steps, int two) {
  const __m256i first = _mm256_setr_epi8(TAPS_0_1, TAPS_0_1);
  const __m256i second = _mm256_setr_epi8(TAPS_2_3, TAPS_2_3);
  __m256i high = _mm256_setzero_si256();
  __m256i low = _mm256_set1_epi32(1 << (HRN_COEFFICIENT_BITS - 1));
  for (int32_t s = 0; s < steps; s++, row0 += 16, row1 += 16, halves += 8) {
    const __m256i pixels =
        _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)row0)),
                                _mm_loadu_si128((const __m128i *)row1), 1);
    const __m256i a = _mm256_shuffle_epi8(pixels, first);
    high = _mm256_add_epi32(high, _mm256_madd_epi16(a, pair_of(halves)));
    low = _mm256_add_epi32(low, _mm256_madd_epi16(a, pair_of(halves + 4)));
    if (two) break;
    const __m256i b = _mm256_shuffle_epi8(pixels, second);
    high = _mm256_add_epi32(high, _mm256_madd_epi16(b, pair_of(halves + 2)));
    low = _mm256_add_epi32(low, _mm256_madd_epi16(b, pair_of(halves + 6)));
  }
  return _mm256_srai_epi32(_mm256_add_epi32(_mm256_slli_epi32(high, 11), low),
                           HRN_COEFFICIENT_BITS);
}

/* The same with weights of HRN_FAST_BITS, which vpmaddwd takes as they are. */
HRN_AVX2_INLINE __m256i weigh_fast(const uint8_t *row0, const uint8_t *row1, const int16_t *weights,
                                   int32_t steps, int two) {
  const __m256i first = _mm256_setr_epi8(TAPS_0_1, TAPS_0_1);
  const __m256i second = _mm256_setr_epi8(TAPS_2_3, TAPS_2_3);
  __m256i sum = _mm256_set1_epi32(1 << (HRN_FAST_BITS - 1));
  for (int32_t s = 0; s < steps; s++, row0 += 16, row1 += 16, weights += 4) {
    const __m256i pixels =
        _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)row0)),
                                _mm_loadu_si128((const __m128i *)row1), 1);
    const __m256i a = _mm256_shuffle_epi8(pixels, first);
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(a, pair_of(weights)));
    if (two) break;
    const __m256i b = _mm256_shuffle_epi8(pixels, second);
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(b, pair_of(weights + 2)));
  }
  return _mm256_srai_epi32(sum, HRN_FAST_BITS);
}

/* `steps`, `two` and `fast` are constants in each call below, so the loop in weigh is unrolled. */
HRN_AVX2_INLINE void horizontal(const hrn_taps *taps, const uint8_t *row0, const uint8_t *row1,
                                uint8_t *out0, uint8_t *out1, int32_t steps, int two, int fast) {
  const int16_t *halves = taps->halves;
  const size_t weights = (fast ? 4 : 8) * (size_t)steps; /* an output */
  for (int32_t i = 0; i < taps->count; i += 4, halves += 4 * weights) {
    __m256i sums[4];
    for (int32_t k = 0; k < 4; k++) {
      const size_t at = 4 * (size_t)(uint32_t)taps->start[i + k];
      const int16_t *of = halves + (size_t)k * weights;
      sums[k] = fast ? weigh_fast(row0 + at, row1 + at, of, steps, two)
                     : weigh(row0 + at, row1 + at, of, steps, two);
    }
    const __m256i pixels = _mm256_packus_epi16(_mm256_packs_epi32(sums[0], sums[1]),
                                               _mm256_packs_epi32(sums[2], sums[3]));
    _mm_storeu_si128((__m128i *)(out0 + 4 * (size_t)i), _mm256_castsi256_si128(pixels));
    _mm_storeu_si128((__m128i *)(out1 + 4 * (size_t)i), _mm256_extracti128_si256(pixels, 1));
  }
}

/* The strides that occur most are constants, so that their loops are unrolled. */
HRN_AVX2_INLINE void horizontal_by_stride(const hrn_taps *taps, const uint8_t *row0,
                                          const uint8_t *row1, uint8_t *out0, uint8_t *out1,
                                          int fast) {
  if (taps->most <= 2) {
    horizontal(taps, row0, row1, out0, out1, 1, 1, fast);
  } else if (taps->stride == 4) {
    horizontal(taps, row0, row1, out0, out1, 1, 0, fast);
  } else if (taps->stride == 8) {
    horizontal(taps, row0, row1, out0, out1, 2, 0, fast);
  } else if (taps->stride == 12) {
    horizontal(taps, row0, row1, out0, out1, 3, 0, fast);
  } else {
    horizontal(taps, row0, row1, out0, out1, taps->stride / 4, 0, fast);
  }
}

HRN_AVX2 void hrn_horizontal_avx2(const hrn_taps *taps, const uint8_t *row0, const uint8_t *row1,
                                  uint8_t *out0, uint8_t *out1) {
  if (taps->split == HRN_SPLIT_WORDS) {
    horizontal_by_stride(taps, row0, row1, out0, out1, 0);
  } else if (taps->split == HRN_SPLIT_FAST) {
    horizontal_by_stride(taps, row0, row1, out0, out1, 1);
  } else {
    hrn_horizontal_scalar(taps, row0, row1, out0, out1);
  }
}

/* For any filter: takes 32 bytes of each row, and interleaves two rows to 16-bit pairs. */
HRN_AVX2_INLINE void vertical_words(const int16_t *halves, int32_t length, const uint8_t *first,
                                    size_t stride, uint8_t *out, size_t bytes) {
  const __m256i zero = _mm256_setzero_si256();
  for (size_t x = 0; x < bytes; x += 32) {
    __m256i sum_high[4], sum_low[4];
    for (int i = 0; i < 4; i++) {
      sum_high[i] = zero;
      sum_low[i] = _mm256_set1_epi32(1 << (HRN_COEFFICIENT_BITS - 1));
    }
    const uint8_t *row = first + x;
    for (int32_t k = 0; k < length; k += 2, row += 2 * stride) {
      const __m256i a = _mm256_loadu_si256((const __m256i *)row);
      const __m256i b = k + 1 < length ? _mm256_loadu_si256((const __m256i *)(row + stride)) : zero;
      const __m256i ab0 = _mm256_unpacklo_epi8(a, b), ab1 = _mm256_unpackhi_epi8(a, b);
      const __m256i pixels[4] = {_mm256_unpacklo_epi8(ab0, zero), _mm256_unpackhi_epi8(ab0, zero),
                                 _mm256_unpacklo_epi8(ab1, zero), _mm256_unpackhi_epi8(ab1, zero)};
      const __m256i h = pair_of(halves + 2 * k), l = pair_of(halves + 2 * k + 2);
      for (int i = 0; i < 4; i++) {
        sum_high[i] = _mm256_add_epi32(sum_high[i], _mm256_madd_epi16(pixels[i], h));
        sum_low[i] = _mm256_add_epi32(sum_low[i], _mm256_madd_epi16(pixels[i], l));
      }
    }
    for (int i = 0; i < 4; i++) {
      sum_low[i] = _mm256_srai_epi32(
          _mm256_add_epi32(_mm256_slli_epi32(sum_high[i], 11), sum_low[i]), HRN_COEFFICIENT_BITS);
    }
    const __m256i packed = _mm256_packus_epi16(_mm256_packs_epi32(sum_low[0], sum_low[1]),
                                               _mm256_packs_epi32(sum_low[2], sum_low[3]));
    _mm256_storeu_si256((__m256i *)(out + x), packed);
  }
}

/* For filters without negative weights and with at most HRN_BYTE_TAPS taps: weight = high * 2^15 +
 * low. The highs add up to at most 2^7, so their sum of products stays inside int16 and needs no
 * widening (vpmaddubsw). With S the sum of the lows' products and one half,
 *   (A * 2^15 + S) >> 22 == (A + (S >> 15)) >> 7, and A + (S >> 15) <= 255.5 * 2^7 < 2^15. */
HRN_AVX2_INLINE void vertical_bytes(const int16_t *halves, int32_t length, const uint8_t *first,
                                    size_t stride, uint8_t *out, size_t bytes) {
  const __m256i zero = _mm256_setzero_si256();
  for (size_t x = 0; x < bytes; x += 32) {
    __m256i sum_high[2] = {zero, zero}, sum_low[4];
    for (int i = 0; i < 4; i++) sum_low[i] = _mm256_set1_epi32(1 << (HRN_COEFFICIENT_BITS - 1));
    const uint8_t *row = first + x;
    for (int32_t k = 0; k < length; k += 2, row += 2 * stride) {
      const __m256i a = _mm256_loadu_si256((const __m256i *)row);
      const __m256i b = k + 1 < length ? _mm256_loadu_si256((const __m256i *)(row + stride)) : zero;
      const __m256i ab[2] = {_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)};
      const __m256i h = pair_of(halves + 2 * k), l = pair_of(halves + 2 * k + 2);
      for (int i = 0; i < 2; i++) {
        sum_high[i] = _mm256_add_epi16(sum_high[i], _mm256_maddubs_epi16(ab[i], h));
        sum_low[2 * i] = _mm256_add_epi32(sum_low[2 * i],
                                          _mm256_madd_epi16(_mm256_unpacklo_epi8(ab[i], zero), l));
        sum_low[2 * i + 1] = _mm256_add_epi32(
            sum_low[2 * i + 1], _mm256_madd_epi16(_mm256_unpackhi_epi8(ab[i], zero), l));
      }
    }
    for (int i = 0; i < 2; i++) {
      const __m256i carry = _mm256_packs_epi32(_mm256_srli_epi32(sum_low[2 * i], 15),
                                               _mm256_srli_epi32(sum_low[2 * i + 1], 15));
      sum_high[i] = _mm256_srli_epi16(_mm256_add_epi16(sum_high[i], carry), 7);
    }
    _mm256_storeu_si256((__m256i *)(out + x), _mm256_packus_epi16(sum_high[0], sum_high[1]));
  }
}

/* For weights of HRN_FAST_BITS: the loop of vertical_words with half of its multiplies. */
HRN_AVX2_INLINE void vertical_fast(const int16_t *weights, int32_t length, const uint8_t *first,
                                   size_t stride, uint8_t *out, size_t bytes) {
  const __m256i zero = _mm256_setzero_si256();
  for (size_t x = 0; x < bytes; x += 32) {
    __m256i sum[4];
    for (int i = 0; i < 4; i++) sum[i] = _mm256_set1_epi32(1 << (HRN_FAST_BITS - 1));
    const uint8_t *row = first + x;
    for (int32_t k = 0; k < length; k += 2, row += 2 * stride) {
      const __m256i a = _mm256_loadu_si256((const __m256i *)row);
      const __m256i b = k + 1 < length ? _mm256_loadu_si256((const __m256i *)(row + stride)) : zero;
      const __m256i ab0 = _mm256_unpacklo_epi8(a, b), ab1 = _mm256_unpackhi_epi8(a, b);
      const __m256i w = pair_of(weights + k);
      sum[0] = _mm256_add_epi32(sum[0], _mm256_madd_epi16(_mm256_unpacklo_epi8(ab0, zero), w));
      sum[1] = _mm256_add_epi32(sum[1], _mm256_madd_epi16(_mm256_unpackhi_epi8(ab0, zero), w));
      sum[2] = _mm256_add_epi32(sum[2], _mm256_madd_epi16(_mm256_unpacklo_epi8(ab1, zero), w));
      sum[3] = _mm256_add_epi32(sum[3], _mm256_madd_epi16(_mm256_unpackhi_epi8(ab1, zero), w));
    }
    for (int i = 0; i < 4; i++) sum[i] = _mm256_srai_epi32(sum[i], HRN_FAST_BITS);
    const __m256i packed =
        _mm256_packus_epi16(_mm256_packs_epi32(sum[0], sum[1]), _mm256_packs_epi32(sum[2], sum[3]));
    _mm256_storeu_si256((__m256i *)(out + x), packed);
  }
}

HRN_AVX2 void hrn_vertical_avx2(const hrn_taps *taps, int32_t output, const uint8_t *first,
                                size_t stride, uint8_t *out, size_t bytes) {
  const size_t at = (size_t)output * (size_t)taps->stride;
  const int16_t *halves = taps->halves + 2 * at;
  const int32_t length = taps->length[output];
  if (taps->split == HRN_SPLIT_NONE) {
    hrn_vertical_scalar(taps, output, first, stride, out, bytes);
  } else if (taps->split == HRN_SPLIT_FAST) {
    vertical_fast(taps->halves + at, length, first, stride, out, bytes);
  } else if (taps->split == HRN_SPLIT_WORDS) {
    vertical_words(halves, length, first, stride, out, bytes);
  } else if (length <= 2) {
    vertical_bytes(halves, length, first, stride, out, bytes);
  } else if (length == 3) {
    vertical_bytes(halves, 3, first, stride, out, bytes);
  } else if (length == 4) {
    vertical_bytes(halves, 4, first, stride, out, bytes);
  } else {
    vertical_bytes(halves, length, first, stride, out, bytes);
  }
}
#else
/* An empty translation unit is not ISO C. */
typedef int hrn_resize_avx2_absent;
#endif
