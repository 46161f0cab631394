/* hue_avx2.c: the loop of hue.c with 256-bit vectors, 8 pixels at a time.
 *
 * The order of operations differs from hue.c's where that cannot be seen; ctest/kernels.c compares
 * every colour. A comment beside each such operation says why it rounds alike.
 */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define HRN_AVX2 __attribute__((target("avx2,fma,f16c")))
#define HRN_AVX2_INLINE static inline __attribute__((always_inline, target("avx2,fma,f16c")))

/* 255 * x in double precision, truncated, for a single-precision x >= 0. The rounded product may be
 * one too large. It is if the exact rest is below 0, whose sign a fused multiplication gives. */
HRN_AVX2_INLINE __m256i of_255(__m256 x) {
  const __m256 all = _mm256_set1_ps(255);
  const __m256i whole = _mm256_cvttps_epi32(_mm256_mul_ps(x, all));
  const __m256 rest = _mm256_fmsub_ps(x, all, _mm256_cvtepi32_ps(whole));
  return _mm256_add_epi32(whole, _mm256_srai_epi32(_mm256_castps_si256(rest), 31));
}

/* x / 255 for integers up to 255, rounded as by a division: the product with the reciprocal, and
 * what its rest adds. */
HRN_AVX2_INLINE __m256 over_255(__m256i whole) {
  const __m256 x = _mm256_cvtepi32_ps(whole), part = _mm256_set1_ps(1.0f / 255);
  const __m256 near = _mm256_mul_ps(x, part);
  const __m256 rest = _mm256_fnmadd_ps(near, _mm256_set1_ps(255), x);
  return _mm256_fmadd_ps(rest, part, near);
}

/* hue / 6 + 1 in double precision, without its integer part, then in single precision. Multiplying
 * by a sixth may give another double than dividing, but it never rounds to another single-precision
 * number. */
HRN_AVX2_INLINE __m128 turns_of(__m128 hue) {
  const __m256d one = _mm256_set1_pd(1);
  const __m256d sixth = _mm256_mul_pd(_mm256_cvtps_pd(hue), _mm256_set1_pd(1.0 / 6));
  const __m256d turns = _mm256_add_pd(sixth, one);
  const __m256d whole = _mm256_and_pd(_mm256_cmp_pd(turns, one, _CMP_GE_OQ), one);
  return _mm256_cvtpd_ps(_mm256_sub_pd(turns, whole));
}

/* There are three differences to the largest channel, divided by the span. One is 0. One is 1, for
 * the least channel. The third is the share that moves the hue from the middle of its sector. If 1
 * is put in for the second one, the sums of hue.c have two terms and one rounding, as there. */
HRN_AVX2_INLINE __m256i hue_of(__m256i red, __m256i green, __m256i blue, __m256i high,
                               __m256i span) {
  const __m256i is_red = _mm256_cmpeq_epi32(red, high);
  const __m256i is_green = _mm256_cmpeq_epi32(green, high);
  /* The channel that is added and the one that is subtracted: blue and green if red is largest, red
   * and blue if green is, green and red if blue is. */
  __m256i more = _mm256_blendv_epi8(green, red, is_green);
  __m256i less = _mm256_blendv_epi8(red, blue, is_green);
  more = _mm256_sub_epi32(high, _mm256_blendv_epi8(more, blue, is_red));
  less = _mm256_sub_epi32(high, _mm256_blendv_epi8(less, green, is_red));
  __m256 base =
      _mm256_blendv_ps(_mm256_set1_ps(4), _mm256_set1_ps(2), _mm256_castsi256_ps(is_green));
  base = _mm256_andnot_ps(_mm256_castsi256_ps(is_red), base);
  const __m256i adds = _mm256_cmpeq_epi32(more, span); /* else 1 is subtracted */
  const __m256 share = _mm256_div_ps(_mm256_cvtepi32_ps(_mm256_blendv_epi8(more, less, adds)),
                                     _mm256_cvtepi32_ps(span));
  const __m256 sign = _mm256_and_ps(_mm256_castsi256_ps(adds), _mm256_set1_ps(-0.0f));
  const __m256 one = _mm256_xor_ps(_mm256_set1_ps(-1), sign);
  const __m256 hue = _mm256_add_ps(_mm256_add_ps(base, one), _mm256_xor_ps(share, sign));
  const __m128 low = turns_of(_mm256_castps256_ps128(hue));
  const __m128 top = turns_of(_mm256_extractf128_ps(hue, 1));
  return of_255(_mm256_set_m128(top, low));
}

/* Four values: q if the sector's number is odd, else t. */
HRN_AVX2_INLINE __m128i between(__m128 value, __m128 share, __m128 rest, __m128 odd) {
  const __m256d one = _mm256_set1_pd(1);
  const __m256d off = _mm256_cvtps_pd(_mm_mul_ps(share, rest));
  const __m256d on =
      _mm256_mul_pd(_mm256_cvtps_pd(share), _mm256_sub_pd(one, _mm256_cvtps_pd(rest)));
  const __m256d wide_odd = _mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm_castps_si128(odd)));
  const __m256d x = _mm256_sub_pd(one, _mm256_blendv_pd(on, off, wide_odd));
  return _mm256_cvttpd_epi32(
      _mm256_add_pd(_mm256_mul_pd(_mm256_cvtps_pd(value), x), _mm256_set1_pd(0.5)));
}

