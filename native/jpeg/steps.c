/* steps.c: builds the tables of steps.h from DHT segments. */
#include "steps.h"

#include <string.h>

#include "huffman.h"

#define MAX_CODE 16  /* bits of the longest code */
#define MAX_EXTRA 15 /* bits that may follow it */

#define STEP(bits, advance) ((hrn_step)((bits) | (advance) << 8))
#define BITS(step) ((step)&0xFFu)
#define ADVANCE(step) ((step) >> 8 & 0xFFu)

/* How far a symbol moves. 0 marks symbols that no encoder writes. They are left to libjpeg, which
 * ends the block at a size of zero whose run is neither 0 nor 15, and which reads sizes beyond
 * those of 8-bit samples. coefficients.c refuses such sizes. A DC symbol's advance is the size of
 * the difference that follows. */
static hrn_step step_of(uint32_t length, uint32_t value, bool dc) {
  const uint32_t size = value & 15, run = value >> 4;
  if (size > HRN_HUFFMAN_MAX_SIZE) return 0;
  if (dc) return STEP(length + size, value);
  if (value == 0) return STEP(length, HRN_END_OF_BLOCK);
  if (size == 0 && run != 15) return 0;
  return STEP(length + size, run + 1);
}

static hrn_step *fill(hrn_step *to, hrn_step step, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) to[i] = step;
  return to + count;
}

/* Joins a symbol with those that the bits behind it hold. It stays alone if both would lead out of
 * the block. */
static hrn_step *join(hrn_step *to, hrn_step first, const hrn_step *next, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    const hrn_step sum = (hrn_step)(first + next[i]);
    to[i] = (ADVANCE(sum) & (HRN_END_OF_BLOCK - 1)) < 63 ? sum : first;
  }
  return to + count;
}

/* Fills the entries of all `left` bits that begin with this code. The code of the last symbol has
 * to lie in those bits. Its extra bits need not, because nobody looks at them. The step is 0 if the
 * symbol is left out because it is too long, and if no symbol fits. */
static hrn_step *add_code(hrn_step *to, const hrn_lookup *table, uint32_t left, uint32_t length,
                          hrn_step step) {
  const uint32_t total = BITS(step), all = 1u << (left - length);
  if (total > left + HRN_STEP_BITS - HRN_LOOKUP_BITS) return fill(to, 0, all);
  if (total >= left || ADVANCE(step) == HRN_END_OF_BLOCK || step == 0) return fill(to, step, all);
  const uint32_t rest = left - total;
  for (uint32_t extra = 0; extra < 1u << (total - length); extra++) {
    to = join(to, step, table->within + (1u << rest), 1u << rest);
  }
  return to;
}

/* Goes from few bits to many, because each table needs that of the bits which a first symbol
 * leaves. */
static void join_all(hrn_lookup *table) {
  table->within[1] = 0;
  for (uint32_t left = 1; left <= HRN_LOOKUP_BITS; left++) {
    hrn_step *to = table->within + (1u << left), *end = to + (1u << left);
    const hrn_step *symbol = table->symbol;
    for (uint32_t length = 1; length <= left; length++) {
      for (int32_t i = 0; i < table->count[length]; i++) {
        to = add_code(to, table, left, length, *symbol++);
      }
    }
    fill(to, 0, (uint32_t)(end - to));
  }
  for (uint32_t index = 0; index < HRN_LOOKUP_SIZE; index++) {
    const hrn_step step = table->within[HRN_LOOKUP_SIZE + index];
    table->many[index] = step != 0 ? step : HRN_SLOW;
  }
}

