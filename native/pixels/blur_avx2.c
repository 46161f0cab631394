/* blur_avx2.c: the loops of blur.c with 256-bit vectors. Each sum adds the same products in the
 * same order. The two passes round the product and then the sum. Sums that are made again are
 * rounded once for both. */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define HRN_AVX2 __attribute__((target("avx2,fma,f16c")))
#define HRN_AVX2_INLINE static inline __attribute__((always_inline, target("avx2,fma,f16c")))

/* Takes eight pixels at a time. */
HRN_AVX2 void hrn_blur_open_avx2(const uint8_t *pixels, size_t count, float *line) {
  const __m256i three = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1, 0,
                                         1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
  const __m256i order = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 7);
  size_t x = 0;
  for (; x + 8 <= count; x += 8, pixels += 32, line += 24) {
    const __m256i in = _mm256_loadu_si256((const __m256i *)pixels);
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(in, three), order);
    const __m128i low = _mm256_castsi256_si128(bytes), high = _mm256_extracti128_si256(bytes, 1);
    _mm256_storeu_ps(line, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(low)));
    _mm256_storeu_ps(line + 8, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(low, 8))));
    _mm256_storeu_ps(line + 16, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(high)));
  }
  hrn_blur_open_scalar(pixels, count - x, line);
}

/* Adds weight times value to `vectors` vectors of sums, which do not wait for each other. */
HRN_AVX2_INLINE void add(const float *value, const float *weight, __m256 *sum, int vectors) {
  const __m256 w = _mm256_broadcast_ss(weight);
  for (int part = 0; part < vectors; part++) {
    sum[part] = _mm256_add_ps(sum[part], _mm256_mul_ps(w, _mm256_loadu_ps(value + 8 * part)));
  }
}

HRN_AVX2 void hrn_blur_across_avx2(const float *line, const float *weight, int32_t size,
                                   size_t count, float *sums) {
  enum { VECTORS = 6 };
  size_t n = 0;
  for (; n + 8 * VECTORS <= 3 * count; n += 8 * VECTORS) {
    __m256 sum[VECTORS];
    for (int part = 0; part < VECTORS; part++) sum[part] = _mm256_setzero_ps();
    for (int32_t k = 0; k < size; k++) add(line + n + 3 * (size_t)k, weight + k, sum, VECTORS);
    for (int part = 0; part < VECTORS; part++) _mm256_storeu_ps(sums + n + 8 * part, sum[part]);
  }
  for (; n + 8 <= 3 * count; n += 8) {
    __m256 sum = _mm256_setzero_ps();
    for (int32_t k = 0; k < size; k++) add(line + n + 3 * (size_t)k, weight + k, &sum, 1);
    _mm256_storeu_ps(sums + n, sum);
  }
  for (; n < 3 * count; n++) {
    float sum = 0;
    for (int32_t k = 0; k < size; k++) sum += weight[k] * line[n + 3 * (size_t)k];
    sums[n] = sum;
  }
}

/* Finishes eight pixels, whose first value has number `first`. Returns how many of the values are
 * in doubt. */
HRN_AVX2_INLINE size_t finish(const __m256 *sum, size_t first, hrn_blur_doubt doubt, uint8_t *out,
                              uint32_t *doubtful) {
  const __m256 sign = _mm256_set1_ps(-0.0f), slope = _mm256_set1_ps(doubt.slope);
  const __m256 most = _mm256_set1_ps(doubt.most);
  size_t doubts = 0;
  __m256i whole[3];
  for (int part = 0; part < 3; part++) {
    /* This rounds half to even, as rintf does. */
    whole[part] = _mm256_cvtps_epi32(sum[part]);
    const __m256 off = _mm256_sub_ps(sum[part], _mm256_cvtepi32_ps(whole[part]));
    const __m256 far = _mm256_add_ps(_mm256_andnot_ps(sign, off), _mm256_mul_ps(slope, sum[part]));
    uint32_t lanes = (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(far, most, _CMP_GT_OQ));
    for (; lanes != 0; lanes &= lanes - 1) {
      const uint32_t lane = (uint32_t)__builtin_ctz(lanes);
      doubtful[doubts++] = (uint32_t)first + 8 * (uint32_t)part + lane;
    }
  }
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 3, 5, 2, 6, 7);
  const __m256i four = _mm256_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, 0, 1,
                                        2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
  const __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(whole[0], whole[1]),
                                            _mm256_packs_epi32(whole[2], whole[2]));
  const __m256i pixels = _mm256_shuffle_epi8(_mm256_permutevar8x32_epi32(bytes, order), four);
  _mm256_storeu_si256((__m256i *)out, pixels);
  return doubts;
}

