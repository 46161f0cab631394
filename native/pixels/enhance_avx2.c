/* enhance_avx2.c: the loops of enhance.c, point.c and sharpen.c with 256-bit vectors, 8 pixels at a
 * time.
 *
 * Blending is in single precision, truncated. It has the same operations in the same order as
 * hrn_blend, without fused multiply-adds. Grey and the smoothed image are computed with
 * integers. */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define HRN_AVX2 __attribute__((target("avx2,fma,f16c")))
#define HRN_AVX2_INLINE static inline __attribute__((always_inline, target("avx2,fma,f16c")))

/* hrn_blend's value before it is limited to 0 and made a byte: what is below 0 saturates when it is
 * packed. It is limited to 255 first, because beyond int32 the conversion gives the least int32. */
HRN_AVX2_INLINE __m256i blended(__m256i from, __m256i to, __m256 factor) {
  const __m256 way = _mm256_cvtepi32_ps(_mm256_sub_epi32(to, from));
  const __m256 value = _mm256_add_ps(_mm256_cvtepi32_ps(from), _mm256_mul_ps(factor, way));
  return _mm256_cvttps_epi32(_mm256_min_ps(value, _mm256_set1_ps(255)));
}

HRN_AVX2_INLINE __m256i load(const uint8_t *bytes) {
  return _mm256_loadu_si256((const __m256i *)bytes);
}

HRN_AVX2_INLINE void store(uint8_t *bytes, __m256i value) {
  _mm256_storeu_si256((__m256i *)bytes, value);
}

HRN_AVX2_INLINE __m256i widened(const uint8_t *bytes) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)bytes));
}

/* Packs 32 values of 32 bits into bytes, in order. */
HRN_AVX2_INLINE __m256i packed(__m256i a, __m256i b, __m256i c, __m256i d) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  return _mm256_permutevar8x32_epi32(
      _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d)), order);
}

/* hrn_grey of 8 pixels. 38470, the weight of green, does not fit 16 bits, so each of the two
 * products gets half of it. */
HRN_AVX2_INLINE __m256i grey_of(__m256i pixels) {
  const __m256i red_green =
      _mm256_setr_epi8(0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1, 0, -1, 1, -1, 4,
                       -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1);
  const __m256i green_blue =
      _mm256_setr_epi8(1, -1, 2, -1, 5, -1, 6, -1, 9, -1, 10, -1, 13, -1, 14, -1, 1, -1, 2, -1, 5,
                       -1, 6, -1, 9, -1, 10, -1, 13, -1, 14, -1);
  const __m256i a = _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, red_green),
                                      _mm256_set1_epi32(19595 | 19235 << 16));
  const __m256i b = _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, green_blue),
                                      _mm256_set1_epi32(19235 | 7471 << 16));
  const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_set1_epi32(0x8000));
  return _mm256_srli_epi32(sum, 16);
}

HRN_AVX2 void hrn_blend_avx2(uint8_t *pixels, size_t count, int32_t from, float factor) {
  const __m256i base = _mm256_set1_epi32(from);
  const __m256 f = _mm256_set1_ps(factor);
  size_t x = 0;
  for (; x + 8 <= count; x += 8, pixels += 32) {
    __m256i part[4];
    for (int k = 0; k < 4; k++) part[k] = blended(base, widened(pixels + 8 * k), f);
    store(pixels, packed(part[0], part[1], part[2], part[3]));
  }
  hrn_blend_scalar(pixels, count - x, from, factor);
}

HRN_AVX2 void hrn_saturate_avx2(uint8_t *pixels, size_t count, float factor) {
  const __m256i byte = _mm256_set1_epi32(255), zero = _mm256_setzero_si256();
  const __m256 f = _mm256_set1_ps(factor);
  size_t x = 0;
  for (; x + 8 <= count; x += 8, pixels += 32) {
    const __m256i in = load(pixels), grey = grey_of(in);
    __m256i channel[3];
    for (int c = 0; c < 3; c++) {
      const __m256i value = _mm256_and_si256(_mm256_srli_epi32(in, 8 * c), byte);
      channel[c] = _mm256_max_epi32(blended(grey, value, f), zero);
    }
    store(pixels, _mm256_or_si256(channel[0], _mm256_or_si256(_mm256_slli_epi32(channel[1], 8),
                                                              _mm256_slli_epi32(channel[2], 16))));
  }
  hrn_saturate_scalar(pixels, count - x, factor);
}

HRN_AVX2 void hrn_turn_grey_avx2(uint8_t *pixels, size_t count) {
  const __m256i thrice = _mm256_setr_epi8(0, 0, 0, -1, 4, 4, 4, -1, 8, 8, 8, -1, 12, 12, 12, -1, 0,
                                          0, 0, -1, 4, 4, 4, -1, 8, 8, 8, -1, 12, 12, 12, -1);
  size_t x = 0;
  for (; x + 8 <= count; x += 8, pixels += 32) {
    store(pixels, _mm256_shuffle_epi8(grey_of(load(pixels)), thrice));
  }
  hrn_turn_grey_scalar(pixels, count - x);
}

