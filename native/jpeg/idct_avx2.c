/* idct_avx2.c: libjpeg-turbo's slow integer inverse DCT, two blocks at a time.
 *
 * The algorithm is Loeffler, Ligtenberg and Moschytz's (ICASSP 1989) with 13-bit constants, columns
 * first, 2 fraction bits between the passes. Pixels must equal libjpeg-turbo's for every input,
 * including those that no encoder makes. So everything that rounds, wraps or saturates there does
 * so here: sums of two inputs wrap at 16 bits, products are added modulo 2^32, results saturate to
 * 16 bits. The arithmetic in between is exact, so it may be done in any order.
 *
 * One lane holds one block, so nothing crosses lanes before the last step. Coefficients of high
 * frequencies are mostly 0, and without them half of the arithmetic falls away. In photographs both
 * blocks of a pair lie inside the upper left 4 x 4 in 55 of 100 pairs of chroma, and in 9 of
 * luma. */
#include "plane_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define HRN_AVX2 __attribute__((target("avx2")))
#define HRN_AVX2_INLINE static inline __attribute__((always_inline, target("avx2")))

/* cos(k pi / 16) sqrt(2), their sums and differences, times 2^13. */
#define BITS 13
#define C_0_298631336 2446
#define C_0_390180644 3196
#define C_0_541196100 4433
#define C_0_765366865 6270
#define C_0_899976223 7373
#define C_1_175875602 9633
#define C_1_501321110 12299
#define C_1_847759065 15137
#define C_1_961570560 16069
#define C_2_053119869 16819
#define C_2_562915447 20995
#define C_3_072711026 25172

/* The fraction bits that a pass takes away. */
#define FIRST (BITS - 2)
#define SECOND (BITS + 2 + 3)

/* a for the even 16-bit elements, b for the odd ones. */
HRN_AVX2_INLINE __m256i weights(int a, int b) {
  return _mm256_set1_epi32((int)((uint32_t)(uint16_t)a | (uint32_t)b << 16));
}

/* Elements 0 to 3 of a and b in turn, in each lane; with `high`, 4 to 7. */
HRN_AVX2_INLINE __m256i interleave(int high, __m256i a, __m256i b) {
  return high ? _mm256_unpackhi_epi16(a, b) : _mm256_unpacklo_epi16(a, b);
}

/* Sums and differences of the even and the odd half, rounded already. */
HRN_AVX2_INLINE void butterfly(const __m256i even[4], const __m256i odd[4], int shift,
                               __m256i out[8]) {
  for (int i = 0; i < 4; i++) {
    out[i] = _mm256_srai_epi32(_mm256_add_epi32(even[i], odd[i]), shift);
    out[7 - i] = _mm256_srai_epi32(_mm256_sub_epi32(even[i], odd[i]), shift);
  }
}

/* Transforms four of a lane's eight columns, where in[4] to in[7] are 0. So no sum of two inputs is
 * left that could wrap, and each of `even` and `odd` is a sum of two products. */
HRN_AVX2_INLINE void transform_few(int high, const __m256i in[8], int shift, __m256i out[8]) {
  const __m256i half = _mm256_set1_epi32(1 << (shift - 1));
  const __m256i in02 = interleave(high, in[0], in[2]), in13 = interleave(high, in[1], in[3]);
  static const int even_weights[4] = {C_0_541196100 + C_0_765366865, C_0_541196100, -C_0_541196100,
                                      -C_0_541196100 - C_0_765366865};
  static const int odd_weights[4][2] = {
      {C_1_175875602 - C_0_390180644 + C_1_501321110 - C_0_899976223, C_1_175875602},
      {C_1_175875602, C_1_175875602 - C_1_961570560 + C_3_072711026 - C_2_562915447},
      {C_1_175875602 - C_0_390180644, C_1_175875602 - C_2_562915447},
      {C_1_175875602 - C_0_899976223, C_1_175875602 - C_1_961570560}};
  __m256i even[4], odd[4];
  for (int i = 0; i < 4; i++) {
    even[i] = _mm256_madd_epi16(in02, weights(1 << BITS, even_weights[i]));
    even[i] = _mm256_add_epi32(even[i], half);
    odd[i] = _mm256_madd_epi16(in13, weights(odd_weights[i][0], odd_weights[i][1]));
  }
  butterfly(even, odd, shift, out);
}

