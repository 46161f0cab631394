/* entropy.c: reads the entropy-coded data of a baseline JPEG once, for a verdict, without pixels.
 *
 * libjpeg's decoder needs every coefficient's value. A verdict needs only where each code ends. So
 * one table lookup steps over several symbols at once, extra bits included. With that, packing
 * reads a file's data faster than libjpeg can skip it.
 *
 * The answer is "clean" or "not sure". Clean means that libjpeg would decode every MCU and reach
 * EOI without a warning. Everything else, even a fill byte, is left to libjpeg, which then gives
 * the verdict.
 */
#include "entropy.h"

#include <string.h>

#include "../core/cpu.h"

/* Inlined into its caller, which may be compiled for another instruction set. */
#define INLINE static inline __attribute__((always_inline))

#define SHIFT (64 - HRN_LOOKUP_BITS)
#define MAX_BITS 31 /* of the longest code and the extra bits that may follow it */

#define BITS(step) ((step)&0xFFu)

_Static_assert(3 * HRN_STEP_BITS <= 56 && 2 * HRN_STEP_BITS + HRN_LOOKUP_BITS <= 56, "window");

/* 64 symbols of 31 bits: this is how far hostile data can run past the end before the check after
 * each block. The refill reads 8 bytes more. */
_Static_assert(HRN_ENTROPY_PADDING >= 64 * MAX_BITS / 8 + 32, "work buffer padding");
_Static_assert(HRN_UNSTUFFED_PADDING >= HRN_ENTROPY_PADDING, "hrn_skip_segment reads as far");

/* ---- bits ---- */

/* The next bits are on top of `window`. `state` says how many of them count as loaded. The bits
 * below those are already the same that the next refill brings.
 *
 * `state` is an hrn_step that grows: 63 minus the bits that count as loaded, and the place of the
 * next coefficient << 8. So one addition moves both, and one comparison sees a block's end. */
typedef struct reader {
  uint64_t window;
  const uint8_t *next;
  uint32_t state;
} reader;

#define PLACE(place) ((uint32_t)(place) << 8)

/* Adds whole bytes, without a branch on how many: the bits above 56 are loaded again next time
 * (Fabian Giesen, "Reading bits in far too many ways", 2018, variant 4). The address does not
 * depend on the last steps, so the load does not wait for them. */
INLINE void refill(reader *r) {
  uint64_t word;
  memcpy(&word, r->next, sizeof word);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  r->window |= word >> (~r->state & 63);
  r->next += BITS(r->state) >> 3;
  r->state &= ~0xF8u;
}

INLINE void consume(reader *r, hrn_step step) {
  r->window <<= step & 63;
  r->state += step;
}

/* `next` is ahead of what was consumed by the bits that count as loaded. */
INLINE uint64_t used_bits(const reader *r, const uint8_t *bytes) {
  return (uint64_t)(r->next - bytes) * 8 + BITS(r->state) - 63;
}

/* Goes on at a bit of `bytes`. The coefficient's place in `state` stays. */
INLINE void read_from(reader *r, const uint8_t *bytes, uint64_t bit) {
  r->next = bytes + (bit >> 3);
  r->window = 0;
  r->state = (r->state & ~0xFFu) | 63;
  refill(r);
  consume(r, (hrn_step)(bit & 7));
}

/* ---- blocks ---- */

/* Reads the next symbol by itself, if the joined ones lead out of the block or there are none. Sets
 * the place to 0 if the symbol is not plainly right. The reader is passed and returned by value: if
 * its address were taken, the compiler would keep it in memory instead of registers. */
static reader single_step(reader r, const hrn_lookup *ac, const uint8_t *bytes) {
  read_from(&r, bytes, used_bits(&r, bytes));
  refill(&r);
  const hrn_step step = hrn_step_at(ac, r.window);
  consume(&r, step);
  /* A run beyond the block: libjpeg drops it silently. */
  const bool beyond = r.state >= PLACE(65) && r.state < PLACE(HRN_END_OF_BLOCK);
  if (step == 0 || beyond) r.state = BITS(r.state);
  return r;
}

/* Steps over one block and adds to its component's DC predictor. False if the block is not plainly
 * right. */
