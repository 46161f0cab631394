/* coefficients.c: the symbol loop.
 *
 * Its cost is instructions, 20 a lookup, and mispredicted branches: one at each block's end, which
 * cannot be predicted. Two independent segments are decoded in turn to hide the latency of the
 * lookups. One alone takes a quarter longer; three would save 3 % more.
 */
#include "coefficients.h"

#include <string.h>

#include "../core/cpu.h"

/* Inlined into its caller, which may be compiled for another instruction set. */
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

/* Loads at least 57 bits; the one at `bit` is on top. */
INLINE uint64_t load(const uint8_t *bytes, uint64_t bit) {
  uint64_t word;
  memcpy(&word, bytes + (bit >> 3), sizeof word);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word << (bit & 7);
}

/* The value of the extra bits on top of `bits` (T.81 F.12): a leading 0 means negative. Shift
 * counts are taken modulo 64 by the instruction, so the masks cost nothing. */
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

/* A segment's decoder at work; a local of the loops below, so that the compiler keeps it in
 * registers. */
typedef struct stream {
  hrn_segment *segment;
  const uint64_t *table; /* table of the block's AC symbols */
  uint64_t window, bit;  /* bit: the place of the window's top */
  uint64_t entry;        /* entry of the last lookup */
  int16_t *block;
  uint32_t k; /* place of the last coefficient */
} stream;

/* Starts a block with its DC coefficient. In the loop, this is the only place where the position is
 * compared with the end of the data. */
INLINE void begin_block(const hrn_mcu *mcu, stream *s) {
  hrn_segment *segment = s->segment;
  if (__builtin_expect(s->bit > segment->last_bit, 0)) {
    segment->irregular = 1;
    s->bit = segment->last_bit;
  }
  const uint64_t window = load(segment->bytes, s->bit);
  const hrn_dc_table *table = mcu->dc[segment->block];
  uint32_t symbol = table->lookup[window >> (64 - HRN_DC_BITS)];
  if (__builtin_expect(symbol == 0, 0)) {
    symbol = hrn_dc_slow(table, window);
    if (symbol == 0) segment->irregular = 1;
  }
  int32_t *predictor = &segment->dc[mcu->component[segment->block]];
  int32_t value = *predictor + extend_dc(window << ((symbol >> 8) & 63), (symbol >> 16) & 63);
  if (__builtin_expect(value != (int16_t)value, 0)) { /* libjpeg would go on until its own check */
    segment->irregular = 1;
    value = 0;
  }
  *predictor = value;
  s->bit += symbol & 255;
  s->block[0] = (int16_t)value;
  s->table = mcu->ac[segment->block]->lookup;
  s->k = 0;
}

INLINE stream begin(const hrn_mcu *mcu, hrn_segment *segment) {
  stream s = {.segment = segment, .bit = segment->bit, .block = segment->blocks};
  segment->block = 0;
  begin_block(mcu, &s);
  return s;
}

INLINE void end(const stream *s) {
  s->segment->bit = s->bit;
  s->segment->blocks = s->block;
  if (s->bit > s->segment->last_bit) s->segment->irregular = 1;
}

/* Lookups that any window holds enough bits for. */
#define LOOKUPS_A_WINDOW 5
_Static_assert(LOOKUPS_A_WINDOW *HRN_AC_BITS <= 57, "a window's bits");

INLINE void refill(stream *s) { s->window = load(s->segment->bytes, s->bit); }

/* Decodes one or two coefficients. The second is stored first: if there is none, its place is the
 * first one's, whose value then overwrites it. An end of block, and a symbol that does not lie
 * inside the index, store garbage behind the block. True if this was more than a coefficient inside
 * a block: see `special`. */
INLINE bool lookup(stream *s) {
  const uint64_t entry = s->table[s->window >> (64 - HRN_AC_BITS)];
  s->k += (uint8_t)(entry >> 8);
  const uint32_t place = natural_order[s->k];
  s->k += (uint8_t)(entry >> 32);
  s->bit += (uint8_t)entry;
  s->window <<= entry & 63;
  s->block[natural_order[s->k]] = (int16_t)(entry >> 48);
  s->block[place] = (int16_t)(entry >> 16);
  s->entry = entry;
  return __builtin_expect(s->k > 62, 0);
}

