/* values_avx2.h: finished values in 256-bit vectors, 8 at a time, for the kernels that write and
 * weigh them.
 *
 * Lookups are what AVX2 does worst, and division is slow. So float values are multiplied with
 * reciprocals that are held in two floats. When a format is compiled, it is tested whether that
 * gives exactly the tables' bits. If it does not, the scalar writer looks the values up.
 */
#ifndef HEADRACE_WRITE_VALUES_AVX2_H
#define HEADRACE_WRITE_VALUES_AVX2_H

#include <immintrin.h>

#include "output.h"

#define HRN_AVX2 __attribute__((target("avx2,fma,f16c")))
#define HRN_AVX2_INLINE static inline __attribute__((always_inline, target("avx2,fma,f16c")))

#define HRN_TO_NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

/* The factors of 8 lanes: one channel in NCHW, a phase of R G B R G B ... in NHWC. */
typedef struct factors {
  __m256 scale_high, scale_low, mean, inverse_high, inverse_low;
} factors;

HRN_AVX2_INLINE __m256 value_of(__m256i bytes, const factors *f) {
  const __m256 v = _mm256_cvtepi32_ps(bytes);
  const __m256 x = _mm256_fmadd_ps(v, f->scale_high, _mm256_mul_ps(v, f->scale_low));
  const __m256 d = _mm256_sub_ps(x, f->mean);
  return _mm256_fmadd_ps(d, f->inverse_high, _mm256_mul_ps(d, f->inverse_low));
}

/* bfloat16 bits: adds just under one half, and one more if the kept part is odd. */
HRN_AVX2_INLINE __m128i bfloat16s(__m256 value) {
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(
      _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
}

HRN_AVX2_INLINE __m256 widened(__m128i halves, int32_t dtype) {
  if (dtype == HRN_FLOAT16) return _mm256_cvtph_ps(halves);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

HRN_AVX2_INLINE __m128i narrowed(__m256 value, int32_t dtype) {
  return dtype == HRN_FLOAT16 ? _mm256_cvtps_ph(value, HRN_TO_NEAREST) : bfloat16s(value);
}

/* Casts and stores 8 values, 16 or 32 bytes. */
HRN_AVX2_INLINE void store(void *out, __m256 value, int32_t dtype) {
  if (dtype == HRN_FLOAT32) {
    _mm256_storeu_ps(out, value);
  } else {
    _mm_storeu_si128(out, narrowed(value, dtype));
  }
}

HRN_AVX2_INLINE __m256 rounded(__m256 value, int32_t dtype) {
  return dtype == HRN_FLOAT32 ? value : widened(narrowed(value, dtype), dtype);
}

/* The factors of two finished values that are mixed. */
typedef struct shares {
  __m256 own, other;
} shares;

/* As torch's mul_ and add_: each product and the sum are rounded to the dtype, the sum when it is
 * stored. There is no fused multiply-add. */
HRN_AVX2_INLINE __m256 weighed(__m256 own, __m256 other, const shares *s, int32_t dtype) {
  return _mm256_add_ps(rounded(_mm256_mul_ps(own, s->own), dtype),
                       rounded(_mm256_mul_ps(other, s->other), dtype));
}

#endif