/* False if libjpeg would refuse the table, too. */
static bool build(hrn_lookup *table, const JHUFF_TBL *source, bool dc) {
  uint32_t code = 0, symbol = 0;
  hrn_step *to = table->one, *end = to + HRN_LOOKUP_SIZE;
  for (uint32_t length = 1; length <= MAX_CODE; length++) {
    const uint32_t count = source->bits[length];
    /* No symbol has the code of ones alone (T.81 C.2). libjpeg refuses a table that has it. */
    if (symbol + count > 256 || code + count >= 1u << length) return false;
    table->first_code[length] = (int32_t)code;
    table->first_symbol[length] = (int32_t)symbol;
    table->count[length] = (int32_t)count;
    for (uint32_t i = 0; i < count; i++, symbol++, code++) {
      const uint32_t value = source->huffval[symbol];
      if (dc && value > MAX_EXTRA) return false;
      table->symbol[symbol] = step_of(length, value, dc);
      /* The index's low bits are what follows the code. The step is the same for all their
       * values. */
      if (length <= HRN_LOOKUP_BITS) {
        to = fill(to, table->symbol[symbol], 1u << (HRN_LOOKUP_BITS - length));
      }
    }
    code <<= 1;
  }
  fill(to, 0, (uint32_t)(end - to));
  if (!dc) join_all(table);
  return true;
}

/* Most files of a dataset share their tables, the standard's or one camera's, so only new ones are
 * built. */
const hrn_lookup *hrn_lookup_of(hrn_lookup *table, const JHUFF_TBL *source, bool dc) {
  if (source == NULL) return NULL; /* libjpeg may have a default for it */
  if (table->built == 0 ||
      memcmp(table->source_bits, source->bits, sizeof table->source_bits) != 0 ||
      memcmp(table->source_symbols, source->huffval, sizeof table->source_symbols) != 0) {
    memcpy(table->source_bits, source->bits, sizeof table->source_bits);
    memcpy(table->source_symbols, source->huffval, sizeof table->source_symbols);
    table->usable = build(table, source, dc);
    table->built++;
  }
  return table->usable ? table : NULL;
}

/* The difference at the end of a DC step's bits, which are the top ones. A leading 0 means that it
 * is negative (T.81 F.12). */
static int32_t difference(uint64_t bits, hrn_step step) {
  const uint32_t size = ADVANCE(step);
  if (size == 0) return 0;
  const int32_t value = (int32_t)((bits << (BITS(step) - size)) >> (64 - size));
  return value >> (size - 1) ? value : value - (int32_t)((1u << size) - 1);
}

static uint32_t *add_start(uint32_t *to, uint32_t value, const hrn_step *next, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) to[i] = value + next[i];
  return to + count;
}

void hrn_start_make(hrn_start *start, const hrn_lookup *dc, const hrn_lookup *ac) {
  if (start->dc == dc && start->ac == ac && start->dc_built == dc->built &&
      start->ac_built == ac->built) {
    return;
  }
  start->dc = dc, start->dc_built = dc->built;
  start->ac = ac, start->ac_built = ac->built;
  uint32_t *to = start->step, *end = to + HRN_LOOKUP_SIZE;
  const hrn_step *symbol = dc->symbol;
  for (uint32_t length = 1; length <= HRN_LOOKUP_BITS; length++) {
    for (int32_t i = 0; i < dc->count[length]; i++, symbol++) {
      const uint32_t total = BITS(*symbol);
      if (total == 0 || total > HRN_LOOKUP_BITS) {
        const uint32_t all = 1u << (HRN_LOOKUP_BITS - length);
        memset(to, 0, all * sizeof *to);
        to += all;
        continue;
      }
      const uint32_t rest = HRN_LOOKUP_BITS - total;
      for (uint32_t extra = 0; extra < 1u << (total - length); extra++) {
        const int32_t value = difference((uint64_t)extra << (64 - total), *symbol);
        to = add_start(to, total | (uint32_t)value << 16, ac->within + (1u << rest), 1u << rest);
      }
    }
  }
  memset(to, 0, (size_t)(end - to) * sizeof *to);
}

hrn_step hrn_step_at(const hrn_lookup *table, uint64_t window) {
  const hrn_step step = table->one[window >> (64 - HRN_LOOKUP_BITS)];
  if (step != 0) return step;
  for (int length = 1; length <= MAX_CODE; length++) {
    const int32_t code = (int32_t)(window >> (64 - length)) - table->first_code[length];
    if (code >= 0 && code < table->count[length]) {
      return table->symbol[table->first_symbol[length] + code];
    }
  }
  return 0;
}

uint32_t hrn_start_at(const hrn_lookup *dc, uint64_t window) {
  const hrn_step step = hrn_step_at(dc, window);
  return BITS(step) | (uint32_t)difference(window, step) << 16;
}
