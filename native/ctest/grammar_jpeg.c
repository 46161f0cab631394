/* grammar_jpeg.c: JPEGs of any header, tables and scans, with entropy data that fits them. What a
 * writer decides is drawn at random, sometimes against the standard.
 *
 * Codes are written with the tables that were sent, so a decoder gets to the end of most scans. For
 * arithmetic coding any bytes are data.
 */
#include <stdlib.h>
#include <string.h>

#include "grammar.h"

enum { MOST_BLOCKS = 4096, MOST_SCANS = 24 };

typedef struct table {
  uint8_t counts[17], symbols[256];
  int total;
  uint32_t code[256];
  uint8_t length[256]; /* of a symbol's code, 0: it has none */
} table;

typedef struct component {
  uint32_t id, h, v, quantiser;
  uint32_t columns, rows;      /* blocks */
  uint64_t set[MOST_BLOCKS];   /* coefficients that earlier scans made nonzero */
  uint32_t dc_shift, ac_shift; /* what is left to refine in a progressive file */
  bool dc_sent, ac_sent;
} component;

typedef struct writer {
  random_state *r;
  draft d;
  uint32_t width, height, max_h, max_v, restart;
  uint32_t count; /* number of components */
  bool progressive, arithmetic;
  component c[4];
  table dc[4], ac[4];
  uint32_t bits, waiting; /* those not yet written */
  uint32_t end_of_blocks; /* that are left of a run of them */
} writer;

/* What a scan's header says. */
typedef struct scan {
  uint32_t count, of[4], dc[4], ac[4];
  uint32_t first, last, high, low;
} scan;

static uint32_t below(writer *w, uint32_t bound) { return (uint32_t)random_below(w->r, bound); }
static bool one_in(writer *w, uint32_t n) { return below(w, n) == n - 1; }
static uint32_t divide_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

/* ---- segments ---- */

static void marker(writer *w, uint32_t code) {
  draft_part(&w->d);
  if (one_in(w, 100)) draft_byte(&w->d, 0xFF); /* a fill byte */
  draft_16(&w->d, 0xFF00 | code);
}

/* The place of the length, which end_segment fills in. */
static size_t begin_segment(writer *w, uint32_t code) {
  marker(w, code);
  draft_16(&w->d, 0);
  return w->d.length - 2;
}

static void end_segment(writer *w, size_t at) {
  size_t length = w->d.length - at;
  if (one_in(w, 200)) length = below(w, 65536);
  w->d.bytes[at] = (uint8_t)(length >> 8);
  w->d.bytes[at + 1] = (uint8_t)length;
}

static void write_application(writer *w) {
  static const uint8_t exif[] = {'E', 'x', 'i', 'f', 0,    0, 'M', 'M', 0, 42, 0, 0, 0,
                                 8,   0,   1,   1,   0x12, 0, 3,   0,   0, 0,  1, 0};
  const uint32_t kind = below(w, 5);
  const size_t at = begin_segment(w, kind == 0   ? 0xE0
                                     : kind == 1 ? 0xEE
                                     : kind == 2 ? 0xE1
                                     : kind == 3 ? 0xFE
                                                 : 0xE0 + below(w, 16));
  if (kind == 0) draft_bytes(&w->d, "JFIF\0\1\1\0\0\1\0\1\0\0", one_in(w, 8) ? below(w, 14) : 14);
  if (kind == 1) {
    draft_bytes(&w->d, "Adobe\0d\0\0\0\0", 11);
    draft_byte(&w->d, below(w, one_in(w, 8) ? 256 : 3));
  }
  if (kind == 2) {
    draft_bytes(&w->d, exif, sizeof exif);
    draft_byte(&w->d, below(w, 10));
    draft_32(&w->d, 0);
  }
  if (kind > 2) {
    for (uint32_t n = below(w, one_in(w, 10) ? 2000 : 30); n > 0; n--)
      draft_byte(&w->d, below(w, 256));
  }
  end_segment(w, at);
}

static void write_quantisers(writer *w) {
  const bool together = one_in(w, 2);
  size_t at = together ? begin_segment(w, 0xDB) : 0;
  for (uint32_t id = 0; id < 4; id++) {
    if (id > 1 && one_in(w, 2)) continue;
    if (!together) at = begin_segment(w, 0xDB);
    const bool wide = one_in(w, 12);
    draft_byte(&w->d, (wide ? 16 : 0) | (one_in(w, 100) ? below(w, 16) : id));
    const uint32_t most = one_in(w, 8) ? 255 : 30;
    for (uint32_t i = one_in(w, 200) ? below(w, 64) : 0; i < 64; i++) {
      if (wide) draft_byte(&w->d, one_in(w, 9) ? below(w, 256) : 0);
      draft_byte(&w->d, 1 + below(w, most) - one_in(w, 500));
    }
    if (!together) end_segment(w, at);
  }
  if (together) end_segment(w, at);
}