HRN_AVX2 size_t hrn_blur_down_avx2(const float *const *row, const float *weight, int32_t size,
                                   size_t first, size_t count, hrn_blur_doubt doubt, uint8_t *out,
                                   uint32_t *doubtful) {
  size_t doubts = 0, x = first;
  for (; x + 8 <= count; x += 8) {
    /* Takes sixteen pixels if there are so many. */
    const int pairs = x + 16 <= count;
    __m256 sum[6];
    for (int part = 0; part < 6; part++) sum[part] = _mm256_setzero_ps();
    if (pairs) {
      for (int32_t k = 0; k < size; k++) add(row[k] + 3 * x, weight + k, sum, 6);
    } else {
      for (int32_t k = 0; k < size; k++) add(row[k] + 3 * x, weight + k, sum, 3);
    }
    doubts += finish(sum, 3 * x, doubt, out + 4 * x, doubtful + doubts);
    if (!pairs) continue;
    x += 8;
    doubts += finish(sum + 3, 3 * x, doubt, out + 4 * x, doubtful + doubts);
  }
  return doubts + hrn_blur_down_scalar(row, weight, size, x, count, doubt, out, doubtful + doubts);
}

/* hrn_mirrored for eight places. */
HRN_AVX2_INLINE __m256i mirrored(__m256i at, int32_t length) {
  const __m256i positive = _mm256_abs_epi32(at), twice_last = _mm256_set1_epi32(2 * (length - 1));
  return _mm256_min_epi32(positive, _mm256_sub_epi32(twice_last, positive));
}

/* For eight values: where their kernels begin, and by how many bits their channels are shifted. */
typedef struct starts {
  int32_t x[8], y[8], bits[8];
} starts;

/* The sums of these values, each in a lane of its own. Offsets in pixels must fit 31 bits. */
HRN_AVX2_INLINE __m256 sum_of_mirrored(const hrn_blur_window *window, const starts *from) {
  const __m256i byte = _mm256_set1_epi32(255);
  const __m256i shift = _mm256_loadu_si256((const __m256i *)from->bits);
  const __m256i x = _mm256_loadu_si256((const __m256i *)from->x);
  const __m256i y = _mm256_loadu_si256((const __m256i *)from->y);
  const __m256i stride = _mm256_set1_epi32((int32_t)(window->stride / 4));
  const float *weight = window->weight;
  __m256 sum = _mm256_setzero_ps();
  for (int32_t j = 0; j < window->down; j++, weight += window->step) {
    const __m256i row = mirrored(_mm256_add_epi32(y, _mm256_set1_epi32(j)), window->height);
    const __m256i begin = _mm256_mullo_epi32(row, stride);
    for (int32_t i = 0; i < window->across; i++) {
      const __m256i column = mirrored(_mm256_add_epi32(x, _mm256_set1_epi32(i)), window->width);
      const __m256i found = _mm256_i32gather_epi32((const int *)(const void *)window->pixels,
                                                   _mm256_add_epi32(begin, column), 4);
      const __m256i channel = _mm256_and_si256(_mm256_srlv_epi32(found, shift), byte);
      sum = _mm256_fmadd_ps(_mm256_broadcast_ss(weight + i), _mm256_cvtepi32_ps(channel), sum);
    }
  }
  return sum;
}

