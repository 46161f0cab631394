/* colour_avx2.c: fancy upsampling of chroma, and YCbCr to RGBX, with the same bytes as libjpeg.
 *
 * Rows are read and written in whole vectors (plane_kernels.h says how far beyond their end).
 */
#include "plane_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define HRN_AVX2 __attribute__((target("avx2")))
#define HRN_AVX2_INLINE static inline __attribute__((always_inline, target("avx2")))

HRN_AVX2_INLINE __m256i load(const uint8_t *from) {
  return _mm256_loadu_si256((const __m256i *)(const void *)from);
}

HRN_AVX2_INLINE void store_half(uint8_t *to, __m128i bytes) {
  _mm_storeu_si128((__m128i *)(void *)to, bytes);
}

/* 3 a + b, in 16 bits: elements 0 to 7 of each lane's 16, with `high` 8 to 15. */
HRN_AVX2_INLINE __m256i three_to_one(int high, __m256i a, __m256i b) {
  const __m256i pairs = high ? _mm256_unpackhi_epi8(a, b) : _mm256_unpacklo_epi8(a, b);
  return _mm256_maddubs_epi16(pairs, _mm256_set1_epi16(0x0103));
}

/* Left and right outputs in turn: 8 in each lane of `low` and of `high`, so 64 bytes. */
HRN_AVX2_INLINE void store_doubled(uint8_t *to, __m256i low, __m256i high) {
  store_half(to, _mm256_castsi256_si128(low));
  store_half(to + 16, _mm256_castsi256_si128(high));
  store_half(to + 32, _mm256_extracti128_si256(low, 1));
  store_half(to + 48, _mm256_extracti128_si256(high, 1));
}

/* (3 this + before + 1) / 4 and (3 this + behind + 2) / 4. */
HRN_AVX2_INLINE __m256i double_half(int high, __m256i before, __m256i this, __m256i behind) {
  __m256i left = three_to_one(high, this, before), right = three_to_one(high, this, behind);
  left = _mm256_srli_epi16(_mm256_add_epi16(left, _mm256_set1_epi16(1)), 2);
  right = _mm256_srli_epi16(_mm256_add_epi16(right, _mm256_set1_epi16(2)), 2);
  return _mm256_or_si256(left, _mm256_slli_epi16(right, 8));
}

HRN_AVX2 void hrn_h2v1_avx2(const uint8_t *row, int32_t count, uint8_t *out) {
  for (; count > 0; count -= 32, row += 32, out += 64) {
    const __m256i before = load(row - 1), this = load(row), behind = load(row + 1);
    store_doubled(out, double_half(0, before, this, behind), double_half(1, before, this, behind));
  }
}

/* (3 this + before + 8) / 16 and (3 this + behind + 7) / 16, where each is a sum 3 near + far. */
HRN_AVX2_INLINE __m256i quadruple_half(int high, const __m256i near[3], const __m256i far[3]) {
  const __m256i this = three_to_one(high, near[1], far[1]);
  const __m256i thrice = _mm256_add_epi16(this, _mm256_add_epi16(this, this));
  __m256i left = _mm256_add_epi16(thrice, three_to_one(high, near[0], far[0]));
  __m256i right = _mm256_add_epi16(thrice, three_to_one(high, near[2], far[2]));
  left = _mm256_srli_epi16(_mm256_add_epi16(left, _mm256_set1_epi16(8)), 4);
  right = _mm256_srli_epi16(_mm256_add_epi16(right, _mm256_set1_epi16(7)), 4);
  return _mm256_or_si256(left, _mm256_slli_epi16(right, 8));
}

HRN_AVX2 void hrn_h2v2_avx2(const uint8_t *near, const uint8_t *far, int32_t count, uint8_t *out) {
  for (; count > 0; count -= 32, near += 32, far += 32, out += 64) {
    const __m256i a[3] = {load(near - 1), load(near), load(near + 1)};
    const __m256i b[3] = {load(far - 1), load(far), load(far + 1)};
    store_doubled(out, quadruple_half(0, a, b), quadruple_half(1, a, b));
  }
}

/* Twice the 8-bit values less 128, in 16 bits. */
HRN_AVX2_INLINE __m256i widen_twice(int high, __m256i centred) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i upper =
      high ? _mm256_unpackhi_epi8(zero, centred) : _mm256_unpacklo_epi8(zero, centred);
  return _mm256_srai_epi16(upper, 7);
}

