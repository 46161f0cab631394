/* write_avx2.c: the writer with 256-bit vectors, 8 pixels at a time.
 *
 * Looking values up is what AVX2 does worst, and dividing is slow, so float values are computed by
 * multiplying with reciprocals that are held in two floats. Whether that gives exactly the tables'
 * bits has been tried when the format was compiled; where not, the scalar writer looks them up.
 */
#include "write.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define HRN_AVX2 __attribute__((target("avx2,fma,f16c")))
#define HRN_AVX2_INLINE static inline __attribute__((always_inline, target("avx2,fma,f16c")))

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

/* 8 values cast and stored, 16 or 32 bytes. */
HRN_AVX2_INLINE void store(uint8_t *out, __m256 value, int32_t dtype) {
  if (dtype == HRN_FLOAT32) {
    _mm256_storeu_ps((float *)out, value);
  } else if (dtype == HRN_FLOAT16) {
    _mm_storeu_si128((__m128i *)out,
                     _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  } else {
    /* bfloat16: add just under one half, and one more where the kept part is odd. */
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_srli_epi32(
        _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
    _mm_storeu_si128((__m128i *)out, _mm_packus_epi32(_mm256_castsi256_si128(rounded),
                                                      _mm256_extracti128_si256(rounded, 1)));
  }
}

/* 8 pixels, the last one first where the row is flipped. */
HRN_AVX2_INLINE __m256i load(const uint8_t *pixels, int32_t count, int32_t x, int flip) {
  if (!flip) return _mm256_loadu_si256((const __m256i *)(pixels + 4 * (size_t)x));
  const __m256i backwards = _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  const uint8_t *from = pixels + 4 * (size_t)(count - 8 - x);
  return _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *)from), backwards);
}

/* R G B R G B ... of 8 pixels in the first 24 bytes. */
HRN_AVX2_INLINE __m256i interleaved(__m256i pixels) {
  const __m256i drop = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1, 0,
                                        1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
  const __m256i join = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 7);
  return _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(pixels, drop), join);
}

HRN_AVX2_INLINE void write_bytes(const hrn_format *format, const uint8_t *pixels, int32_t count,
                                 int flip, uint8_t *row, size_t plane) {
  /* Four pixels of each lane to R R R R G G G G B B B B, then both lanes together. */
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

HRN_AVX2_INLINE void write_planes(const hrn_format *format, const uint8_t *pixels, int32_t count,
                                  int flip, uint8_t *row, size_t plane, int32_t dtype) {
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
    uint8_t *out = row + (size_t)x * element;
    store(out, value_of(_mm256_and_si256(in, byte), &f[0]), dtype);
    store(out + plane, value_of(_mm256_and_si256(_mm256_srli_epi32(in, 8), byte), &f[1]), dtype);
    store(out + 2 * plane, value_of(_mm256_and_si256(_mm256_srli_epi32(in, 16), byte), &f[2]),
          dtype);
  }
}

HRN_AVX2_INLINE void write_interleaved(const hrn_format *format, const uint8_t *pixels,
                                       int32_t count, int flip, uint8_t *row, int32_t dtype) {
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
    const __m128i front = _mm256_castsi256_si128(in);
    uint8_t *out = row + (size_t)x / 8 * 3 * vector;
    store(out, value_of(_mm256_cvtepu8_epi32(front), &f[0]), dtype);
    store(out + vector, value_of(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(front, front)), &f[1]),
          dtype);
    store(out + 2 * vector, value_of(_mm256_cvtepu8_epi32(_mm256_extracti128_si256(in, 1)), &f[2]),
          dtype);
  }
}

HRN_AVX2 void hrn_write_avx2(const hrn_format *format, const uint8_t *pixels, int32_t count,
                             int flip, uint8_t *row, size_t plane) {
  const int32_t whole = format->dtype == HRN_UINT8 || format->arithmetic ? count / 8 * 8 : 0;
  /* A flipped row begins with the last pixels: those before `rest` are left over at its end. */
  const int32_t rest = count - whole;
  const uint8_t *from = flip ? pixels + 4 * (size_t)rest : pixels;
  /* The casts are constants below, so each gets a loop of its own. */
  if (format->dtype == HRN_UINT8) {
    write_bytes(format, from, whole, flip, row, plane);
  } else if (format->layout == HRN_NCHW) {
    switch (format->dtype) {
      case HRN_FLOAT32:
        write_planes(format, from, whole, flip, row, plane, HRN_FLOAT32);
        break;
      case HRN_FLOAT16:
        write_planes(format, from, whole, flip, row, plane, HRN_FLOAT16);
        break;
      default:
        write_planes(format, from, whole, flip, row, plane, HRN_BFLOAT16);
    }
  } else {
    switch (format->dtype) {
      case HRN_FLOAT32:
        write_interleaved(format, from, whole, flip, row, HRN_FLOAT32);
        break;
      case HRN_FLOAT16:
        write_interleaved(format, from, whole, flip, row, HRN_FLOAT16);
        break;
      default:
        write_interleaved(format, from, whole, flip, row, HRN_BFLOAT16);
    }
  }
  if (rest > 0) {
    const size_t pixel = format->element * (format->layout == HRN_NHWC ? 3 : 1);
    hrn_write_scalar(format, flip ? pixels : pixels + 4 * (size_t)whole, rest, flip,
                     row + (size_t)whole * pixel, plane);
  }
}
#else
/* An empty translation unit is not ISO C. */
typedef int hrn_write_avx2_absent;
#endif