/* The same for any input. */
HRN_AVX2_INLINE void transform_all(int high, const __m256i in[8], int shift, __m256i out[8]) {
  /* Multiplies by 2^BITS: the value is the upper half of 32 bits, which is shifted down. The lower
   * half brings the rounding of the first pass along. That of the second pass does not fit. */
  const __m256i lower = _mm256_set1_epi16(shift == FIRST ? 1 << (FIRST - 1 + 16 - BITS) : 0);
  __m256i sum = interleave(high, lower, _mm256_add_epi16(in[0], in[4]));
  __m256i difference = interleave(high, lower, _mm256_sub_epi16(in[0], in[4]));
  sum = _mm256_srai_epi32(sum, 16 - BITS);
  difference = _mm256_srai_epi32(difference, 16 - BITS);
  if (shift == SECOND) {
    const __m256i half = _mm256_set1_epi32(1 << (SECOND - 1));
    sum = _mm256_add_epi32(sum, half);
    difference = _mm256_add_epi32(difference, half);
  }
  const __m256i in26 = interleave(high, in[2], in[6]);
  const __m256i outer =
      _mm256_madd_epi16(in26, weights(C_0_541196100 + C_0_765366865, C_0_541196100));
  const __m256i inner =
      _mm256_madd_epi16(in26, weights(C_0_541196100, C_0_541196100 - C_1_847759065));
  const __m256i even[4] = {_mm256_add_epi32(sum, outer), _mm256_add_epi32(difference, inner),
                           _mm256_sub_epi32(difference, inner), _mm256_sub_epi32(sum, outer)};

  const __m256i z =
      interleave(high, _mm256_add_epi16(in[7], in[3]), _mm256_add_epi16(in[5], in[1]));
  const __m256i z3 = _mm256_madd_epi16(z, weights(C_1_175875602 - C_1_961570560, C_1_175875602));
  const __m256i z4 = _mm256_madd_epi16(z, weights(C_1_175875602, C_1_175875602 - C_0_390180644));
  const __m256i in71 = interleave(high, in[7], in[1]), in53 = interleave(high, in[5], in[3]);
  const __m256i products[4] = {
      _mm256_madd_epi16(in71, weights(-C_0_899976223, C_1_501321110 - C_0_899976223)),
      _mm256_madd_epi16(in53, weights(-C_2_562915447, C_3_072711026 - C_2_562915447)),
      _mm256_madd_epi16(in53, weights(C_2_053119869 - C_2_562915447, -C_2_562915447)),
      _mm256_madd_epi16(in71, weights(C_0_298631336 - C_0_899976223, -C_0_899976223))};
  const __m256i odd[4] = {_mm256_add_epi32(products[0], z4), _mm256_add_epi32(products[1], z3),
                          _mm256_add_epi32(products[2], z4), _mm256_add_epi32(products[3], z3)};
  butterfly(even, odd, shift, out);
}

HRN_AVX2_INLINE void transform(int few, int high, const __m256i in[8], int shift, __m256i out[8]) {
  if (few) {
    transform_few(high, in, shift, out);
  } else {
    transform_all(high, in, shift, out);
  }
}

/* Eight rows of four columns, 32 bits, to four columns of eight rows, 16 bits. */
HRN_AVX2_INLINE void transpose(const __m256i row[8], __m256i column[4]) {
  const __m256i row04 = _mm256_packs_epi32(row[0], row[4]),
                row15 = _mm256_packs_epi32(row[1], row[5]);
  const __m256i row26 = _mm256_packs_epi32(row[2], row[6]),
                row37 = _mm256_packs_epi32(row[3], row[7]);
  const __m256i row02 = _mm256_unpacklo_epi16(row04, row26),
                row46 = _mm256_unpackhi_epi16(row04, row26);
  const __m256i row13 = _mm256_unpacklo_epi16(row15, row37),
                row57 = _mm256_unpackhi_epi16(row15, row37);
  /* Columns 0 and 1, 2 and 3, of the upper and of the lower four rows. */
  const __m256i upper01 = _mm256_unpacklo_epi16(row02, row13),
                upper23 = _mm256_unpackhi_epi16(row02, row13);
  const __m256i lower01 = _mm256_unpacklo_epi16(row46, row57),
                lower23 = _mm256_unpackhi_epi16(row46, row57);
  column[0] = _mm256_unpacklo_epi64(upper01, lower01);
  column[1] = _mm256_unpackhi_epi64(upper01, lower01);
  column[2] = _mm256_unpacklo_epi64(upper23, lower23);
  column[3] = _mm256_unpackhi_epi64(upper23, lower23);
}

/* Stores eight columns, of the upper and of the lower four rows in 32 bits, as bytes around 128 in
 * rows of both blocks. */
HRN_AVX2_INLINE void store(const __m256i upper[8], const __m256i lower[8], uint8_t *to,
                           size_t stride) {
  __m256i column[8];
  for (int i = 0; i < 8; i++) column[i] = _mm256_packs_epi32(upper[i], lower[i]);
  const __m256i column02 = _mm256_packs_epi16(column[0], column[2]);
  const __m256i column13 = _mm256_packs_epi16(column[1], column[3]);
  const __m256i column46 = _mm256_packs_epi16(column[4], column[6]);
  const __m256i column57 = _mm256_packs_epi16(column[5], column[7]);
  const __m256i column01 = _mm256_unpacklo_epi8(column02, column13);
  const __m256i column23 = _mm256_unpackhi_epi8(column02, column13);
  const __m256i column45 = _mm256_unpacklo_epi8(column46, column57);
  const __m256i column67 = _mm256_unpackhi_epi8(column46, column57);
  /* The left and right halves of rows 0 to 3 and 4 to 7. */
  const __m256i left0 = _mm256_unpacklo_epi16(column01, column23);
  const __m256i left4 = _mm256_unpackhi_epi16(column01, column23);
  const __m256i right0 = _mm256_unpacklo_epi16(column45, column67);
  const __m256i right4 = _mm256_unpackhi_epi16(column45, column67);
  const __m256i rows[4] = {
      _mm256_unpacklo_epi32(left0, right0), _mm256_unpackhi_epi32(left0, right0),
      _mm256_unpacklo_epi32(left4, right4), _mm256_unpackhi_epi32(left4, right4)};
  for (int i = 0; i < 4; i++, to += 2 * stride) {
    const __m256i bytes = _mm256_xor_si256(rows[i], _mm256_set1_epi8(-128));
    const __m256i two = _mm256_permute4x64_epi64(bytes, 0xD8); /* one row of both blocks a lane */
    _mm_storeu_si128((__m128i *)to, _mm256_castsi256_si128(two));
    _mm_storeu_si128((__m128i *)(to + stride), _mm256_extracti128_si256(two, 1));
  }
}

