/* weigh_avx2.c: weighted sums with 256-bit vectors, 8 values at a time. */
#include "weigh.h"

#if defined(__x86_64__)
#include "values_avx2.h"

HRN_AVX2_INLINE __m256 load(const void *from, size_t at, int32_t dtype) {
  if (dtype == HRN_FLOAT32) return _mm256_loadu_ps((const float *)from + at);
  return widened(_mm_loadu_si128((const __m128i *)((const uint16_t *)from + at)), dtype);
}

HRN_AVX2_INLINE void weigh(int32_t dtype, const void *own, const void *other, float own_share,
                           float other_share, size_t count, void *out) {
  const shares s = {_mm256_set1_ps(own_share), _mm256_set1_ps(other_share)};
  const size_t element = dtype == HRN_FLOAT32 ? 4 : 2;
  for (size_t k = 0; k < count; k += 8) {
    const __m256 sum = weighed(load(own, k, dtype), load(other, k, dtype), &s, dtype);
    store((uint8_t *)out + k * element, sum, dtype);
  }
}

HRN_AVX2 void hrn_weigh_avx2(int32_t dtype, const void *own, const void *other, float own_share,
                             float other_share, size_t count, void *out) {
  const size_t whole = count / 8 * 8, element = dtype == HRN_FLOAT32 ? 4 : 2;
  /* The dtype is a constant below, so each gets a loop of its own. */
  switch (dtype) {
    case HRN_FLOAT32:
      weigh(HRN_FLOAT32, own, other, own_share, other_share, whole, out);
      break;
    case HRN_FLOAT16:
      weigh(HRN_FLOAT16, own, other, own_share, other_share, whole, out);
      break;
    default:
      weigh(HRN_BFLOAT16, own, other, own_share, other_share, whole, out);
  }
  const size_t done = whole * element;
  hrn_weigh_scalar(dtype, (const uint8_t *)own + done, (const uint8_t *)other + done, own_share,
                   other_share, count - whole, (uint8_t *)out + done);
}
#else
/* An empty translation unit is not ISO C. */
typedef int hrn_weigh_avx2_absent;
#endif
