/* write_avx2.c: writes one row, or the weighted sum of two, with 256-bit vectors, 8 pixels at a
 * time. values_avx2.h has the arithmetic. */
#include "write.h"

#if defined(__x86_64__)
#include "values_avx2.h"

/* Loads 8 pixels, the last one first if the row is flipped. */
HRN_AVX2_INLINE __m256i load(const uint8_t *pixels, int32_t count, int32_t x, int flip) {
  if (!flip) return _mm256_loadu_si256((const __m256i *)(pixels + 4 * (size_t)x));
  const __m256i backwards = _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  const uint8_t *from = pixels + 4 * (size_t)(count - 8 - x);
  return _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *)from), backwards);
}

/* Puts R G B R G B ... of 8 pixels into the first 24 bytes. */
HRN_AVX2_INLINE __m256i interleaved(__m256i pixels) {
  const __m256i drop = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1, 0,
                                        1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
  const __m256i join = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 7);
  return _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(pixels, drop), join);
}

HRN_AVX2_INLINE void write_bytes(const hrn_format *format, const uint8_t *pixels, int32_t count,
                                 int flip, uint8_t *row, size_t plane) {
  /* Turns the four pixels of each lane into R R R R G G G G B B B B, then joins both lanes. */
  const __m256i group = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, -1, -1, -1, -1, 0,
                                         4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, -1, -1, -1, -1);
  const __m256i join = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  for (int32_t x = 0; x < count; x += 8) {
    const __m256i in = load(pixels, count, x, flip);
    if (format->layout == HRN_NCHW) {
      const __m256i planes = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(in, group), join);
      const __m128i rg = _mm256_castsi256_si128(planes), b = _mm256_extracti128_si256(planes, 1);
      _mm_storel_epi64((__m128i *)(row + x), rg);
      _mm_storel_epi64((__m128i *)(row + plane + x), _mm_unpackhi_epi64(rg, rg));
      _mm_storel_epi64((__m128i *)(row + 2 * plane + x), b);
    } else {
      const __m256i out = interleaved(in);
      uint8_t *at = row + 3 * (size_t)x;
      _mm_storeu_si128((__m128i *)at, _mm256_castsi256_si128(out));
      _mm_storel_epi64((__m128i *)(at + 16), _mm256_extracti128_si256(out, 1));
    }
  }
}

/* If two samples are mixed: the pixels of the other one, and the factors of both. */
typedef struct partner {
  const uint8_t *pixels;
  shares shares;
} partner;

/* The finished values of 8 bytes, mixed with the partner's if there is one. */
HRN_AVX2_INLINE __m256 finished(__m256i bytes, __m256i others, const factors *f, const partner *p,
                                int32_t dtype) {
  const __m256 value = value_of(bytes, f);
  if (p == NULL) return value;
  return weighed(rounded(value, dtype), rounded(value_of(others, f), dtype), &p->shares, dtype);
}

/* Where this is inlined, the dtype and whether `p` is NULL are constants, so each case gets a loop
 * of its own. */
HRN_AVX2_INLINE void write_planes(const hrn_format *format, const uint8_t *pixels, int32_t count,
                                  int flip, const partner *p, uint8_t *row, size_t plane,
                                  int32_t dtype) {
  factors f[3];
  for (int c = 0; c < 3; c++) {
    f[c] = (factors){_mm256_set1_ps(format->scale_high), _mm256_set1_ps(format->scale_low),
                     _mm256_set1_ps(format->mean[c]), _mm256_set1_ps(format->inverse_high[c]),
                     _mm256_set1_ps(format->inverse_low[c])};
  }
  const size_t element = dtype == HRN_FLOAT32 ? 4 : 2;
  const __m256i byte = _mm256_set1_epi32(255);
  for (int32_t x = 0; x < count; x += 8) {
    const __m256i in = load(pixels, count, x, flip);
    const __m256i other = p != NULL ? load(p->pixels, count, x, 0) : in;
    uint8_t *out = row + (size_t)x * element;
    for (int c = 0; c < 3; c++, out += plane) {
      store(out,
            finished(_mm256_and_si256(_mm256_srli_epi32(in, 8 * c), byte),
                     _mm256_and_si256(_mm256_srli_epi32(other, 8 * c), byte), &f[c], p, dtype),
            dtype);
    }
  }
}

/* 8 of the 24 bytes, widened to 32 bits. */
HRN_AVX2_INLINE __m256i third(__m256i bytes, int v) {
  const __m128i front = _mm256_castsi256_si128(bytes);
  if (v == 0) return _mm256_cvtepu8_epi32(front);
  if (v == 1) return _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(front, front));
  return _mm256_cvtepu8_epi32(_mm256_extracti128_si256(bytes, 1));
}