static void write_frame(writer *w) {
  static const uint8_t codes[] = {0xC0, 0xC1, 0xC2, 0xC9, 0xCA};
  const uint8_t odd[] = {0xC3, 0xC5, 0xC6, 0xC7, 0xC8, 0xCB, 0xCD, 0xCE, 0xCF};
  const uint32_t code = one_in(w, 60) ? odd[below(w, sizeof odd)]
                                      : codes[w->arithmetic    ? 3 + w->progressive
                                              : w->progressive ? 2
                                                               : one_in(w, 3)];
  const size_t at = begin_segment(w, code);
  draft_byte(&w->d, one_in(w, 60) ? below(w, 20) : 8);
  draft_16(&w->d, one_in(w, 80) ? below(w, 65536) : w->height);
  draft_16(&w->d, one_in(w, 80) ? below(w, 65536) : w->width);
  draft_byte(&w->d, one_in(w, 100) ? below(w, 12) : w->count);
  for (uint32_t i = 0; i < w->count; i++) {
    draft_byte(&w->d, w->c[i].id);
    draft_byte(&w->d, w->c[i].h << 4 | w->c[i].v);
    draft_byte(&w->d, w->c[i].quantiser);
  }
  end_segment(w, at);
}

static void write_restart_interval(writer *w) {
  const size_t at = begin_segment(w, 0xDD);
  draft_16(&w->d, w->restart);
  end_segment(w, at);
}

/* ---- Huffman tables ---- */

static void assign_codes(table *t) {
  uint32_t code = 0;
  memset(t->length, 0, sizeof t->length);
  t->total = 0;
  for (int length = 1; length <= 16; length++, code <<= 1) {
    for (int i = 0; i < t->counts[length] && t->total < 256; i++, code++) {
      const uint8_t symbol = t->symbols[t->total++];
      t->code[symbol] = code & 0xFFFF;
      t->length[symbol] = (uint8_t)length;
    }
  }
}

/* `count` codes, none of which is all ones unless `full`. */
static void some_counts(writer *w, table *t, uint32_t count, bool full) {
  uint32_t room = 2;
  memset(t->counts, 0, sizeof t->counts);
  for (int length = 1; length <= 16 && count > 0; length++, room *= 2) {
    /* This many codes must be left for longer ones, and the last length takes all. */
    const uint32_t reach = 1u << (16 - length);
    uint32_t most = room - !full;
    while (most > 0 && count > most && (room - most) * (uint64_t)reach < count - most + !full)
      most--;
    if (most > count) most = count;
    uint32_t take = length == 16 ? most : below(w, most + 1);
    if (take > 255) take = 255;
    t->counts[length] = (uint8_t)take;
    count -= take;
    room -= take;
  }
}

static void some_symbols(writer *w, table *t, bool ac, uint32_t *count) {
  uint32_t n = 0;
  const bool any = one_in(w, 6);
  for (uint32_t s = 0; s < 256; s++) {
    if (!any && (ac ? (s & 15) > 10 || ((s & 15) == 0 && !w->progressive && s != 0 && s != 0xF0)
                    : s > 11)) {
      continue;
    }
    if (any && !ac && s > 15 && !one_in(w, 100)) continue;
    t->symbols[n++] = (uint8_t)s;
  }
  for (uint32_t i = n - 1; i > 0; i--) { /* shuffled, with the rarest last */
    const uint32_t other = below(w, i + 1);
    const uint8_t symbol = t->symbols[i];
    t->symbols[i] = t->symbols[other];
    t->symbols[other] = symbol;
  }
  if (one_in(w, 4)) n = 1 + below(w, n);
  *count = n;
}

static void write_table(writer *w, uint32_t id, bool ac) {
  table *t = ac ? &w->ac[id] : &w->dc[id];
  uint32_t count;
  memset(t, 0, sizeof *t);
  some_symbols(w, t, ac, &count);
  some_counts(w, t, count, one_in(w, 150));
  if (one_in(w, 300)) t->counts[1 + below(w, 16)] = (uint8_t)below(w, 256);
  assign_codes(t);
  draft_byte(&w->d, (ac ? 16 : 0) | (one_in(w, 100) ? below(w, 16) : id));
  draft_bytes(&w->d, t->counts + 1, 16);
  draft_bytes(&w->d, t->symbols, (size_t)t->total);
}