/* What is added to Y for green: (-0.34414 Cb - 0.71414 Cr). As in libjpeg, each constant has 16
 * bits and the sum is rounded once: two products in 32 bits. Even and odd elements are computed
 * apart. */
HRN_AVX2_INLINE __m256i green_of(__m256i cb, __m256i cr) {
  const __m256i even = _mm256_blend_epi16(cb, _mm256_slli_epi32(cr, 16), 0xAA);
  const __m256i odd = _mm256_blend_epi16(_mm256_srli_epi32(cb, 16), cr, 0xAA);
  /* -22554 and -46802, halved because cb and cr are doubled. */
  const __m256i factors = _mm256_set1_epi32((int)(uint16_t)-11277 | -23401 * 65536);
  const __m256i half = _mm256_set1_epi32(1 << 15);
  const __m256i a = _mm256_add_epi32(_mm256_madd_epi16(even, factors), half);
  const __m256i b = _mm256_add_epi32(_mm256_madd_epi16(odd, factors), half);
  return _mm256_blend_epi16(_mm256_srli_epi32(a, 16), b, 0xAA);
}

typedef struct rgb {
  __m256i r, g, b; /* 16 bits, not yet clipped */
} rgb;

/* vpmulhrsw rounds (a x b) / 2^15. With these factors it gives libjpeg's rounded 1.402 Cr and
 * 1.772 Cb for each of the 256 values (ctest/planes.c tries them). */
HRN_AVX2_INLINE rgb convert(int high, __m256i y, __m256i cb_centred, __m256i cr_centred) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i luma = high ? _mm256_unpackhi_epi8(y, zero) : _mm256_unpacklo_epi8(y, zero);
  const __m256i cb = widen_twice(high, cb_centred), cr = widen_twice(high, cr_centred);
  return (rgb){.r = _mm256_add_epi16(luma, _mm256_mulhrs_epi16(cr, _mm256_set1_epi16(22970))),
               .g = _mm256_add_epi16(luma, green_of(cb, cr)),
               .b = _mm256_add_epi16(luma, _mm256_mulhrs_epi16(cb, _mm256_set1_epi16(29033)))};
}

/* 32 pixels. */
HRN_AVX2_INLINE void store_pixels(uint8_t *to, __m256i r, __m256i g, __m256i b) {
  const __m256i x = _mm256_set1_epi8(-1);
  const __m256i rg[2] = {_mm256_unpacklo_epi8(r, g), _mm256_unpackhi_epi8(r, g)};
  const __m256i bx[2] = {_mm256_unpacklo_epi8(b, x), _mm256_unpackhi_epi8(b, x)};
  for (int i = 0; i < 2; i++) {
    const __m256i first = _mm256_unpacklo_epi16(rg[i], bx[i]);
    const __m256i second = _mm256_unpackhi_epi16(rg[i], bx[i]);
    store_half(to + 32 * i, _mm256_castsi256_si128(first));
    store_half(to + 32 * i + 16, _mm256_castsi256_si128(second));
    store_half(to + 32 * i + 64, _mm256_extracti128_si256(first, 1));
    store_half(to + 32 * i + 80, _mm256_extracti128_si256(second, 1));
  }
}

HRN_AVX2 void hrn_colour_avx2(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int32_t count,
                              uint8_t *rgbx) {
  const __m256i centre = _mm256_set1_epi8(-128);
  for (; count > 0; count -= 32, y += 32, cb += 32, cr += 32, rgbx += 128) {
    const __m256i luma = load(y);
    const __m256i blue = _mm256_xor_si256(load(cb), centre);
    const __m256i red = _mm256_xor_si256(load(cr), centre);
    const rgb low = convert(0, luma, blue, red), high = convert(1, luma, blue, red);
    store_pixels(rgbx, _mm256_packus_epi16(low.r, high.r), _mm256_packus_epi16(low.g, high.g),
                 _mm256_packus_epi16(low.b, high.b));
  }
}

HRN_AVX2 void hrn_grey_avx2(const uint8_t *y, int32_t count, uint8_t *rgbx) {
  for (; count > 0; count -= 32, y += 32, rgbx += 128) {
    const __m256i luma = load(y);
    store_pixels(rgbx, luma, luma, luma);
  }
}

#endif
