/* entropy.c: reads the entropy-coded data of a baseline JPEG once, for a verdict, without pixels.
 *
 * libjpeg's decoder needs every coefficient's value; a verdict needs only where each code ends. So
 * one table lookup steps over several symbols at once, their extra bits included, which lets
 * packing read a file's data faster than libjpeg can skip it.
 *
 * The answer is "clean" or "not sure". Clean means that libjpeg would decode every MCU and reach
 * EOI without a warning; anything else at all, down to a fill byte, is left to libjpeg, whose word
 * is the verdict.
 */
#include "entropy.h"

#include <string.h>

#define SHIFT (64 - HRN_LOOKUP_BITS)
#define MAX_CODE 16  /* bits of the longest code */
#define MAX_EXTRA 15 /* bits that may follow it */

/* What an end-of-block symbol adds to the coefficient's place: more than any sum of runs. */
#define END_OF_BLOCK 128

/* 64 symbols of 31 bits: how far hostile data can run past the end before the check after each
 * block. The refill reads 8 bytes more. */
_Static_assert(HRN_ENTROPY_PADDING >= 64 * (MAX_CODE + MAX_EXTRA) / 8 + 32, "work buffer padding");
_Static_assert(HRN_UNSTUFFED_PADDING >= HRN_ENTROPY_PADDING, "hrn_skip_segment reads as far");

/* ---- tables ---- */

/* What a symbol moves. bits 0 marks symbols that are left to libjpeg, which no encoder writes: it
 * ends the block at sizes of zero with a run that is neither 0 nor 15, and reads sizes beyond those
 * of 8-bit samples, which coefficients.c refuses. */
static hrn_step step_of(int length, int value, bool dc) {
  hrn_step step = {(uint8_t)(length + (value & 15)), (uint8_t)((value >> 4) + 1)};
  if (dc) {
    step.advance = (uint8_t)value; /* the size of the difference that follows */
  } else if (value == 0) {
    step.advance = END_OF_BLOCK;
  } else if ((value & 15) == 0 && value != 0xF0) {
    step.bits = 0;
  }
  if ((value & 15) > HRN_HUFFMAN_MAX_SIZE) step.bits = 0;
  return step;
}

/* Joins the symbols whose codes lie inside the index. The extra bits of the last one need not: no
 * one looks at them. */
static void join(hrn_lookup *table, const uint8_t *code_length) {
  for (uint32_t index = 0; index < HRN_LOOKUP_SIZE; index++) {
    hrn_step sum = table->one[index];
    while (sum.bits != 0 && sum.bits < HRN_LOOKUP_BITS && sum.advance < 64) {
      uint32_t rest = (index << sum.bits) & (HRN_LOOKUP_SIZE - 1);
      hrn_step next = table->one[rest];
      if (next.bits == 0 || sum.bits + code_length[rest] > HRN_LOOKUP_BITS) break;
      sum.bits = (uint8_t)(sum.bits + next.bits);
      sum.advance = (uint8_t)(sum.advance + next.advance);
    }
    table->many[index] = sum;
  }
}

/* False where libjpeg would refuse the table, too. */
static bool build(hrn_lookup *table, const JHUFF_TBL *source, bool dc) {
  uint8_t code_length[HRN_LOOKUP_SIZE] = {0};
  uint32_t code = 0;
  int symbol = 0;
  memset(table->one, 0, sizeof table->one);
  for (int length = 1; length <= MAX_CODE; length++) {
    int count = source->bits[length];
    if (symbol + count > 256 || code + (uint32_t)count > (1u << length)) return false;
    table->first_code[length] = (int32_t)code;
    table->first_symbol[length] = symbol;
    table->count[length] = count;
    for (int i = 0; i < count; i++, symbol++, code++) {
      int value = source->huffval[symbol];
      if (dc && value > MAX_EXTRA) return false;
      hrn_step step = step_of(length, value, dc);
      table->symbol[symbol] = step;
      if (length > HRN_LOOKUP_BITS || step.bits == 0) continue;
      /* What follows the code stands in the index's low bits: every value of them moves alike. */
      int free_bits = HRN_LOOKUP_BITS - length;
      for (uint32_t low = 0; low < (1u << free_bits); low++) {
        table->one[(code << free_bits) + low] = step;
        code_length[(code << free_bits) + low] = (uint8_t)length;
      }
    }
    code <<= 1;
  }
  if (!dc) join(table, code_length);
  return true;
}

