/* filter_avx2.c: the loops of filter.c with 256-bit vectors. The channels of a pixel are the lanes,
 * and each lane goes through the same operations in the same order, without fused multiply-adds.
 * filter.c does the pixels near the border, where neighbours are missing. */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <math.h>
#include <string.h>

#define HRN_AVX2 __attribute__((target("avx2,fma,f16c")))
#define HRN_AVX2_INLINE static inline __attribute__((always_inline, target("avx2,fma,f16c")))

/* A double with this value and a byte in its lowest bits is 2^52 more than the byte. So the
 * difference of two such doubles is the difference of the two bytes. That takes one instruction
 * less of the port that all conversions need. */
#define RAISED 4503599627370496.0

/* A pixel's four bytes, raised by 2^52. */
HRN_AVX2_INLINE __m256d channels(const uint8_t *pixel) {
  int32_t bytes;
  memcpy(&bytes, pixel, 4);
  const __m256i wide = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(bytes));
  return _mm256_or_pd(_mm256_castsi256_pd(wide), _mm256_set1_pd(RAISED));
}

HRN_AVX2_INLINE __m256d lowered(__m256d raised) {
  return _mm256_sub_pd(raised, _mm256_set1_pd(RAISED));
}

/* Truncates values from 0 to 255 to bytes. */
HRN_AVX2_INLINE void store(uint8_t *pixel, __m256d value) {
  const __m128i lowest = _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const int32_t bytes = _mm_cvtsi128_si32(_mm_shuffle_epi8(_mm256_cvttpd_epi32(value), lowest));
  memcpy(pixel, &bytes, 4);
}

/* Four places: the pixel that is up and left of each, and how far the place is behind that pixel's
 * middle. */
typedef struct four {
  int32_t left[4], top[4];
  double dx[4], dy[4];
} four;

/* 0 if one of the places lacks some of `before` pixels on the upper and left side of that pixel, or
 * of `behind` pixels on the other sides. 0 for NaN, too. */
HRN_AVX2_INLINE int locate(const hrn_places *places, size_t k, int32_t before, int32_t behind,
                           four *found) {
  const __m256d half = _mm256_set1_pd(0.5), least = _mm256_set1_pd(before);
  const __m256d x = _mm256_sub_pd(_mm256_loadu_pd(places->x + k), half);
  const __m256d y = _mm256_sub_pd(_mm256_loadu_pd(places->y + k), half);
  const __m256d right = _mm256_set1_pd((double)places->width - behind);
  const __m256d bottom = _mm256_set1_pd((double)places->height - behind);
  const __m256d across =
      _mm256_and_pd(_mm256_cmp_pd(x, least, _CMP_GE_OQ), _mm256_cmp_pd(x, right, _CMP_LT_OQ));
  const __m256d down =
      _mm256_and_pd(_mm256_cmp_pd(y, least, _CMP_GE_OQ), _mm256_cmp_pd(y, bottom, _CMP_LT_OQ));
  if (_mm256_movemask_pd(_mm256_and_pd(across, down)) != 15) return 0;
  /* Nothing is below 0 here, so truncating rounds down. */
  const __m128i left = _mm256_cvttpd_epi32(x), top = _mm256_cvttpd_epi32(y);
  _mm_storeu_si128((__m128i *)found->left, left);
  _mm_storeu_si128((__m128i *)found->top, top);
  _mm256_storeu_pd(found->dx, _mm256_sub_pd(x, _mm256_cvtepi32_pd(left)));
  _mm256_storeu_pd(found->dy, _mm256_sub_pd(y, _mm256_cvtepi32_pd(top)));
  return 1;
}

/* The places from k on. */
HRN_AVX2_INLINE hrn_places behind(const hrn_places *places, size_t k) {
  hrn_places rest = *places;
  rest.x += k;
  rest.y += k;
  return rest;
}

/* from + (to - from) * share */
HRN_AVX2_INLINE __m256d between(const uint8_t *pixel, __m256d share) {
  const __m256d from = channels(pixel), way = _mm256_sub_pd(channels(pixel + 4), from);
  return _mm256_add_pd(lowered(from), _mm256_mul_pd(way, share));
}

