/* blur_avx2.c: the loops of blur.c with 256-bit vectors. Each sum adds the same products in the
 * same order: in the two passes with a rounding for the product and one for the sum, in sums that
 * are made again with one for both.
 */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define HRN_AVX2 __attribute__((target("avx2,fma,f16c")))
#define HRN_AVX2_INLINE static inline __attribute__((always_inline, target("avx2,fma,f16c")))

/* Eight pixels at a time: four sums, which do not wait for each other. */
HRN_AVX2 void hrn_blur_down_avx2(const uint8_t *const *row, const float *weight, int32_t size,
                                 size_t count, float *line) {
  size_t x = 0;
  for (; x + 8 <= count; x += 8) {
    __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                     _mm256_setzero_ps()};
    for (int32_t k = 0; k < size; k++) {
      const __m256 w = _mm256_broadcast_ss(weight + k);
      for (int part = 0; part < 4; part++) {
        const __m128i bytes = _mm_loadl_epi64((const __m128i *)(row[k] + 4 * x + 8 * part));
        const __m256 values = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
        sum[part] = _mm256_add_ps(sum[part], _mm256_mul_ps(w, values));
      }
    }
    for (int part = 0; part < 4; part++) _mm256_storeu_ps(line + 4 * x + 8 * part, sum[part]);
  }
  for (size_t n = 4 * x; n < 4 * count; n++) {
    float sum = 0;
    for (int32_t k = 0; k < size; k++) sum += weight[k] * (float)row[k][n];
    line[n] = sum;
  }
}

HRN_AVX2 size_t hrn_blur_across_avx2(const float *line, const float *weight, int32_t size,
                                     size_t count, float margin, uint8_t *out, uint32_t *doubtful) {
  const __m256 sign = _mm256_set1_ps(-0.0f), most = _mm256_set1_ps(0.5f - margin);
  size_t doubts = 0;
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  size_t x = 0;
  for (; x + 8 <= count; x += 8, line += 32, out += 32) {
    __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                     _mm256_setzero_ps()};
    for (int32_t k = 0; k < size; k++) {
      const __m256 w = _mm256_broadcast_ss(weight + k);
      for (int part = 0; part < 4; part++) {
        const __m256 values = _mm256_loadu_ps(line + 4 * (size_t)k + 8 * part);
        sum[part] = _mm256_add_ps(sum[part], _mm256_mul_ps(w, values));
      }
    }
    /* Rounded half to even, as rintf does. */
    __m256i whole[4];
    for (int part = 0; part < 4; part++) {
      whole[part] = _mm256_cvtps_epi32(sum[part]);
      const __m256 off = _mm256_sub_ps(sum[part], _mm256_cvtepi32_ps(whole[part]));
      const __m256 doubt = _mm256_cmp_ps(_mm256_andnot_ps(sign, off), most, _CMP_GT_OQ);
      /* The fourth channel means nothing. */
      uint32_t lanes = (uint32_t)_mm256_movemask_ps(doubt) & 0x77;
      for (; lanes != 0; lanes &= lanes - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(lanes);
        doubtful[doubts++] = (uint32_t)(4 * x) + 8 * (uint32_t)part + lane;
      }
    }
    const __m256i low = _mm256_packs_epi32(whole[0], whole[1]);
    const __m256i high = _mm256_packs_epi32(whole[2], whole[3]);
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
    _mm256_storeu_si256((__m256i *)out, bytes);
  }
  const size_t rest =
      hrn_blur_across_scalar(line, weight, size, count - x, margin, out, doubtful + doubts);
  for (size_t n = 0; n < rest; n++) doubtful[doubts + n] += (uint32_t)(4 * x);
  return doubts + rest;
}

/* hrn_mirrored for columns. */
HRN_AVX2_INLINE __m256i mirrored(__m256i at, __m256i twice_last) {
  const __m256i positive = _mm256_abs_epi32(at);
  return _mm256_min_epi32(positive, _mm256_sub_epi32(twice_last, positive));
}

/* Eight values at a time, each in a lane of its own. */
HRN_AVX2 void hrn_blur_again_avx2(const hrn_blur_window *window, const uint32_t *value,
                                  size_t count, uint8_t *out) {
  const __m256i twice_last = _mm256_set1_epi32(2 * (window->width - 1));
  const __m256i byte = _mm256_set1_epi32(255), one = _mm256_set1_epi32(1);
  for (size_t n = 0; n < count; n += 8) {
    uint32_t place[8];
    for (size_t lane = 0; lane < 8; lane++) place[lane] = value[n + lane < count ? n + lane : n];
    const __m256i places = _mm256_loadu_si256((const __m256i *)place);
    const __m256i shift = _mm256_slli_epi32(_mm256_and_si256(places, _mm256_set1_epi32(3)), 3);
    const __m256i first =
        _mm256_sub_epi32(_mm256_srli_epi32(places, 2), _mm256_set1_epi32(window->across / 2));
    const float *weight = window->weight;
    __m256 sum = _mm256_setzero_ps();
    for (int32_t j = 0; j < window->down; j++) {
      const int *pixels = (const int *)(const void *)window->row[j];
      __m256i at = first;
      for (int32_t i = 0; i < window->across; i++, at = _mm256_add_epi32(at, one)) {
        const __m256i found = _mm256_i32gather_epi32(pixels, mirrored(at, twice_last), 4);
        const __m256i channel = _mm256_and_si256(_mm256_srlv_epi32(found, shift), byte);
        sum = _mm256_fmadd_ps(_mm256_broadcast_ss(weight++), _mm256_cvtepi32_ps(channel), sum);
      }
    }
    int32_t whole[8];
    _mm256_storeu_si256((__m256i *)whole, _mm256_cvtps_epi32(sum));
    for (size_t lane = 0; lane < 8 && n + lane < count; lane++) {
      out[place[lane]] = (uint8_t)whole[lane];
    }
  }
}
#else
/* An empty translation unit is not ISO C. */
typedef int hrn_blur_avx2_absent;
#endif
