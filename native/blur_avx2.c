/* blur_avx2.c: the two passes of blur.c with 256-bit vectors. Each sum adds the same products in
 * the same order, with a rounding for the product and one for the sum.
 */
#include "pixel_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define HRN_AVX2 __attribute__((target("avx2,fma,f16c")))

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

HRN_AVX2 void hrn_blur_across_avx2(const float *line, const float *weight, int32_t size,
                                   size_t count, uint8_t *out) {
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
    /* Rounded half to even, as lrintf does. */
    const __m256i low = _mm256_packs_epi32(_mm256_cvtps_epi32(sum[0]), _mm256_cvtps_epi32(sum[1]));
    const __m256i high = _mm256_packs_epi32(_mm256_cvtps_epi32(sum[2]), _mm256_cvtps_epi32(sum[3]));
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
    _mm256_storeu_si256((__m256i *)out, bytes);
  }
  hrn_blur_across_scalar(line, weight, size, count - x, out);
}
#else
/* An empty translation unit is not ISO C. */
typedef int hrn_blur_avx2_absent;
#endif