HRN_AVX2 void hrn_bilinear_avx2(const hrn_places *places, size_t count, uint8_t *out) {
  size_t k = 0;
  for (; k + 4 <= count; k += 4, out += 16) {
    four at;
    if (!locate(places, k, 0, 1, &at)) {
      const hrn_places rest = behind(places, k);
      hrn_bilinear_scalar(&rest, 4, out);
      continue;
    }
    for (int j = 0; j < 4; j++) {
      const __m256d dx = _mm256_broadcast_sd(at.dx + j), dy = _mm256_broadcast_sd(at.dy + j);
      const uint8_t *row =
          places->pixels + (size_t)at.top[j] * places->stride + 4 * (size_t)at.left[j];
      const __m256d a = between(row, dx), b = between(row + places->stride, dx);
      store(out + 4 * j, _mm256_add_pd(a, _mm256_mul_pd(_mm256_sub_pd(b, a), dy)));
    }
  }
  const hrn_places rest = behind(places, k);
  hrn_bilinear_scalar(&rest, count - k, out);
}

/* v + d * (p2 + d * (p3 - d * q4)) */
HRN_AVX2_INLINE __m256d polynomial(__m256d v, __m256d p2, __m256d p3, __m256d q4, __m256d d) {
  const __m256d inner = _mm256_sub_pd(p3, _mm256_mul_pd(d, q4));
  const __m256d outer = _mm256_add_pd(p2, _mm256_mul_pd(d, inner));
  return _mm256_add_pd(v, _mm256_mul_pd(d, outer));
}

/* Interpolates four pixels of a row. All sums are exact. */
HRN_AVX2_INLINE __m256d cubic_across(const uint8_t *row, __m256d d) {
  const __m256d v1 = channels(row), v2 = channels(row + 4);
  const __m256d v3 = channels(row + 8), v4 = channels(row + 12);
  const __m256d rise = _mm256_sub_pd(v1, v2), fall = _mm256_sub_pd(v3, v4);
  const __m256d sum = _mm256_add_pd(rise, fall);
  return polynomial(lowered(v2), _mm256_sub_pd(v3, v1), _mm256_add_pd(rise, sum), sum, d);
}

/* Interpolates four rows. Sums are rounded, so they are made in filter.c's order. */
HRN_AVX2_INLINE __m256d cubic_down(const __m256d v[4], __m256d d) {
  const __m256d rise = _mm256_sub_pd(v[0], v[1]);
  const __m256d p3 = _mm256_sub_pd(_mm256_add_pd(_mm256_add_pd(rise, rise), v[2]), v[3]);
  const __m256d q4 = _mm256_sub_pd(_mm256_add_pd(rise, v[2]), v[3]);
  return polynomial(v[1], _mm256_sub_pd(v[2], v[0]), p3, q4, d);
}

HRN_AVX2 void hrn_bicubic_avx2(const hrn_places *places, size_t count, uint8_t *out) {
  const __m256d none = _mm256_setzero_pd(), most = _mm256_set1_pd(255);
  size_t k = 0;
  for (; k + 4 <= count; k += 4, out += 16) {
    four at;
    if (!locate(places, k, 1, 2, &at)) {
      const hrn_places rest = behind(places, k);
      hrn_bicubic_scalar(&rest, 4, out);
      continue;
    }
    for (int j = 0; j < 4; j++) {
      const __m256d dx = _mm256_broadcast_sd(at.dx + j), dy = _mm256_broadcast_sd(at.dy + j);
      const uint8_t *row =
          places->pixels + (size_t)(at.top[j] - 1) * places->stride + 4 * (size_t)(at.left[j] - 1);
      __m256d v[4];
      for (int i = 0; i < 4; i++) v[i] = cubic_across(row + (size_t)i * places->stride, dx);
      store(out + 4 * j, _mm256_min_pd(_mm256_max_pd(cubic_down(v, dy), none), most));
    }
  }
  const hrn_places rest = behind(places, k);
  hrn_bicubic_scalar(&rest, count - k, out);
}
#else
/* An empty translation unit is not ISO C. */
typedef int hrn_filter_avx2_absent;
#endif
