/* plane_avx2.c: turns bytes of one channel into finished values with 256-bit vectors, 8 at a time,
 * if they are 1 or 3 bytes apart, forwards or backwards. values_avx2.h has the arithmetic. */
#include "write.h"

#if defined(__x86_64__)
#include "values_avx2.h"

/* 8 bytes, one a lane. If they are 3 apart, two loads read 22 bytes: no byte is read but the 8 and
 * those between them. */
HRN_AVX2_INLINE __m256i bytes_of(const uint8_t *from, int64_t step) {
  if (step == 1) return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from));
  if (step == -1) {
    const __m128i down = _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, -1, -1, -1, -1, -1, -1, -1, -1);
    return _mm256_cvtepu8_epi32(
        _mm_shuffle_epi8(_mm_loadl_epi64((const __m128i *)(from - 7)), down));
  }
  const uint8_t *first = step > 0 ? from : from - 21;
  const __m128i low = _mm_loadu_si128((const __m128i *)first);
  const __m128i high = _mm_loadl_epi64((const __m128i *)(first + 14));
  const __m128i of_low =
      step > 0 ? _mm_setr_epi8(0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1)
               : _mm_setr_epi8(-1, -1, 15, 12, 9, 6, 3, 0, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m128i of_high =
      step > 0 ? _mm_setr_epi8(-1, -1, -1, -1, -1, -1, 4, 7, -1, -1, -1, -1, -1, -1, -1, -1)
               : _mm_setr_epi8(7, 4, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  return _mm256_cvtepu8_epi32(
      _mm_or_si128(_mm_shuffle_epi8(low, of_low), _mm_shuffle_epi8(high, of_high)));
}

/* `step` and `dtype` are constants where this is inlined. */
HRN_AVX2_INLINE void write_plane(const hrn_format *format, int c, const uint8_t *from, int64_t step,
                                 int32_t count, uint8_t *to, int32_t dtype) {
  const factors f = {_mm256_set1_ps(format->scale_high), _mm256_set1_ps(format->scale_low),
                     _mm256_set1_ps(format->mean[c]), _mm256_set1_ps(format->inverse_high[c]),
                     _mm256_set1_ps(format->inverse_low[c])};
  const size_t element = dtype == HRN_FLOAT32 ? 4 : 2;
  int32_t x = 0;
  for (; x + 8 <= count; x += 8) {
    store(to + (size_t)x * element, value_of(bytes_of(from + x * step, step), &f), dtype);
  }
  if (x < count) {
    hrn_plane_scalar(format, c, from + x * step, step, count - x, to + (size_t)x * element,
                     element);
  }
}

HRN_AVX2_INLINE void write_steps(const hrn_format *format, int c, const uint8_t *from, int64_t step,
                                 int32_t count, uint8_t *to, int32_t dtype) {
  switch (step) {
    case 1:
      write_plane(format, c, from, 1, count, to, dtype);
      break;
    case -1:
      write_plane(format, c, from, -1, count, to, dtype);
      break;
    case 3:
      write_plane(format, c, from, 3, count, to, dtype);
      break;
    default:
      write_plane(format, c, from, -3, count, to, dtype);
  }
}

HRN_AVX2 void hrn_plane_avx2(const hrn_format *format, int c, const uint8_t *from, int64_t step,
                             int32_t count, uint8_t *to, size_t apart) {
  const int near = step == 1 || step == -1 || step == 3 || step == -3;
  if (!near || count < 8 || !format->arithmetic || format->element == 1 ||
      apart != format->element) {
    hrn_plane_scalar(format, c, from, step, count, to, apart);
    return;
  }
  switch (format->dtype) {
    case HRN_FLOAT32:
      write_steps(format, c, from, step, count, to, HRN_FLOAT32);
      break;
    case HRN_FLOAT16:
      write_steps(format, c, from, step, count, to, HRN_FLOAT16);
      break;
    default:
      write_steps(format, c, from, step, count, to, HRN_BFLOAT16);
  }
}
#else
/* An empty translation unit is not ISO C. */
typedef int hrn_plane_avx2_absent;
#endif