/* Most files of a set share their tables, the standard's or one camera's: build only new ones. */
static const hrn_lookup *lookup(hrn_lookup *table, const JHUFF_TBL *source, bool dc) {
  if (source == NULL) return NULL; /* libjpeg may have a default for it */
  if (!table->built || memcmp(table->source_bits, source->bits, sizeof table->source_bits) != 0 ||
      memcmp(table->source_symbols, source->huffval, sizeof table->source_symbols) != 0) {
    memcpy(table->source_bits, source->bits, sizeof table->source_bits);
    memcpy(table->source_symbols, source->huffval, sizeof table->source_symbols);
    table->usable = build(table, source, dc);
    table->built = true;
  }
  return table->usable ? table : NULL;
}

/* Codes longer than the index. */
static hrn_step long_code(const hrn_lookup *table, uint64_t bits) {
  for (int length = 1; length <= MAX_CODE; length++) {
    int32_t code = (int32_t)(bits >> (64 - length)) - table->first_code[length];
    if (code >= 0 && code < table->count[length]) {
      return table->symbol[table->first_symbol[length] + code];
    }
  }
  return (hrn_step){0, 0};
}

/* ---- bits ---- */

/* The next bits stand at the top of `bits`; `count` of them are accounted for, those below are the
 * same bits that the next refill brings. */
typedef struct reader {
  uint64_t bits;
  const uint8_t *next;
  uint32_t count;
} reader;

/* Whole bytes only, without a branch on how many: the bits above 56 are loaded again next time
 * (Fabian Giesen, "Reading bits in far too many ways", 2018, variant 4). */
static inline void refill(reader *r) {
  uint64_t word;
  memcpy(&word, r->next, sizeof word);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  r->bits |= word >> r->count;
  r->next += (63 - r->count) >> 3;
  r->count |= 56;
}

static inline void consume(reader *r, uint32_t bits) {
  r->bits <<= bits;
  r->count -= bits;
}

/* ---- blocks ---- */

/* The difference at the end of a DC step of `size` extra bits (T.81 F.12): a leading 0 means a
 * negative one. */
static inline int32_t difference(uint64_t bits, hrn_step step) {
  uint32_t size = step.advance;
  if (size == 0) return 0;
  int32_t value = (int32_t)((bits << (step.bits - size)) >> (64 - size));
  return value >> (size - 1) ? value : value - (int32_t)((1u << size) - 1);
}

/* Steps over one block and adds to its component's DC predictor; false where it is not plainly
 * right. */
static inline bool block(reader *r, const hrn_lookup *dc, const hrn_lookup *ac,
                         int32_t *predictor) {
  refill(r);
  hrn_step step = dc->one[r->bits >> SHIFT];
  if (__builtin_expect(step.bits == 0, 0)) {
    step = long_code(dc, r->bits);
    if (step.bits == 0) return false;
  }
  *predictor += difference(r->bits, step);
  /* libjpeg keeps 16 bits of it, silently. */
  if (__builtin_expect(*predictor != (int16_t)*predictor, 0)) return false;
  consume(r, step.bits);

  uint32_t place = 1; /* of the next coefficient */
  for (;;) {
    refill(r);
    step = ac->many[r->bits >> SHIFT];
    if (__builtin_expect(step.bits != 0, 1) && place + step.advance < 64) {
      place += step.advance;
      consume(r, step.bits);
      /* 56 bits are enough for two lookups of the table (at most 26 bits each). */
      step = ac->many[r->bits >> SHIFT];
      if (__builtin_expect(step.bits != 0, 1) && place + step.advance < 64) {
        place += step.advance;
        consume(r, step.bits);
        continue;
      }
      refill(r);
    }
    /* The block ends here, or the code is long. Joined symbols that reach the end must end exactly
     * with the block, for what follows is the next block's. */
    if (step.advance >= END_OF_BLOCK && place + step.advance - END_OF_BLOCK < 64) {
      consume(r, step.bits);
      return true;
    }
    step = ac->one[r->bits >> SHIFT];
    if (step.bits == 0) {
      step = long_code(ac, r->bits);
      if (step.bits == 0) return false;
    }
    consume(r, step.bits);
    place += step.advance;
    if (place == 64 || step.advance == END_OF_BLOCK) return true;
    if (place > 64) return false; /* a run beyond the block: libjpeg drops it silently */
  }
}