static void write_tables(writer *w, bool all) {
  if (w->arithmetic) {
    if (one_in(w, 2)) return;
    const size_t at = begin_segment(w, 0xCC);
    for (uint32_t n = 1 + below(w, 4); n > 0; n--) {
      draft_byte(&w->d, below(w, one_in(w, 20) ? 256 : 2) | (one_in(w, 2) ? 16 : 0));
      draft_byte(&w->d, one_in(w, 3) ? below(w, 256) : 0x10);
    }
    end_segment(w, at);
    return;
  }
  const bool together = one_in(w, 2);
  size_t at = together ? begin_segment(w, 0xC4) : 0;
  for (uint32_t i = 0; i < 8; i++) {
    if (!all && !one_in(w, 3)) continue;
    if (i % 4 > 1 && one_in(w, 2)) continue;
    if (!together) at = begin_segment(w, 0xC4);
    write_table(w, i % 4, i >= 4);
    if (!together) end_segment(w, at);
  }
  if (together) end_segment(w, at);
}

/* ---- entropy data ---- */

static void put(writer *w, uint32_t value, uint32_t count) {
  while (count > 0) {
    count--;
    w->bits = w->bits << 1 | (value >> count & 1);
    if (++w->waiting < 8) continue;
    draft_byte(&w->d, w->bits & 255);
    if ((w->bits & 255) == 255) draft_byte(&w->d, 0);
    w->waiting = 0;
  }
}

static void align(writer *w) {
  while (w->waiting != 0) put(w, 1, 1);
}

/* Writes a symbol and returns it. If the table has no such symbol, it is the table's first one. */
static uint32_t put_symbol(writer *w, const table *t, uint32_t symbol) {
  if (t->length[symbol] == 0) symbol = t->total > 0 ? t->symbols[0] : 0;
  put(w, t->code[symbol], t->length[symbol]);
  return symbol;
}

static void put_any(writer *w, uint32_t count) {
  put(w, (uint32_t)random_next(w->r) & ((1u << count) - 1), count);
}

static void put_dc(writer *w, const table *t) {
  put_any(w, put_symbol(w, t, below(w, one_in(w, 30) ? 12 : 5)) & 15);
}

/* Writes a run of end-of-block, with its extra bits. */
static void put_run(writer *w, uint32_t symbol) {
  const uint32_t size = symbol >> 4, extra = below(w, 1u << size);
  put(w, extra, size);
  w->end_of_blocks = (1u << size) + extra - 1;
}

static void sequential_block(writer *w, const table *dc, const table *ac) {
  put_dc(w, dc);
  for (uint32_t k = 1, n = below(w, one_in(w, 20) ? 64 : 8); k < 64; n--) {
    uint32_t symbol = n == 0 ? 0 : below(w, one_in(w, 6) ? 256 : 3) << 4 | (1 + below(w, 4));
    symbol = put_symbol(w, ac, symbol & 255);
    put_any(w, symbol & 15);
    if (symbol == 0) return;
    k += (symbol >> 4) + 1;
    if (n == 0) n = 1; /* the table has no end of block */
  }
}

static void first_ac_block(writer *w, component *c, uint32_t block, const scan *s, const table *t) {
  if (w->end_of_blocks > 0) {
    w->end_of_blocks--;
    return;
  }
  for (uint32_t k = s->first, n = below(w, 5); k <= s->last; n--) {
    uint32_t symbol = n == 0 || n > 64 ? below(w, one_in(w, 4) ? 15 : 1) << 4
                                       : below(w, 4) << 4 | (1 + below(w, 4));
    symbol = put_symbol(w, t, symbol);
    if ((symbol & 15) == 0 && symbol != 0xF0) {
      put_run(w, symbol);
      return;
    }
    put_any(w, symbol & 15);
    k += symbol >> 4;
    if (symbol != 0xF0 && k < 64) c->set[block] |= 1ull << k;
    k++;
  }
}

/* Writes a bit for each coefficient that is already nonzero, until `zeros` of the others are passed
 * (T.81 G.1.2.3). */
static uint32_t put_corrections(writer *w, uint64_t set, uint32_t k, uint32_t last,
                                uint32_t zeros) {
  for (; k <= last; k++) {
    if (set >> k & 1) {
      put_any(w, 1);
    } else if (zeros-- == 0) {
      break;
    }
  }
  return k;
}

