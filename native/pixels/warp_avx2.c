/* warp_avx2.c: makes a row of nearest pixels with 256-bit vectors, 8 pixels at a time. */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define HRN_AVX2 __attribute__((target("avx2,fma,f16c")))

/* Whether all places of the row fit 32 bits, and eight times the step as well. */
static int fits(int64_t start, int64_t step, size_t count) {
  const int64_t most = INT32_MAX;
  int64_t way, end;
  return step <= most / 8 && step >= -most / 8 &&
         !__builtin_mul_overflow(step, (int64_t)count, &way) &&
         !__builtin_add_overflow(start, way, &end) && start <= most && start >= -most &&
         end <= most && end >= -most;
}

HRN_AVX2 void hrn_nearest_avx2(const hrn_nearest_row *row, size_t count, uint8_t *out) {
  const size_t stride = row->stride / 4; /* in pixels, because rows begin at whole ones */
  hrn_nearest_row rest = *row;
  size_t x = 0;
  if (fits(row->x, row->step_x, count) && fits(row->y, row->step_y, count) &&
      row->stride % 4 == 0 && stride * (size_t)row->height <= INT32_MAX) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i step_x = _mm256_set1_epi32((int32_t)row->step_x);
    const __m256i step_y = _mm256_set1_epi32((int32_t)row->step_y);
    const __m256i next_x = _mm256_slli_epi32(step_x, 3), next_y = _mm256_slli_epi32(step_y, 3);
    const __m256i last_x = _mm256_set1_epi32(row->width - 1);
    const __m256i last_y = _mm256_set1_epi32(row->height - 1);
    const __m256i pitch = _mm256_set1_epi32((int32_t)stride);
    int32_t colour;
    memcpy(&colour, row->fill, 4);
    const __m256i fill = _mm256_set1_epi32(colour);
    __m256i at_x =
        _mm256_add_epi32(_mm256_set1_epi32((int32_t)row->x), _mm256_mullo_epi32(lanes, step_x));
    __m256i at_y =
        _mm256_add_epi32(_mm256_set1_epi32((int32_t)row->y), _mm256_mullo_epi32(lanes, step_y));
    for (; x + 8 <= count; x += 8, out += 32) {
      const __m256i in_x = _mm256_srai_epi32(at_x, 16), in_y = _mm256_srai_epi32(at_y, 16);
      /* The comparison is unsigned, so what is below 0 is beyond the end, too. */
      const __m256i inside =
          _mm256_and_si256(_mm256_cmpeq_epi32(_mm256_min_epu32(in_x, last_x), in_x),
                           _mm256_cmpeq_epi32(_mm256_min_epu32(in_y, last_y), in_y));
      const __m256i place = _mm256_add_epi32(_mm256_mullo_epi32(in_y, pitch), in_x);
      /* Lanes outside are not read. */
      const __m256i found = _mm256_mask_i32gather_epi32(
          fill, (const int *)(const void *)row->pixels, place, inside, 4);
      _mm256_storeu_si256((__m256i *)out, found);
      at_x = _mm256_add_epi32(at_x, next_x);
      at_y = _mm256_add_epi32(at_y, next_y);
    }
    rest.x += rest.step_x * (int64_t)x;
    rest.y += rest.step_y * (int64_t)x;
  }
  hrn_nearest_scalar(&rest, count - x, out);
}
#else
/* An empty translation unit is not ISO C. */
typedef int hrn_warp_avx2_absent;
#endif