/* If only the first row has coefficients, libjpeg-turbo takes a short cut. Its result is the same
 * for what encoders make, but beyond 14 bits it wraps where the full transform saturates. This
 * changes the row so that the full transform gives the short cut's result. Coefficients that become
 * 0 by a quantisation table with zeros count as well, because libjpeg-turbo looks at the blocks,
 * not at the products. */
static __attribute__((noinline)) HRN_AVX2 void wrap_lone_row_avx2(__m256i *row, const __m128i *a,
                                                                  const __m128i *b) {
  __m256i below = _mm256_setzero_si256();
  for (int i = 1; i < 8; i++) {
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(a + i)),
                                                 _mm_loadu_si128(b + i), 1);
    below = _mm256_or_si256(below, both);
  }
  const __m256i zero = _mm256_cmpeq_epi64(below, _mm256_setzero_si256());
  /* Both halves of a lane must be 0. */
  const __m256i lone = _mm256_and_si256(zero, _mm256_shuffle_epi32(zero, 0x4E));
  const __m256i wrapped = _mm256_srai_epi16(_mm256_slli_epi16(*row, 2), 2);
  *row = _mm256_blendv_epi8(*row, wrapped, lone);
}

/* Transforms the blocks at a and b, whose rows are in `in`. */
HRN_AVX2_INLINE void idct(int few_rows, int few_columns, __m256i in[8], const __m128i *a,
                          const __m128i *b, const int16_t *quantisation, uint8_t *rows,
                          size_t stride) {
  __m256i upper[8], lower[8], column[8];
  for (int i = 0; i < (few_rows ? 4 : 8); i++) {
    const __m128i row = _mm_loadu_si128((const __m128i *)(const void *)(quantisation + 8 * i));
    in[i] = _mm256_mullo_epi16(in[i], _mm256_broadcastsi128_si256(row));
  }
  /* True if any value is outside [-2^13, 2^13). */
  const __m256i raised = _mm256_add_epi16(in[0], _mm256_set1_epi16(1 << 13));
  if (__builtin_expect(!_mm256_testz_si256(raised, _mm256_set1_epi16((int16_t)0xC000)), 0)) {
    wrap_lone_row_avx2(&in[0], a, b);
  }
  transform(few_rows, 0, in, FIRST, upper);
  transpose(upper, column);
  if (!few_columns) {
    transform(few_rows, 1, in, FIRST, upper);
    transpose(upper, column + 4);
  }
  transform(few_columns, 0, column, SECOND, upper);
  transform(few_columns, 1, column, SECOND, lower);
  store(upper, lower, rows, stride);
}

HRN_AVX2 void hrn_idct_avx2(const hrn_block_pairs *pairs, const int16_t *quantisation,
                            uint8_t *rows, size_t stride) {
  const int16_t *block = pairs->first;
  for (size_t left = pairs->count; left > 0; left--, block += pairs->step, rows += 16) {
    const __m128i *a = (const __m128i *)(const void *)block;
    const __m128i *b = (const __m128i *)(const void *)(block + pairs->second);
    __m256i in[8];
    for (int i = 0; i < 8; i++) {
      in[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(a + i)),
                                      _mm_loadu_si128(b + i), 1);
    }
    const __m256i below =
        _mm256_or_si256(_mm256_or_si256(in[4], in[5]), _mm256_or_si256(in[6], in[7]));
    const __m256i above =
        _mm256_or_si256(_mm256_or_si256(in[0], in[1]), _mm256_or_si256(in[2], in[3]));
    const __m256i right = _mm256_set_epi64x(-1, 0, -1, 0);
    const int few_rows = _mm256_testz_si256(below, below);
    const int few_columns = _mm256_testz_si256(_mm256_or_si256(above, below), right);
    if (few_rows && few_columns) {
      idct(1, 1, in, a, b, quantisation, rows, stride);
    } else if (few_columns) {
      idct(0, 1, in, a, b, quantisation, rows, stride);
    } else if (few_rows) {
      idct(1, 0, in, a, b, quantisation, rows, stride);
    } else {
      idct(0, 0, in, a, b, quantisation, rows, stride);
    }
  }
}

#endif