HRN_AVX2_INLINE void write_interleaved(const hrn_format *format, const uint8_t *pixels,
                                       int32_t count, int flip, const partner *p, uint8_t *row,
                                       int32_t dtype) {
  factors f[3]; /* 24 values are 3 vectors, each with its own phase of the channels */
  for (int v = 0; v < 3; v++) {
    float mean[8], high[8], low[8];
    for (int lane = 0; lane < 8; lane++) {
      const int c = (8 * v + lane) % 3;
      mean[lane] = format->mean[c];
      high[lane] = format->inverse_high[c];
      low[lane] = format->inverse_low[c];
    }
    f[v] = (factors){_mm256_set1_ps(format->scale_high), _mm256_set1_ps(format->scale_low),
                     _mm256_loadu_ps(mean), _mm256_loadu_ps(high), _mm256_loadu_ps(low)};
  }
  const size_t vector = dtype == HRN_FLOAT32 ? 32 : 16;
  for (int32_t x = 0; x < count; x += 8) {
    const __m256i in = interleaved(load(pixels, count, x, flip));
    const __m256i other = p != NULL ? interleaved(load(p->pixels, count, x, 0)) : in;
    uint8_t *out = row + (size_t)x / 8 * 3 * vector;
    for (int v = 0; v < 3; v++, out += vector) {
      store(out, finished(third(in, v), third(other, v), &f[v], p, dtype), dtype);
    }
  }
}

HRN_AVX2_INLINE void write_floats(const hrn_format *format, const uint8_t *pixels, int32_t count,
                                  int flip, const partner *p, uint8_t *row, size_t plane,
                                  int32_t dtype) {
  if (format->layout == HRN_NCHW) {
    write_planes(format, pixels, count, flip, p, row, plane, dtype);
  } else {
    write_interleaved(format, pixels, count, flip, p, row, dtype);
  }
}

HRN_AVX2_INLINE void write_pixels(const hrn_format *format, const uint8_t *pixels, int32_t count,
                                  int flip, const partner *p, uint8_t *row, size_t plane) {
  switch (format->dtype) {
    case HRN_FLOAT32:
      write_floats(format, pixels, count, flip, p, row, plane, HRN_FLOAT32);
      break;
    case HRN_FLOAT16:
      write_floats(format, pixels, count, flip, p, row, plane, HRN_FLOAT16);
      break;
    default:
      write_floats(format, pixels, count, flip, p, row, plane, HRN_BFLOAT16);
  }
}

HRN_AVX2 void hrn_write_avx2(const hrn_format *format, const uint8_t *pixels, int32_t count,
                             int flip, uint8_t *row, size_t plane) {
  const int32_t whole = format->dtype == HRN_UINT8 || format->arithmetic ? count / 8 * 8 : 0;
  /* A flipped row begins with the last pixels. The pixels before `rest` are left for its end. */
  const int32_t rest = count - whole;
  const uint8_t *from = flip ? pixels + 4 * (size_t)rest : pixels;
  if (format->dtype == HRN_UINT8) {
    write_bytes(format, from, whole, flip, row, plane);
  } else {
    write_pixels(format, from, whole, flip, NULL, row, plane);
  }
  if (rest > 0) {
    const size_t pixel = format->element * (format->layout == HRN_NHWC ? 3 : 1);
    hrn_write_scalar(format, flip ? pixels : pixels + 4 * (size_t)whole, rest, flip,
                     row + (size_t)whole * pixel, plane);
  }
}

HRN_AVX2 void hrn_reverse_avx2(const uint8_t *pixels, int32_t count, uint8_t *out) {
  const __m256i down = _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  const int32_t whole = count / 8 * 8;
  for (int32_t x = 0; x < whole; x += 8) {
    const __m256i in = _mm256_loadu_si256((const __m256i *)(pixels + 4 * (size_t)(count - 8 - x)));
    _mm256_storeu_si256((__m256i *)(out + 4 * (size_t)x), _mm256_permutevar8x32_epi32(in, down));
  }
  hrn_reverse_scalar(pixels, count - whole, out + 4 * (size_t)whole);
}

HRN_AVX2 void hrn_mix_avx2(const hrn_format *format, const uint8_t *own, const uint8_t *other,
                           const float share[2], int32_t count, uint8_t *row, size_t plane) {
  const shares weights = {_mm256_set1_ps(share[0]), _mm256_set1_ps(share[1])};
  const size_t pixel = format->element * (format->layout == HRN_NHWC ? 3 : 1);
  /* Pixels that are left over at the end are done together with some before them, which are done
   * again. */
  const int32_t whole = count / 8 * 8, last = count - 8;
  const partner first = {other, weights}, second = {other + 4 * (size_t)last, weights};
  write_pixels(format, own, whole, 0, &first, row, plane);
  if (whole < count) {
    write_pixels(format, own + 4 * (size_t)last, 8, 0, &second, row + (size_t)last * pixel, plane);
  }
}
#else
/* An empty translation unit is not ISO C. */
typedef int hrn_write_avx2_absent;
#endif