HRN_AVX2 uint64_t hrn_sum_grey_avx2(const uint8_t *pixels, size_t count) {
  __m256i sum = _mm256_setzero_si256();
  size_t x = 0;
  for (; x + 8 <= count; x += 8, pixels += 32) {
    /* These are bytes with zeros between them; vpsadbw adds eight of them into 64 bits. */
    const __m256i eight = _mm256_sad_epu8(grey_of(load(pixels)), _mm256_setzero_si256());
    sum = _mm256_add_epi64(sum, eight);
  }
  uint64_t lane[4];
  _mm256_storeu_si256((__m256i *)lane, sum);
  return lane[0] + lane[1] + lane[2] + lane[3] + hrn_sum_grey_scalar(pixels, count - x);
}

HRN_AVX2 void hrn_extremes_avx2(const uint8_t *pixels, size_t count, uint8_t low[4],
                                uint8_t high[4]) {
  int32_t first[2];
  memcpy(&first[0], low, 4);
  memcpy(&first[1], high, 4);
  __m256i least = _mm256_set1_epi32(first[0]), most = _mm256_set1_epi32(first[1]);
  size_t x = 0;
  for (; x + 8 <= count; x += 8, pixels += 32) {
    least = _mm256_min_epu8(least, load(pixels));
    most = _mm256_max_epu8(most, load(pixels));
  }
  if (x > 0) {
    /* Eight pixels are left. Their extremes are those of all pixels. */
    uint8_t found[2][32];
    store(found[0], least);
    store(found[1], most);
    hrn_extremes_scalar(found[0], 8, low, high);
    hrn_extremes_scalar(found[1], 8, low, high);
  }
  hrn_extremes_scalar(pixels, count - x, low, high);
}

HRN_AVX2_INLINE __m256i words(const uint8_t *bytes) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)bytes));
}

/* Pillow's SMOOTH of 4 pixels, 16 values of 16 bits. Its single-precision sum of N / 13 + 0.5,
 * where N is the sum of the neighbours and five times the pixel, is within 0.0002 of the exact
 * value. The exact value is at least 1/26 from an integer, because N is an integer and 13 is odd.
 * So the result is (N + 6) / 13. It is computed as a product with 5042 / 65536, which is equal for
 * every N up to 13 * 255. */
HRN_AVX2_INLINE __m256i smoothed(const uint8_t *above, const uint8_t *here, const uint8_t *below,
                                 __m256i middle) {
  const __m256i upper = _mm256_add_epi16(_mm256_add_epi16(words(above - 4), words(above)),
                                         _mm256_add_epi16(words(above + 4), words(here - 4)));
  const __m256i lower = _mm256_add_epi16(_mm256_add_epi16(words(below - 4), words(below)),
                                         _mm256_add_epi16(words(below + 4), words(here + 4)));
  const __m256i five = _mm256_add_epi16(_mm256_slli_epi16(middle, 2), middle);
  const __m256i sum = _mm256_add_epi16(_mm256_add_epi16(upper, lower),
                                       _mm256_add_epi16(five, _mm256_set1_epi16(6)));
  return _mm256_mulhi_epu16(sum, _mm256_set1_epi16(5042));
}

HRN_AVX2 void hrn_sharpen_avx2(const uint8_t *above, const uint8_t *here, const uint8_t *below,
                               size_t count, float factor, uint8_t *out) {
  const __m256 f = _mm256_set1_ps(factor);
  const __m256i zero = _mm256_setzero_si256();
  size_t x = 0;
  for (; x + 8 <= count; x += 8, above += 32, here += 32, below += 32, out += 32) {
    __m256i half[2];
    for (int k = 0; k < 2; k++) {
      const __m256i middle = words(here + 16 * k);
      const __m256i from = smoothed(above + 16 * k, here + 16 * k, below + 16 * k, middle);
      /* These are values 0-3 and 8-11, then 4-7 and 12-15. Packing puts them back in order. */
      const __m256i low =
          blended(_mm256_unpacklo_epi16(from, zero), _mm256_unpacklo_epi16(middle, zero), f);
      const __m256i high =
          blended(_mm256_unpackhi_epi16(from, zero), _mm256_unpackhi_epi16(middle, zero), f);
      half[k] = _mm256_packs_epi32(low, high);
    }
    const __m256i bytes = _mm256_packus_epi16(half[0], half[1]);
    store(out, _mm256_permute4x64_epi64(bytes, _MM_SHUFFLE(3, 1, 2, 0)));
  }
  hrn_sharpen_scalar(above, here, below, count - x, factor, out);
}
#else
/* An empty translation unit is not ISO C. */
typedef int hrn_enhance_avx2_absent;
#endif