/* ---- scan ---- */

static uint64_t divide_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

bool hrn_scan_begin(hrn_scan *s, hrn_entropy *entropy, const struct jpeg_decompress_struct *info) {
  if (info->progressive_mode || info->arith_code || info->data_precision != 8 ||
      info->comps_in_scan != info->num_components || info->Ss != 0 || info->Se != DCTSIZE2 - 1 ||
      info->Ah != 0 || info->Al != 0) {
    return false;
  }
  int max_h = 1, max_v = 1;
  s->blocks = 0;
  for (int i = 0; i < info->comps_in_scan; i++) {
    const jpeg_component_info *c = info->cur_comp_info[i];
    /* A scan of one component has one block an MCU, whatever its factors. */
    bool alone = info->comps_in_scan == 1;
    int h = alone ? 1 : c->h_samp_factor, v = alone ? 1 : c->v_samp_factor;
    if (h < 1 || h > 4 || v < 1 || v > 4 || s->blocks + h * v > HRN_MAX_BLOCKS) return false;
    if (c->dc_tbl_no < 0 || c->dc_tbl_no >= NUM_HUFF_TBLS || c->ac_tbl_no < 0 ||
        c->ac_tbl_no >= NUM_HUFF_TBLS || c->quant_tbl_no < 0 || c->quant_tbl_no >= NUM_QUANT_TBLS ||
        info->quant_tbl_ptrs[c->quant_tbl_no] == NULL) {
      return false;
    }
    const hrn_lookup *dc =
        lookup(&entropy->dc[c->dc_tbl_no], info->dc_huff_tbl_ptrs[c->dc_tbl_no], true);
    const hrn_lookup *ac =
        lookup(&entropy->ac[c->ac_tbl_no], info->ac_huff_tbl_ptrs[c->ac_tbl_no], false);
    if (dc == NULL || ac == NULL) return false;
    for (int n = h * v; n > 0; n--, s->blocks++) {
      s->component[s->blocks] = (uint8_t)i;
      s->dc[s->blocks] = dc;
      s->ac[s->blocks] = ac;
    }
    if (h > max_h) max_h = h;
    if (v > max_v) max_v = v;
  }
  s->columns = divide_up(info->image_width, 8u * (uint32_t)max_h);
  s->mcus = s->columns * divide_up(info->image_height, 8u * (uint32_t)max_v);
  return true;
}

/* Copies a segment without its stuffed zeros and returns the marker that ends it, 0 for none. */
static int unstuff(const uint8_t **data, const uint8_t *end, uint8_t *work, size_t *length) {
  const uint8_t *from = *data;
  uint8_t *to = work;
  int marker = 0;
  while (from < end) {
    const uint8_t *stop = memchr(from, 0xFF, (size_t)(end - from));
    if (stop == NULL || stop + 1 == end) break; /* no marker, not even EOI */
    size_t plain = (size_t)(stop - from);
    memcpy(to, from, plain);
    to += plain;
    from = stop + 2;
    if (stop[1] != 0) {
      marker = stop[1];
      break;
    }
    *to++ = 0xFF;
  }
  *data = from;
  *length = (size_t)(to - work);
  memset(to, 0, HRN_ENTROPY_PADDING);
  return marker;
}

/* `next` runs ahead of what was consumed by the bits that are still accounted for. */
static uint64_t used_bits(const reader *r, const uint8_t *bytes) {
  return (uint64_t)(r->next - bytes) * 8 - r->count;
}