INLINE bool block(reader *r, const uint8_t *bytes, const hrn_start *start, int32_t *predictor) {
  refill(r);
  uint32_t first = start->step[r->window >> SHIFT];
  const bool is_long = first == 0;
  if (__builtin_expect(is_long, 0)) {
    first = hrn_start_at(start->dc, r->window);
    if (first == 0) return false;
  }
  const int32_t value = *predictor + ((int32_t)first >> 16);
  /* libjpeg silently keeps 16 bits of the value. */
  if (__builtin_expect(value != (int16_t)value, 0)) return false;
  *predictor = value;
  r->state = BITS(r->state) + PLACE(1);
  consume(r, (hrn_step)first);
  if (r->state >= PLACE(64)) return true; /* joined symbols ended the block properly */
  if (__builtin_expect(is_long, 0)) refill(r);

  const hrn_step *many = start->ac->many;
  for (;;) {
    /* Two lookups behind the one that this window began with. */
    hrn_step step = many[r->window >> SHIFT];
    consume(r, step);
    if (r->state < PLACE(64)) {
      step = many[r->window >> SHIFT];
      consume(r, step);
      if (r->state < PLACE(64)) {
        refill(r);
        step = many[r->window >> SHIFT];
        consume(r, step);
        if (r->state < PLACE(64)) continue;
      }
    }
    /* An end of block inside the block, or its last coefficient. A step's own places are fewer than
     * HRN_END_OF_BLOCK and HRN_SLOW is more, so the place alone tells which it was. */
    if (r->state - PLACE(HRN_END_OF_BLOCK) < PLACE(64) || r->state >> 8 == 64) return true;
    r->state -= step;
    *r = single_step(*r, start->ac, bytes);
    if (r->state < PLACE(1)) return false;
    if (r->state >= PLACE(64)) return true;
    refill(r);
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
        hrn_lookup_of(&entropy->dc[c->dc_tbl_no], info->dc_huff_tbl_ptrs[c->dc_tbl_no], true);
    const hrn_lookup *ac =
        hrn_lookup_of(&entropy->ac[c->ac_tbl_no], info->ac_huff_tbl_ptrs[c->ac_tbl_no], false);
    if (dc == NULL || ac == NULL) return false;
    int same = 0; /* the first component of these tables */
    while (same < i && (entropy->start[same].dc != dc || entropy->start[same].ac != ac)) same++;
    hrn_start_make(&entropy->start[same], dc, ac);
    for (int n = h * v; n > 0; n--, s->blocks++) {
      s->component[s->blocks] = (uint8_t)i;
      s->start[s->blocks] = &entropy->start[same];
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

/* A segment between restart markers: its bytes as stored and without stuffing. */
typedef struct segment {
  const uint8_t *stored; /* of the whole scan */
  size_t stored_length;
  const uint8_t *bytes;
  size_t length, begin; /* begin: in the scan as stored */
  uint64_t first, mcus;
} segment;

/* Where unstuffed data lies in the scan as stored. Begins as {0, the segment's first byte}. */
typedef struct place {
  uint64_t plain;   /* a place in the unstuffed data, behind all stuffed bytes that were met */
  size_t stored;    /* the byte of the scan that it comes from */
  uint64_t stuffed; /* the next 0xFF in the unstuffed data, where `looked`; UINT64_MAX for none */
  bool looked;
} place;

/* The byte of the scan that unstuffed byte `plain` comes from. `plain` must not be before the last
 * one that was asked for, and at most the end of the data. `length` is the scan's. */
static size_t stored(const uint8_t *scan, size_t length, place *at, uint64_t plain) {
  /* Points are closer together than stuffed bytes, so what memchr found is kept for several
   * points. */
  while (!at->looked || plain > at->stuffed) {
    if (at->looked) { /* step over it and the 0 behind it */
      at->stored += (size_t)(at->stuffed - at->plain) + 2;
      at->plain = at->stuffed + 1;
    }
    const uint8_t *from = scan + at->stored, *mark = memchr(from, 0xFF, length - at->stored);
    at->stuffed = mark != NULL ? at->plain + (uint64_t)(mark - from) : UINT64_MAX;
    at->looked = true;
  }
  return at->stored + (size_t)(plain - at->plain);
}

/* Reads the MCUs of a segment, which must fill it to its last byte. */
INLINE bool read_mcus(const hrn_scan *s, const segment *g, hrn_recorder *recorder) {
  reader r = {0, g->bytes, 63};
  int32_t predictors[HRN_MAX_COMPONENTS] = {0};
  place at = {.stored = g->begin};
  const uint8_t *limit = g->bytes + g->length + sizeof r.window;
  uint64_t column = g->first % s->columns;
  for (uint64_t mcu = 0; mcu < g->mcus; mcu++) {
    /* The point is before the MCU. If a restart marker stands here, the point is behind it: the
     * segment begins with predictors of 0, and so will the decoder. */
    if (recorder != NULL && column % recorder->step == 0) {
      /* The zeros behind the segment come from no byte of the scan. */
      uint64_t bit = used_bits(&r, g->bytes);
      if (bit >> 3 > g->length) return false;
      hrn_seek_point *point = recorder->points++;
      point->byte = (uint32_t)stored(g->stored, g->stored_length, &at, bit >> 3);
      point->bit = bit & 7;
      memcpy(point->dc, predictors, sizeof point->dc);
    }
    if (++column == s->columns) column = 0;
    for (int i = 0; i < s->blocks; i++) {
      if (!block(&r, g->bytes, s->start[i], &predictors[s->component[i]]) || r.next > limit) {
        return false;
      }
    }
  }
  return divide_up(used_bits(&r, g->bytes), 8) == g->length;
}

INLINE void skip_mcus(const hrn_scan *s, hrn_segment *g) {
  reader r = {0, g->bytes, 63};
  read_from(&r, g->bytes, g->bit < g->last_bit ? g->bit : g->last_bit);
  const uint8_t *limit = g->bytes + (g->last_bit >> 3) + sizeof r.window;
  do {
    for (; g->mcus > 0; g->mcus--) {
      for (int i = 0; i < s->blocks; i++) {
        if (!block(&r, g->bytes, s->start[i], &g->dc[s->component[i]]) || r.next > limit) {
          g->irregular = 1;
          return;
        }
      }
    }
    g->bit = used_bits(&r, g->bytes);
    if (g->more != NULL) g->mcus = g->more(g);
  } while (g->mcus > 0);
  if (g->bit > g->last_bit) g->irregular = 1;
}

/* Each for two instruction sets, as in coefficients.c. */
#if defined(__x86_64__)
#define BMI2 __attribute__((target("bmi,bmi2")))
static BMI2 bool read_bmi2(const hrn_scan *s, const segment *g, hrn_recorder *recorder) {
  return read_mcus(s, g, recorder);
}
static BMI2 void skip_bmi2(const hrn_scan *s, hrn_segment *g) { skip_mcus(s, g); }
#else
#define read_bmi2 read_mcus
#define skip_bmi2 skip_mcus
#endif

static bool read_segment(const hrn_scan *s, const segment *g, hrn_recorder *recorder) {
  return hrn_cpu_has_bmi2() ? read_bmi2(s, g, recorder) : read_mcus(s, g, recorder);
}

/* Reads past the end by a block at most, like read_segment: the padding is zeros, and a segment
 * that ended among them is irregular. */
void hrn_skip_segment(const hrn_scan *s, hrn_segment *g) {
  if (hrn_cpu_has_bmi2()) {
    skip_bmi2(s, g);
  } else {
    skip_mcus(s, g);
  }
}

bool hrn_entropy_clean(hrn_entropy *entropy, const struct jpeg_decompress_struct *info,
                       const uint8_t *data, size_t length, uint8_t *work, hrn_recorder *recorder) {
  hrn_scan s;
  if (!hrn_scan_begin(&s, entropy, info)) return false;
  const uint8_t *end = data + length;
  segment g = {.stored = data, .stored_length = length, .bytes = work};
  /* Without restart markers the whole scan is one segment. */
  uint64_t interval = info->restart_interval != 0 ? info->restart_interval : s.mcus;
  int restart = 0;
  for (uint64_t left = s.mcus; left > 0; restart = (restart + 1) & 7) {
    g.begin = (size_t)(data - g.stored);
    int marker = unstuff(&data, end, work, &g.length);
    g.first = s.mcus - left;
    g.mcus = left < interval ? left : interval;
    left -= g.mcus;
    /* The last segment must end at EOI. If another scan followed, the file would have several. */
    if (marker != (left > 0 ? JPEG_RST0 + restart : JPEG_EOI)) return false;
    if (!read_segment(&s, &g, recorder)) return false;
  }
  return true;
}
