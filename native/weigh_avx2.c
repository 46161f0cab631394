/* weigh_avx2.c: weighted sums with 256-bit vectors, 8 values at a time. */
#include "weigh.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define HRN_AVX2 __attribute__((target("avx2,fma,f16c")))
#define HRN_AVX2_INLINE static inline __attribute__((always_inline, target("avx2,fma,f16c")))

HRN_AVX2_INLINE __m256 load(const void *from, size_t at, int32_t dtype) {
  if (dtype == HRN_FLOAT32) return _mm256_loadu_ps((const float *)from + at);
  const __m128i halves = _mm_loadu_si128((const __m128i *)((const uint16_t *)from + at));
  if (dtype == HRN_FLOAT16) return _mm256_cvtph_ps(halves);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

/* 8 values rounded to the dtype, as bits of it in 8 or 4 words. */
HRN_AVX2_INLINE __m128i bfloat16s(__m256 value) {
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(
      _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
}

#define HRN_TO_NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

HRN_AVX2_INLINE __m256 rounded(__m256 value, int32_t dtype) {
  if (dtype == HRN_FLOAT32) return value;
  if (dtype == HRN_FLOAT16) return _mm256_cvtph_ps(_mm256_cvtps_ph(value, HRN_TO_NEAREST));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bfloat16s(value)), 16));
}

HRN_AVX2_INLINE void weigh(int32_t dtype, const void *own, const void *other, float own_share,
                           float other_share, size_t count, void *out) {
  const __m256 mine = _mm256_set1_ps(own_share), partners = _mm256_set1_ps(other_share);
  for (size_t k = 0; k < count; k += 8) {
    const __m256 a = rounded(_mm256_mul_ps(load(own, k, dtype), mine), dtype);
    const __m256 b = rounded(_mm256_mul_ps(load(other, k, dtype), partners), dtype);
    const __m256 sum = _mm256_add_ps(a, b);
    if (dtype == HRN_FLOAT32) {
      _mm256_storeu_ps((float *)out + k, sum);
    } else {
      const __m128i halves =
          dtype == HRN_FLOAT16 ? _mm256_cvtps_ph(sum, HRN_TO_NEAREST) : bfloat16s(sum);
      _mm_storeu_si128((__m128i *)((uint16_t *)out + k), halves);
    }
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
