/* write_avx512.c: writes planes of float32 and float16, of one row or of the weighted sum of two,
 * with 512-bit vectors, 16 pixels at a time. A value takes half of AVX2's instructions, and these
 * are what writing waits for when two samples are mixed. AVX2 does everything else. */
#include "write.h"

#if defined(__x86_64__)
#include "values_avx512.h"

HRN_AVX512_INLINE __m512 rounded(__m512 value, int32_t dtype) {
  return dtype == HRN_FLOAT32 ? value : _mm512_cvtph_ps(halves(value));
}

/* If two samples are mixed: the pixels of the other one, and the factors of both. */
typedef struct partner {
  const uint8_t *pixels;
  __m512 own_share, share;
} partner;

/* The finished values of 16 bytes, mixed with the partner's if there is one. There is no fused
 * multiply-add: each product is rounded. */
HRN_AVX512_INLINE __m512 finished(__m512i bytes, __m512i others, const factors *f, const partner *p,
                                  int32_t dtype) {
  const __m512 value = value_of(bytes, f);
  if (p == NULL) return value;
  const __m512 own = _mm512_mul_ps(rounded(value, dtype), p->own_share);
  const __m512 other = _mm512_mul_ps(rounded(value_of(others, f), dtype), p->share);
  return _mm512_add_ps(rounded(own, dtype), rounded(other, dtype));
}

/* Loads up to 16 pixels from number x on, the last one first if the row is flipped. */
HRN_AVX512_INLINE __m512i load(const uint8_t *pixels, int32_t count, int32_t x, int32_t some,
                               __mmask16 lanes, int flip) {
  if (!flip) return _mm512_maskz_loadu_epi32(lanes, pixels + 4 * (size_t)x);
  const __m512i in = _mm512_maskz_loadu_epi32(lanes, pixels + 4 * (size_t)(count - some - x));
  const __m512i up = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_permutexvar_epi32(_mm512_sub_epi32(_mm512_set1_epi32(some - 1), up), in);
}

HRN_AVX512_INLINE void write_planes(const hrn_format *format, const uint8_t *pixels, int32_t count,
                                    int flip, const partner *p, uint8_t *row, size_t plane,
                                    int32_t dtype) {
  factors f[3];
  for (int c = 0; c < 3; c++) f[c] = factors_of(format, c);
  const size_t element = dtype == HRN_FLOAT32 ? 4 : 2;
  const __m512i byte = _mm512_set1_epi32(255);
  /* The first vector ends where a whole one of its size may begin. A patch of CutMix may begin
   * anywhere, and stores across two cache lines took twice as long. The other planes are aligned in
   * the same way if a plane is a whole number of lines, as that of 224 x 224 is. */
  const int32_t first = 16 - (int32_t)((uintptr_t)row / element % 16);
  for (int32_t x = 0, some; x < count; x += some) {
    some = x == 0 ? first : 16;
    if (some > count - x) some = count - x;
    const __mmask16 lanes = (__mmask16)(0xffff >> (16 - some));
    const __m512i in = load(pixels, count, x, some, lanes, flip);
    const __m512i other = p != NULL ? load(p->pixels, count, x, some, lanes, 0) : in;
    uint8_t *out = row + (size_t)x * element;
    for (int c = 0; c < 3; c++, out += plane) {
      store(out, lanes,
            finished(_mm512_and_si512(_mm512_srli_epi32(in, 8 * (unsigned)c), byte),
                     _mm512_and_si512(_mm512_srli_epi32(other, 8 * (unsigned)c), byte), &f[c], p,
                     dtype),
            dtype);
    }
  }
}

/* AVX2 writes the other formats. */
static int is_ours(const hrn_format *format) {
  return format->arithmetic && format->layout == HRN_NCHW &&
         (format->dtype == HRN_FLOAT32 || format->dtype == HRN_FLOAT16);
}

HRN_AVX512_INLINE void write_pixels(const hrn_format *format, const uint8_t *pixels, int32_t count,
                                    int flip, const partner *p, uint8_t *row, size_t plane) {
  if (format->dtype == HRN_FLOAT32) {
    write_planes(format, pixels, count, flip, p, row, plane, HRN_FLOAT32);
  } else {
    write_planes(format, pixels, count, flip, p, row, plane, HRN_FLOAT16);
  }
}

HRN_AVX512 void hrn_write_avx512(const hrn_format *format, const uint8_t *pixels, int32_t count,
                                 int flip, uint8_t *row, size_t plane) {
  if (is_ours(format)) {
    write_pixels(format, pixels, count, flip, NULL, row, plane);
  } else {
    hrn_write_avx2(format, pixels, count, flip, row, plane);
  }
}

HRN_AVX512 void hrn_mix_avx512(const hrn_format *format, const uint8_t *own, const uint8_t *other,
                               const float share[2], int32_t count, uint8_t *row, size_t plane) {
  if (!is_ours(format)) {
    hrn_mix_avx2(format, own, other, share, count, row, plane);
    return;
  }
  const partner p = {other, _mm512_set1_ps(share[0]), _mm512_set1_ps(share[1])};
  write_pixels(format, own, count, 0, &p, row, plane);
}
#else
/* An empty translation unit is not ISO C. */
typedef int hrn_write_avx512_absent;
#endif