/* For pixels whose saturation is not 0. */
HRN_AVX2_INLINE __m256i from_hsv(__m256i hue, __m256i saturation, __m256i value) {
  const __m256i one = _mm256_set1_epi32(1);
  /* 6 * hue / 255 and its rest, which is divided once. hue.c goes through double precision. That
   * never rounds to another number, because no quotient of 255 is near enough to the middle between
   * two single-precision numbers. */
  const __m256i sixfold = _mm256_mullo_epi16(hue, _mm256_set1_epi32(6));
  const __m256i sector = _mm256_srli_epi32(
      _mm256_add_epi32(_mm256_add_epi32(sixfold, one), _mm256_srli_epi32(sixfold, 8)), 8);
  const __m256i over =
      _mm256_sub_epi32(sixfold, _mm256_mullo_epi16(sector, _mm256_set1_epi32(255)));
  const __m256 rest = over_255(over), share = over_255(saturation);
  /* p is value * (255 - saturation) / 255, rounded to nearest. 255 is odd, so there is no tie. */
  const __m256i product = _mm256_add_epi32(
      _mm256_madd_epi16(value, _mm256_sub_epi32(_mm256_set1_epi32(255), saturation)),
      _mm256_set1_epi32(128));
  const __m256i p = _mm256_srli_epi32(_mm256_add_epi32(product, _mm256_srli_epi32(product, 8)), 8);
  const __m256 odd = _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(sector, one), one));
  const __m256 v = _mm256_cvtepi32_ps(value);
  const __m128i low = between(_mm256_castps256_ps128(v), _mm256_castps256_ps128(share),
                              _mm256_castps256_ps128(rest), _mm256_castps256_ps128(odd));
  const __m128i top = between(_mm256_extractf128_ps(v, 1), _mm256_extractf128_ps(share, 1),
                              _mm256_extractf128_ps(rest, 1), _mm256_extractf128_ps(odd, 1));
  const __m256i x = _mm256_set_m128i(top, low);
  /* The bytes value, x, p of each pixel, and which of them are red, green and blue in its
   * sector. */
  const __m256i three =
      _mm256_or_si256(value, _mm256_or_si256(_mm256_slli_epi32(x, 8), _mm256_slli_epi32(p, 16)));
  const __m256i sectors =
      _mm256_setr_epi32(0x020100, 0x020001, 0x010002, 0x000102, 0x000201, 0x010200, 0x020100, 0);
  const __m256i pixel =
      _mm256_setr_epi32(0, 0x040404, 0x080808, 0x0c0c0c, 0, 0x040404, 0x080808, 0x0c0c0c);
  const __m256i places = _mm256_or_si256(_mm256_permutevar8x32_epi32(sectors, sector), pixel);
  return _mm256_shuffle_epi8(three, places);
}

HRN_AVX2 void hrn_turn_hue_avx2(uint8_t *pixels, size_t count, uint8_t turn) {
  const __m256i byte = _mm256_set1_epi32(255);
  const __m256i thrice = _mm256_set1_epi32(0x010101);
  size_t x = 0;
  for (; x + 8 <= count; x += 8, pixels += 32) {
    const __m256i in = _mm256_loadu_si256((const __m256i *)pixels);
    const __m256i red = _mm256_and_si256(in, byte);
    const __m256i green = _mm256_and_si256(_mm256_srli_epi32(in, 8), byte);
    const __m256i blue = _mm256_and_si256(_mm256_srli_epi32(in, 16), byte);
    const __m256i high = _mm256_max_epi32(_mm256_max_epi32(red, green), blue);
    const __m256i low = _mm256_min_epi32(_mm256_min_epi32(red, green), blue);
    const __m256i span = _mm256_sub_epi32(high, low);
    /* If all three channels are equal, the hue means nothing; if all are 0, the saturation means
     * nothing either. */
    const __m256i alike = _mm256_cmpeq_epi32(span, _mm256_setzero_si256());
    __m256i saturation = of_255(_mm256_div_ps(_mm256_cvtepi32_ps(span), _mm256_cvtepi32_ps(high)));
    saturation = _mm256_andnot_si256(alike, saturation);
    const __m256i hue = _mm256_and_si256(
        _mm256_add_epi32(hue_of(red, green, blue, high, span), _mm256_set1_epi32(turn)), byte);
    const __m256i turned = from_hsv(hue, saturation, high);
    const __m256i grey = _mm256_mullo_epi32(high, thrice);
    const __m256i none = _mm256_cmpeq_epi32(saturation, _mm256_setzero_si256());
    _mm256_storeu_si256((__m256i *)pixels, _mm256_blendv_epi8(turned, grey, none));
  }
  hrn_turn_hue_scalar(pixels, count - x, turn);
}
#else
/* An empty translation unit is not ISO C. */
typedef int hrn_hue_avx2_absent;
#endif
