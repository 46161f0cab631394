/* coefficients.c: the symbol loop.
 *
 * One core decodes a symbol in about 13 cycles when it must wait for its own table lookup, and in
 * about 9 with two independent segments in turn. What is left is the branch at each block's end,
 * which no predictor knows.
 */
#include "coefficients.h"

#include <string.h>

#include "dispatch.h"

/* Into its caller, which may be compiled for another instruction set. */
#define INLINE static inline __attribute__((always_inline))

/* Where the k-th coefficient goes (T.81 figure 5). k starts at 0 for DC; everything past 63, as far
 * as 62 + HRN_ADVANCE_SLOW, goes to the first place behind the block, which is written again by the
 * next block or is the caller's spare one. */
static const uint8_t natural_order[62 + HRN_ADVANCE_SLOW + 1] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18,
    11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43,
    36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45,
    38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63, [64 ... 62 + HRN_ADVANCE_SLOW] = 64};

/* At least 57 bits from `bit` on, the next one on top. */
INLINE uint64_t load(const uint8_t *bytes, uint64_t bit) {
  uint64_t word;
  memcpy(&word, bytes + (bit >> 3), sizeof word);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word << (bit & 7);
}

INLINE uint32_t rotate(uint32_t entry, int by) { return entry >> by | entry << (32 - by); }

/* The value of the extra bits on top of `bits` (T.81 F.12): a leading 0 means negative. The shift
 * counts below are taken modulo 64 by the instruction, so the entry is rotated, not masked. */
INLINE int32_t extend(uint64_t bits, uint32_t shift) {
  uint64_t raw = bits >> (shift & 63), ones = ~0ull >> (shift & 63);
  uint64_t sign = (uint64_t)((int64_t)bits >> 63);
  return (int32_t)(raw - (~sign & ones));
}

INLINE int32_t extend_dc(uint64_t bits, uint32_t size) {
  uint64_t raw = (bits >> 1) >> (63 - size), ones = (1ull << size) - 1;
  uint64_t sign = (uint64_t)((int64_t)bits >> 63);
  return (int32_t)(raw - (~sign & ones));
}

/* Starts a block: DC, and the table of the AC symbols that follow. The one place where the position
 * is held against the end of the data. */
INLINE const uint32_t *begin_block(const hrn_mcu *mcu, hrn_segment *s, uint64_t *bit,
                                   int16_t *block) {
  uint64_t at = *bit;
  if (__builtin_expect(at > s->last_bit, 0)) {
    s->irregular = 1;
    at = s->last_bit;
  }
  uint64_t window = load(s->bytes, at);
  const hrn_huffman *table = mcu->dc[s->block];
  uint32_t entry = table->lookup[window >> (64 - HRN_HUFFMAN_BITS)];
  if (__builtin_expect(entry >> 24 == HRN_ADVANCE_SLOW, 0)) {
    entry = hrn_huffman_slow(table, window);
    if (entry == 0) s->irregular = 1;
  }
  int32_t *predictor = &s->dc[mcu->component[s->block]];
  *predictor += extend_dc(window << ((entry >> 8) & 63), (entry >> 16) & 63);
  if (*predictor != (int16_t)*predictor) { /* libjpeg would go on until its own check */
    s->irregular = 1;
    *predictor = 0;
  }
  *bit = at + (entry & 255);
  block[0] = (int16_t)*predictor;
  return mcu->ac[s->block]->lookup;
}

/* A symbol that is not in the lookup table. Gives the bits it takes, and k in bits 8 and up: an
 * address of k would keep it out of a register in the loops below. */
static __attribute__((noinline)) uint32_t slow_symbol(const uint32_t *lookup, uint64_t window,
                                                      uint32_t k, int16_t *block,
                                                      uint32_t *irregular) {
  /* lookup is the table's first member. */
  uint32_t entry = hrn_huffman_slow((const hrn_huffman *)(const void *)lookup, window);
  uint32_t advance = entry >> 24;
  if (entry == 0) {
    *irregular = 1;
    return (k + HRN_ADVANCE_END) << 8;
  }
  k += advance;
  bool zeros = advance == 16 && ((entry >> 16) & 63) == 0;
  if (!zeros) block[natural_order[k]] = (int16_t)extend(window << ((entry >> 8) & 63), entry >> 16);
  return (entry & 255) | k << 8;
}

/* One AC symbol of the stream whose locals begin with S. An end of block (or a symbol for the slow
 * way) stores garbage behind the block. */
#define SYMBOL(S)                                                                \
  {                                                                              \
    uint32_t entry = S##_table[S##_window >> (64 - HRN_HUFFMAN_BITS)];           \
    uint64_t bits = S##_window << (rotate(entry, 8) & 63);                       \
    S##_k += entry >> 24;                                                        \
    S##_bit += entry & 255;                                                      \
    S##_window <<= entry & 63;                                                   \
    S##_blocks[natural_order[S##_k]] = (int16_t)extend(bits, rotate(entry, 16)); \
  }

/* What a symbol may have ended: nothing, a block, the segment. k is then 63 (the last coefficient
 * was written), at least HRN_ADVANCE_END (end of block), or between: more coefficients than
 * a block has. */