/* A segment between restart markers: its bytes as stored and without stuffing. */
typedef struct segment {
  const uint8_t *stored; /* of the whole scan */
  const uint8_t *bytes;
  size_t length, begin; /* begin: in the scan as stored */
  uint64_t first, mcus;
} segment;

/* Follows a place in the segment back to the scan as stored; both move forward only. */
typedef struct place {
  uint64_t plain;
  size_t stored;
} place;

static void follow(const segment *g, place *at, uint64_t plain) {
  while (at->plain < plain) {
    size_t left = (size_t)(plain - at->plain);
    const uint8_t *from = g->stored + at->stored, *stuffed = memchr(from, 0xFF, left);
    size_t step = stuffed != NULL ? (size_t)(stuffed - from) + 1 : left;
    at->plain += step;
    at->stored += step + (stuffed != NULL); /* the 0 behind it */
  }
}

/* Reads the MCUs of a segment, which must fill it to its last byte. */
static bool read_segment(const hrn_scan *s, const segment *g, hrn_recorder *recorder) {
  reader r = {0, g->bytes, 0};
  int32_t predictors[HRN_MAX_BLOCKS] = {0};
  place at = {0, g->begin};
  const uint8_t *limit = g->bytes + g->length + sizeof r.bits;
  uint64_t column = g->first % s->columns;
  for (uint64_t mcu = 0; mcu < g->mcus; mcu++) {
    /* Before the MCU, so behind a restart marker where one stands here: its segment begins with
     * predictors of 0, as the decoder will. */
    if (recorder != NULL && column % recorder->step == 0) {
      uint64_t bit = used_bits(&r, g->bytes);
      follow(g, &at, bit >> 3);
      hrn_seek_point *point = recorder->points++;
      point->byte = (uint32_t)at.stored;
      point->bit = bit & 7;
      memcpy(point->dc, predictors, sizeof point->dc);
    }
    if (++column == s->columns) column = 0;
    for (int i = 0; i < s->blocks; i++) {
      if (!block(&r, s->dc[i], s->ac[i], &predictors[s->component[i]]) || r.next > limit) {
        return false;
      }
    }
  }
  return divide_up(used_bits(&r, g->bytes), 8) == g->length;
}

/* Reads past the end by a block at most, like read_segment: the padding is zeros, and a segment
 * that ended among them is irregular. */
void hrn_skip_segment(const hrn_scan *s, hrn_segment *g) {
  const uint64_t first = g->bit < g->last_bit ? g->bit : g->last_bit;
  reader r = {0, g->bytes + (first >> 3), 0};
  refill(&r);
  consume(&r, first & 7);
  const uint8_t *limit = g->bytes + (g->last_bit >> 3) + sizeof r.bits;
  for (; g->mcus > 0; g->mcus--) {
    for (int i = 0; i < s->blocks; i++) {
      if (!block(&r, s->dc[i], s->ac[i], &g->dc[s->component[i]]) || r.next > limit) {
        g->irregular = 1;
        return;
      }
    }
  }
  g->bit = used_bits(&r, g->bytes);
  if (g->bit > g->last_bit) g->irregular = 1;
}

bool hrn_entropy_clean(hrn_entropy *entropy, const struct jpeg_decompress_struct *info,
                       const uint8_t *data, size_t length, uint8_t *work, hrn_recorder *recorder) {
  hrn_scan s;
  if (!hrn_scan_begin(&s, entropy, info)) return false;
  const uint8_t *end = data + length;
  segment g = {.stored = data, .bytes = work};
  /* Without restart markers the whole scan is one segment. */
  uint64_t interval = info->restart_interval != 0 ? info->restart_interval : s.mcus;
  int restart = 0;
  for (uint64_t left = s.mcus; left > 0; restart = (restart + 1) & 7) {
    g.begin = (size_t)(data - g.stored);
    int marker = unstuff(&data, end, work, &g.length);
    g.first = s.mcus - left;
    g.mcus = left < interval ? left : interval;
    left -= g.mcus;
    /* The last segment must end at EOI itself: another scan would be a file of several. */
    if (marker != (left > 0 ? JPEG_RST0 + restart : JPEG_EOI)) return false;
    if (!read_segment(&s, &g, recorder)) return false;
  }
  return true;
}
