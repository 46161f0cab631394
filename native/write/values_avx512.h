/* values_avx512.h: finished values in 512-bit vectors, 16 at a time, for the kernels that write
 * them. The arithmetic is values_avx2.h's; a vector fills a cache line.
 */
#ifndef HEADRACE_WRITE_VALUES_AVX512_H
#define HEADRACE_WRITE_VALUES_AVX512_H

#include <immintrin.h>

#include "write.h"

#define TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi"
#define HRN_AVX512 __attribute__((target(TARGET)))
#define HRN_AVX512_INLINE static inline __attribute__((always_inline, target(TARGET)))

/* The factors of one channel. */
typedef struct factors {
  __m512 scale_high, scale_low, mean, inverse_high, inverse_low;
} factors;

HRN_AVX512_INLINE factors factors_of(const hrn_format *format, int c) {
  return (factors){_mm512_set1_ps(format->scale_high), _mm512_set1_ps(format->scale_low),
                   _mm512_set1_ps(format->mean[c]), _mm512_set1_ps(format->inverse_high[c]),
                   _mm512_set1_ps(format->inverse_low[c])};
}

HRN_AVX512_INLINE __m512 value_of(__m512i bytes, const factors *f) {
  const __m512 v = _mm512_cvtepi32_ps(bytes);
  const __m512 x = _mm512_fmadd_ps(v, f->scale_high, _mm512_mul_ps(v, f->scale_low));
  const __m512 d = _mm512_sub_ps(x, f->mean);
  return _mm512_fmadd_ps(d, f->inverse_high, _mm512_mul_ps(d, f->inverse_low));
}

HRN_AVX512_INLINE __m256i halves(__m512 value) {
  return _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* Stores the given lanes of 16 finished values, cast to float32 or float16. */
HRN_AVX512_INLINE void store(uint8_t *out, __mmask16 lanes, __m512 value, int32_t dtype) {
  if (dtype == HRN_FLOAT32) {
    _mm512_mask_storeu_ps(out, lanes, value);
  } else {
    _mm256_mask_storeu_epi16(out, lanes, halves(value));
  }
}

#endif
