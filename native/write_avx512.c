/* write_avx512.c: planes of float32 and float16 with 512-bit vectors, 16 pixels at a time, and
 * weighted sums of float32. The arithmetic is write_avx2.c's; a vector fills a cache line, and a
 * value takes half the instructions, which is what writing waits for where two samples are mixed.
 * All else is AVX2's.
 */
#include "weigh.h"
#include "write.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET "avx512f,avx512bw,avx512dq,avx512vl"
#define HRN_AVX512 __attribute__((target(TARGET)))
#define HRN_AVX512_INLINE static inline __attribute__((always_inline, target(TARGET)))

/* Of one channel. */
typedef struct factors {
  __m512 scale_high, scale_low, mean, inverse_high, inverse_low;
} factors;

HRN_AVX512_INLINE __m512 value_of(__m512i bytes, const factors *f) {
  const __m512 v = _mm512_cvtepi32_ps(bytes);
  const __m512 x = _mm512_fmadd_ps(v, f->scale_high, _mm512_mul_ps(v, f->scale_low));
  const __m512 d = _mm512_sub_ps(x, f->mean);
  return _mm512_fmadd_ps(d, f->inverse_high, _mm512_mul_ps(d, f->inverse_low));
}

HRN_AVX512_INLINE void store(uint8_t *out, __m512 value, int32_t dtype) {
  if (dtype == HRN_FLOAT32) {
    _mm512_storeu_ps(out, value);
  } else {
    _mm256_storeu_si256((__m256i *)out,
                        _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
}

/* 16 pixels, the last one first where the row is flipped. */
HRN_AVX512_INLINE __m512i load(const uint8_t *pixels, int32_t count, int32_t x, int flip) {
  if (!flip) return _mm512_loadu_si512(pixels + 4 * (size_t)x);
  const __m512i backwards = _mm512_setr_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  return _mm512_permutexvar_epi32(backwards,
                                  _mm512_loadu_si512(pixels + 4 * (size_t)(count - 16 - x)));
}

HRN_AVX512_INLINE void write_planes(const hrn_format *format, const uint8_t *pixels, int32_t count,
                                    int flip, uint8_t *row, size_t plane, int32_t dtype) {
  factors f[3];
  for (int c = 0; c < 3; c++) {
    f[c] = (factors){_mm512_set1_ps(format->scale_high), _mm512_set1_ps(format->scale_low),
                     _mm512_set1_ps(format->mean[c]), _mm512_set1_ps(format->inverse_high[c]),
                     _mm512_set1_ps(format->inverse_low[c])};
  }
  const size_t element = dtype == HRN_FLOAT32 ? 4 : 2;
  const __m512i byte = _mm512_set1_epi32(255);
  for (int32_t x = 0; x < count; x += 16) {
    const __m512i in = load(pixels, count, x, flip);
    uint8_t *out = row + (size_t)x * element;
    store(out, value_of(_mm512_and_si512(in, byte), &f[0]), dtype);
    store(out + plane, value_of(_mm512_and_si512(_mm512_srli_epi32(in, 8), byte), &f[1]), dtype);
    store(out + 2 * plane, value_of(_mm512_and_si512(_mm512_srli_epi32(in, 16), byte), &f[2]),
          dtype);
  }
}

HRN_AVX512 void hrn_write_avx512(const hrn_format *format, const uint8_t *pixels, int32_t count,
                                 int flip, uint8_t *row, size_t plane) {
  const int planes = format->arithmetic && format->layout == HRN_NCHW &&
                     (format->dtype == HRN_FLOAT32 || format->dtype == HRN_FLOAT16);
  const int32_t whole = planes ? count / 16 * 16 : 0, rest = count - whole;
  /* A flipped row begins with the last pixels: those before `rest` are left over at its end. */
  const uint8_t *from = flip ? pixels + 4 * (size_t)rest : pixels;
  if (format->dtype == HRN_FLOAT32) {
    write_planes(format, from, whole, flip, row, plane, HRN_FLOAT32);
  } else {
    write_planes(format, from, whole, flip, row, plane, HRN_FLOAT16);
  }
  if (rest > 0) {
    hrn_write_avx2(format, flip ? pixels : pixels + 4 * (size_t)whole, rest, flip,
                   row + (size_t)whole * format->element, plane);
  }
}

HRN_AVX512 void hrn_weigh_avx512(int32_t dtype, const void *own, const void *other, float own_share,
                                 float other_share, size_t count, void *out) {
  const float *a = own, *b = other;
  float *sum = out;
  const size_t whole = dtype == HRN_FLOAT32 ? count / 16 * 16 : 0;
  const __m512 mine = _mm512_set1_ps(own_share), partners = _mm512_set1_ps(other_share);
  for (size_t k = 0; k < whole; k += 16) {
    /* Not contracted: each product is rounded. */
    const __m512 product = _mm512_mul_ps(_mm512_loadu_ps(a + k), mine);
    const __m512 second = _mm512_mul_ps(_mm512_loadu_ps(b + k), partners);
    _mm512_storeu_ps(sum + k, _mm512_add_ps(product, second));
  }
  hrn_weigh_avx2(dtype, a + whole, b + whole, own_share, other_share, count - whole, sum + whole);
}
#else
/* An empty translation unit is not ISO C. */
typedef int hrn_write_avx512_absent;
#endif