static void refining_ac_block(writer *w, component *c, uint32_t block, const scan *s,
                              const table *t) {
  const uint64_t before = c->set[block];
  uint32_t k = s->first;
  if (w->end_of_blocks == 0) {
    for (uint32_t n = below(w, 5); k <= s->last; n--, k++) {
      uint32_t symbol =
          n == 0 || n > 64 ? below(w, one_in(w, 4) ? 15 : 1) << 4 : below(w, 16) << 4 | 1;
      symbol = put_symbol(w, t, symbol);
      if ((symbol & 15) == 0 && symbol != 0xF0) {
        put_run(w, symbol);
        w->end_of_blocks++;
        break;
      }
      if ((symbol & 15) != 0) put_any(w, 1); /* the sign; a size other than 1 draws a warning */
      k = put_corrections(w, before, k, s->last, symbol >> 4);
      if ((symbol & 15) != 0 && k <= s->last) c->set[block] |= 1ull << k;
    }
  }
  if (w->end_of_blocks > 0) {
    put_corrections(w, before, k, s->last, 64);
    w->end_of_blocks--;
  }
}

static void put_block(writer *w, const scan *s, uint32_t i, uint32_t block) {
  component *c = &w->c[s->of[i]];
  const table *dc = &w->dc[s->dc[i] & 3], *ac = &w->ac[s->ac[i] & 3];
  if (!w->progressive) {
    sequential_block(w, dc, ac);
  } else if (s->first == 0) {
    s->high == 0 ? put_dc(w, dc) : put_any(w, 1);
  } else if (s->high == 0) {
    first_ac_block(w, c, block % MOST_BLOCKS, s, ac);
  } else {
    refining_ac_block(w, c, block % MOST_BLOCKS, s, ac);
  }
}

static void put_restart(writer *w, uint32_t number) {
  align(w);
  w->end_of_blocks = 0;
  if (one_in(w, 300)) return;
  if (one_in(w, 300)) draft_byte(&w->d, below(w, 255));
  if (one_in(w, 300)) number += below(w, 8);
  draft_part(&w->d);
  draft_16(&w->d, 0xFFD0 | number % 8);
}

static void write_entropy(writer *w, const scan *s) {
  const bool alone = s->count == 1;
  const component *c = &w->c[s->of[0]];
  const uint32_t columns = alone ? c->columns : divide_up(w->width, 8 * w->max_h);
  const uint32_t mcus = columns * (alone ? c->rows : divide_up(w->height, 8 * w->max_v));
  w->waiting = w->end_of_blocks = 0;
  if (mcus == 0 || mcus > 3000) return; /* a scan without data */
  const uint32_t end = one_in(w, 60) ? below(w, mcus) : mcus;
  for (uint32_t mcu = 0; mcu < end; mcu++) {
    if (w->restart > 0 && mcu > 0 && mcu % w->restart == 0) put_restart(w, mcu / w->restart - 1);
    for (uint32_t i = 0; i < s->count; i++) {
      const uint32_t blocks = alone ? 1 : w->c[s->of[i]].h * w->c[s->of[i]].v;
      for (uint32_t n = 0; n < blocks; n++) {
        if (w->arithmetic) {
          if (one_in(w, 2)) put_any(w, 8);
        } else {
          put_block(w, s, i, mcu);
        }
      }
    }
  }
  align(w);
}

/* ---- scans ---- */

static void write_scan(writer *w, scan *s) {
  if (one_in(w, 6)) write_tables(w, false);
  if (one_in(w, 12)) w->restart = below(w, 9), write_restart_interval(w);
  if (one_in(w, 30)) write_quantisers(w);
  const size_t at = begin_segment(w, 0xDA);
  draft_byte(&w->d, one_in(w, 150) ? below(w, 6) : s->count);
  for (uint32_t i = 0; i < s->count; i++) {
    s->dc[i] = below(w, 2);
    s->ac[i] = below(w, 2);
    draft_byte(&w->d, one_in(w, 200) ? below(w, 256) : w->c[s->of[i]].id);
    draft_byte(&w->d, one_in(w, 200) ? below(w, 256) : s->dc[i] << 4 | s->ac[i]);
  }
  if (one_in(w, 100)) s->first = below(w, 70);
  if (one_in(w, 100)) s->last = below(w, 70);
  if (one_in(w, 100)) s->high = below(w, 16);
  if (one_in(w, 100)) s->low = below(w, 16);
  draft_byte(&w->d, s->first);
  draft_byte(&w->d, s->last);
  draft_byte(&w->d, s->high << 4 | s->low);
  end_segment(w, at);
  if (s->first > 63 || s->last > 63) s->first = s->last = 63;
  write_entropy(w, s);
}