#define AFTER(S, s)                                                                             \
  if (__builtin_expect(S##_k > 62, 0)) {                                                        \
    if (S##_k >= HRN_ADVANCE_SLOW) {                                                            \
      uint32_t taken = slow_symbol(S##_table, S##_window, S##_k - HRN_ADVANCE_SLOW, S##_blocks, \
                                   &(s)->irregular);                                            \
      S##_k = taken >> 8;                                                                       \
      S##_bit += taken & 255;                                                                   \
      S##_window <<= taken & 63;                                                                \
    }                                                                                           \
    if (S##_k > 62) {                                                                           \
      (s)->irregular |= S##_k - 64u < HRN_ADVANCE_END - 64u;                                    \
      S##_blocks += HRN_BLOCK;                                                                  \
      if (++(s)->block == (uint32_t)mcu->blocks) {                                              \
        (s)->block = 0;                                                                         \
        if (--(s)->mcus == 0) goto S##_done;                                                    \
      }                                                                                         \
      S##_table = begin_block(mcu, (s), &S##_bit, S##_blocks);                                  \
      S##_window = load((s)->bytes, S##_bit);                                                   \
      S##_k = 0;                                                                                \
    }                                                                                           \
  }

/* The rest of a segment whose block is already begun, two symbols a window. */
INLINE void finish(const hrn_mcu *mcu, hrn_segment *s, const uint32_t *a_table, uint64_t a_bit,
                   int16_t *a_blocks, uint32_t a_k) {
  uint64_t a_window;
  for (;;) {
    a_window = load(s->bytes, a_bit);
    /* clang-format off */
    SYMBOL(a) AFTER(a, s)
    SYMBOL(a) AFTER(a, s)
    /* clang-format on */
  }
a_done:
  s->bit = a_bit;
  s->blocks = a_blocks;
  if (a_bit > s->last_bit) s->irregular = 1;
}

INLINE void decode_one(const hrn_mcu *mcu, hrn_segment *s) {
  s->block = 0;
  uint64_t bit = s->bit;
  const uint32_t *table = begin_block(mcu, s, &bit, s->blocks);
  finish(mcu, s, table, bit, s->blocks, 0);
}

INLINE void decode_two(const hrn_mcu *mcu, hrn_segment *first, hrn_segment *second) {
  first->block = second->block = 0;
  uint64_t a_bit = first->bit, b_bit = second->bit, a_window, b_window;
  int16_t *a_blocks = first->blocks, *b_blocks = second->blocks;
  const uint32_t *a_table = begin_block(mcu, first, &a_bit, a_blocks);
  const uint32_t *b_table = begin_block(mcu, second, &b_bit, b_blocks);
  uint32_t a_k = 0, b_k = 0;
  for (;;) {
    a_window = load(first->bytes, a_bit);
    b_window = load(second->bytes, b_bit);
    /* clang-format off */
    SYMBOL(a) AFTER(a, first)
    SYMBOL(b) AFTER(b, second)
    SYMBOL(a) AFTER(a, first)
    SYMBOL(b) AFTER(b, second)
    /* clang-format on */
  }
  /* Rows of one image are about as long as each other: little is left for one stream alone. */
  hrn_segment *other;
a_done:
  other = second;
  first->bit = a_bit;
  first->blocks = a_blocks;
  if (a_bit > first->last_bit) first->irregular = 1;
  finish(mcu, other, b_table, b_bit, b_blocks, b_k);
  return;
b_done:
  other = first;
  second->bit = b_bit;
  second->blocks = b_blocks;
  if (b_bit > second->last_bit) second->irregular = 1;
  finish(mcu, other, a_table, a_bit, a_blocks, a_k);
}

/* The same code for two instruction sets. Shifts by a variable count are much of it, and BMI2's
 * take their count from any register and leave the flags alone: 6 % less time. */
#if defined(__x86_64__)
#define BMI2 __attribute__((target("bmi,bmi2")))
static BMI2 void decode_one_bmi2(const hrn_mcu *mcu, hrn_segment *s) { decode_one(mcu, s); }
static BMI2 void decode_two_bmi2(const hrn_mcu *mcu, hrn_segment *first, hrn_segment *second) {
  decode_two(mcu, first, second);
}
#else
#define decode_one_bmi2 decode_one
#define decode_two_bmi2 decode_two
#endif

void hrn_decode_segment(const hrn_mcu *mcu, hrn_segment *s) {
  if (s->mcus == 0) return;
  if (hrn_cpu_has_bmi2()) {
    decode_one_bmi2(mcu, s);
  } else {
    decode_one(mcu, s);
  }
}

void hrn_decode_segments(const hrn_mcu *mcu, hrn_segment *first, hrn_segment *second) {
  if (first->mcus == 0 || second->mcus == 0) {
    hrn_decode_segment(mcu, first);
    hrn_decode_segment(mcu, second);
  } else if (hrn_cpu_has_bmi2()) {
    decode_two_bmi2(mcu, first, second);
  } else {
    decode_two(mcu, first, second);
  }
}

size_t hrn_unstuff(uint8_t *to, const uint8_t *from, size_t length, size_t *taken) {
  uint8_t *out = to;
  const uint8_t *in = from, *end = from + length;
  while (in < end) {
    /* memchr is the C library's SIMD; 0xFF is one byte in 256 at most, in photographs one in 500.
     */
    const uint8_t *mark = memchr(in, 0xFF, (size_t)(end - in));
    size_t clean = (size_t)((mark != NULL ? mark : end) - in);
    memcpy(out, in, clean);
    out += clean;
    in += clean;
    if (mark == NULL || end - in < 2 || in[1] != 0) break;
    *out++ = 0xFF;
    in += 2;
  }
  memset(out, 0, HRN_UNSTUFFED_PADDING);
  *taken = (size_t)(in - from);
  return (size_t)(out - to);
}