/* A symbol that does not lie inside the index. */
INLINE void long_symbol(stream *s) {
  refill(s);
  /* The table is its struct's first member. */
  uint32_t length = (s->entry >> 16) & 63, shift = (uint32_t)(s->entry >> 24),
           total = (uint8_t)(s->entry >> 40), advance = (uint8_t)(s->entry >> 48);
  if (__builtin_expect(total == 0, 0)) {
    const uint32_t symbol = hrn_ac_slow((const hrn_ac_table *)(const void *)s->table, s->window);
    length = (symbol >> 8) & 63, shift = symbol >> 16, total = symbol & 255, advance = symbol >> 24;
    if (symbol == 0) {
      s->segment->irregular = 1;
      advance = HRN_ADVANCE_END;
    }
  }
  s->k += advance - HRN_ADVANCE_SLOW;
  s->bit += total;
  /* 16 zeros have no value. */
  const int32_t value = total == length ? 0 : extend(s->window << length, shift);
  s->block[natural_order[s->k]] = (int16_t)value;
}

/* Handles a long symbol and the end of a block. False at the end of the segment. At a block's end k
 * is 63 if the last coefficient was written, and at least HRN_ADVANCE_END after an end of block. In
 * between, the block has too many coefficients. The window is not valid afterwards. */
INLINE bool special(const hrn_mcu *mcu, stream *s) {
  hrn_segment *segment = s->segment;
  const uint32_t second = (uint8_t)(s->entry >> 32);
  if (s->k >= HRN_ADVANCE_SLOW) {
    long_symbol(s);
    if (s->k <= 62) return true;
  } else if (second != 0 && s->k - second > 62) {
    /* The first symbol ended the block: what follows is not an AC symbol. */
    s->k -= second;
    s->bit -= (uint8_t)s->entry - (uint32_t)(uint8_t)(s->entry >> 40);
  }
  segment->irregular |= s->k - 64u < HRN_ADVANCE_END - 64u;
  s->block += HRN_BLOCK;
  if (++segment->block == (uint32_t)mcu->blocks) {
    segment->block = 0;
    if (--segment->mcus == 0) {
      if (segment->more == NULL) return false;
      segment->bit = s->bit;
      segment->mcus = segment->more(segment);
      if (segment->mcus == 0) return false;
    }
  }
  begin_block(mcu, s);
  return true;
}

INLINE void finish(const hrn_mcu *mcu, stream a) {
  for (;;) {
    refill(&a);
    _Pragma("GCC unroll 5") for (int i = 0; i < LOOKUPS_A_WINDOW; i++) {
      if (lookup(&a)) goto a_special;
    }
    continue;
  a_special:
    if (!special(mcu, &a)) break;
  }
  end(&a);
}

INLINE void decode_one(const hrn_mcu *mcu, hrn_segment *segment) {
  finish(mcu, begin(mcu, segment));
}

INLINE void decode_two(const hrn_mcu *mcu, hrn_segment *first, hrn_segment *second) {
  stream a = begin(mcu, first), b = begin(mcu, second);
  for (;;) {
    refill(&a);
    refill(&b);
    _Pragma("GCC unroll 5") for (int i = 0; i < LOOKUPS_A_WINDOW; i++) {
      if (lookup(&a)) goto a_special;
      if (lookup(&b)) goto b_special;
    }
    continue;
  a_special:
    if (special(mcu, &a)) continue;
    end(&a);
    /* Rows of one image are about equally long, so little is left for one stream alone. */
    finish(mcu, b);
    return;
  b_special:
    if (special(mcu, &b)) continue;
    end(&b);
    finish(mcu, a);
    return;
  }
}

/* The same code is compiled for two instruction sets. Many of its instructions shift by a variable
 * count. BMI2's shifts take the count from any register and leave the flags alone, which saves 6 %
 * of the time. */
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

size_t hrn_unstuff(uint8_t *to, const uint8_t *from, size_t length, size_t *taken,
                   hrn_stuffing *stuffing) {
  if (stuffing != NULL) stuffing->count = 0;
  uint8_t *out = to;
  const uint8_t *in = from, *end = from + length;
  while (in < end) {
    /* memchr is fast because the C library uses SIMD. At most one byte in 256 is 0xFF, in
     * photographs one in 500. */
    const uint8_t *mark = memchr(in, 0xFF, (size_t)(end - in));
    size_t clean = (size_t)((mark != NULL ? mark : end) - in);
    memcpy(out, in, clean);
    out += clean;
    in += clean;
    if (mark == NULL || end - in < 2 || in[1] != 0) break;
    if (stuffing != NULL) {
      if (stuffing->count < stuffing->room) stuffing->at[stuffing->count] = (uint32_t)(out - to);
      stuffing->count++;
    }
    *out++ = 0xFF;
    in += 2;
  }
  memset(out, 0, HRN_UNSTUFFED_PADDING);
  *taken = (size_t)(in - from);
  return (size_t)(out - to);
}