static void sequential_scans(writer *w) {
  for (uint32_t i = 0; i < w->count;) {
    scan s = {.last = 63, .count = one_in(w, 4) ? 1 + below(w, w->count - i) : w->count - i};
    for (uint32_t n = 0; n < s.count; n++) s.of[n] = i + n;
    write_scan(w, &s);
    i += s.count;
    if (one_in(w, 20)) i = below(w, w->count + 1); /* one component comes twice, or never */
  }
}

static void dc_scan(writer *w) {
  scan s = {.count = one_in(w, 3) ? 1 : w->count};
  const uint32_t from = below(w, w->count - s.count + 1);
  for (uint32_t n = 0; n < s.count; n++) s.of[n] = from + n;
  component *c = &w->c[from];
  if (c->dc_sent && c->dc_shift > 0) {
    s.high = c->dc_shift;
    s.low = s.high - 1;
  } else {
    s.low = below(w, 3);
  }
  for (uint32_t n = 0; n < s.count; n++) {
    w->c[from + n].dc_sent = true;
    w->c[from + n].dc_shift = s.low;
  }
  write_scan(w, &s);
}

static void ac_scan(writer *w) {
  scan s = {.count = 1, .of = {below(w, w->count)}, .first = 1, .last = 63};
  component *c = &w->c[s.of[0]];
  if (one_in(w, 3)) s.first = 1 + below(w, 63), s.last = s.first + below(w, 64 - s.first);
  if (c->ac_sent && c->ac_shift > 0) {
    s.high = c->ac_shift;
    s.low = s.high - 1;
  } else {
    s.low = below(w, 3);
  }
  if (s.first == 1 && s.last == 63) c->ac_sent = true, c->ac_shift = s.low;
  write_scan(w, &s);
}

static void progressive_scans(writer *w) {
  dc_scan(w);
  for (uint32_t n = below(w, one_in(w, 20) ? MOST_SCANS : 10); n > 0; n--) {
    one_in(w, 4) ? dc_scan(w) : ac_scan(w);
  }
}

/* ---- the whole ---- */

static void choose_components(writer *w) {
  static const uint8_t factors[][2] = {{1, 1}, {2, 1}, {2, 2}, {1, 2},
                                       {4, 1}, {1, 4}, {3, 1}, {4, 2}};
  static const uint8_t counts[] = {1, 3, 3, 3, 3, 4, 4, 2};
  w->count = counts[below(w, sizeof counts)];
  w->max_h = w->max_v = 1;
  const bool letters = one_in(w, 12); /* 'R', 'G', 'B': a colour space by its ids */
  for (uint32_t i = 0; i < w->count; i++) {
    component *c = &w->c[i];
    const uint8_t *factor = factors[i == 0 || one_in(w, 8) ? below(w, 8) : 0];
    c->id = letters ? (uint32_t) "RGBK"[i] : i + 1 - one_in(w, 100);
    c->h = factor[0];
    c->v = factor[1];
    if (one_in(w, 150)) c->h = below(w, 16), c->v = below(w, 16);
    c->quantiser = one_in(w, 100) ? below(w, 8) : below(w, 2);
    if (c->h > w->max_h) w->max_h = c->h;
    if (c->v > w->max_v) w->max_v = c->v;
  }
  for (uint32_t i = 0; i < w->count; i++) {
    component *c = &w->c[i];
    c->columns = divide_up(divide_up(w->width * c->h, w->max_h), 8);
    c->rows = divide_up(divide_up(w->height * c->v, w->max_v), 8);
  }
}

static uint32_t some_side(writer *w) {
  return 1 + below(w, one_in(w, 12) ? 400 : one_in(w, 3) ? 16 : 80);
}

image_bytes random_jpeg(random_state *r) {
  writer *w = calloc(1, sizeof *w);
  if (w == NULL) abort();
  w->r = r;
  w->width = some_side(w);
  w->height = some_side(w);
  const uint32_t coding = below(w, 8);
  w->progressive = coding < 3;
  w->arithmetic = coding == 2 || coding == 3;
  if (one_in(w, 3)) w->restart = 1 + below(w, 9);
  choose_components(w);
  marker(w, 0xD8);
  while (one_in(w, 3)) write_application(w);
  write_quantisers(w);
  write_frame(w);
  if (w->restart > 0) write_restart_interval(w);
  write_tables(w, true);
  w->progressive ? progressive_scans(w) : sequential_scans(w);
  if (!one_in(w, 20)) marker(w, 0xD9);
  if (one_in(w, 30)) write_application(w);
  if (one_in(w, 3)) {
    for (uint64_t n = 1 + below(w, 3); n > 0; n--) draft_damage(r, &w->d, 20);
  }
  const image_bytes file = draft_finish(&w->d);
  free(w);
  return file;
}