/* The same if all rows and columns are inside, including those for the weights of 0 behind each
 * row. Four pixels of each value are loaded at once, where a gather would load one. */
HRN_AVX2_INLINE __m256 sum_of_inner(const hrn_blur_window *window, const starts *from) {
  const __m256i byte = _mm256_set1_epi32(255);
  const __m256i shift = _mm256_loadu_si256((const __m256i *)from->bits);
  const float *weight = window->weight;
  const uint8_t *row[8];
  for (int lane = 0; lane < 8; lane++) {
    row[lane] = window->pixels + (size_t)from->y[lane] * window->stride + 4 * (size_t)from->x[lane];
  }
  __m256 sum = _mm256_setzero_ps();
  for (int32_t j = 0; j < window->down; j++) {
    for (int32_t i = 0; i < window->step; i += HRN_BLUR_STEP, weight += HRN_BLUR_STEP) {
      __m256i four[4];
      for (int lane = 0; lane < 4; lane++) {
        const uint8_t *low = row[lane] + 4 * (size_t)i, *high = row[lane + 4] + 4 * (size_t)i;
        four[lane] = _mm256_set_m128i(_mm_loadu_si128((const __m128i *)high),
                                      _mm_loadu_si128((const __m128i *)low));
      }
      const __m256i low_a = _mm256_unpacklo_epi32(four[0], four[1]);
      const __m256i low_b = _mm256_unpacklo_epi32(four[2], four[3]);
      const __m256i high_a = _mm256_unpackhi_epi32(four[0], four[1]);
      const __m256i high_b = _mm256_unpackhi_epi32(four[2], four[3]);
      const __m256i column[4] = {
          _mm256_unpacklo_epi64(low_a, low_b), _mm256_unpackhi_epi64(low_a, low_b),
          _mm256_unpacklo_epi64(high_a, high_b), _mm256_unpackhi_epi64(high_a, high_b)};
      for (int k = 0; k < 4; k++) {
        const __m256i channel = _mm256_and_si256(_mm256_srlv_epi32(column[k], shift), byte);
        sum = _mm256_fmadd_ps(_mm256_broadcast_ss(weight + k), _mm256_cvtepi32_ps(channel), sum);
      }
    }
    for (int lane = 0; lane < 8; lane++) row[lane] += window->stride;
  }
  return sum;
}

HRN_AVX2 void hrn_blur_again_avx2(const hrn_blur_window *window, const hrn_blur_value *value,
                                  size_t count) {
  const int far =
      window->stride % 4 != 0 || (size_t)window->height * (window->stride / 4) > (size_t)INT32_MAX;
  for (size_t n = 0; n < count; n += 8) {
    starts from;
    uint8_t *place[8];
    int inner = 1;
    for (size_t lane = 0; lane < 8; lane++) {
      const hrn_blur_value *one = value + (n + lane < count ? n + lane : n);
      const uint32_t x = one->at / 3, channel = one->at % 3;
      place[lane] = window->out + (size_t)one->row * window->out_stride + 4 * (size_t)x + channel;
      from.bits[lane] = 8 * (int32_t)channel;
      from.x[lane] = (int32_t)x - window->across / 2;
      from.y[lane] = one->row - window->down / 2;
      inner &= from.x[lane] >= 0 && from.x[lane] + window->step <= window->width &&
               from.y[lane] >= 0 && from.y[lane] + window->down <= window->height;
    }
    if (!inner && far) {
      hrn_blur_again_scalar(window, value + n, count - n < 8 ? count - n : 8);
      continue;
    }
    int32_t whole[8];
    const __m256 sum = inner ? sum_of_inner(window, &from) : sum_of_mirrored(window, &from);
    _mm256_storeu_si256((__m256i *)whole, _mm256_cvtps_epi32(sum));
    for (size_t lane = 0; lane < 8 && n + lane < count; lane++) {
      *place[lane] = (uint8_t)whole[lane];
    }
  }
}
#else
/* An empty translation unit is not ISO C. */
typedef int hrn_blur_avx2_absent;
#endif
