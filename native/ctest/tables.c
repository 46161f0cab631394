/* tables.c: every entry of a Huffman table is what its bits say, symbol by symbol; and passing over
 * MCUs several symbols at a time ends where decoding them does.
 *
 *   tables [-n TABLES] [-s SEED]
 *
 * The tables are random, with the lengths that encoders write and with any others that the standard
 * allows, including one bit for 16 zeros. hrn_ac_slow and hrn_dc_slow, which look at one code at a
 * time, say what each index stands for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../jpeg/coefficients.h"
#include "../jpeg/entropy.h"
#include "random.h"

static long failures, joined, alone, slow, regular, irregular;

static void complain(const char *what, uint32_t index, uint64_t entry) {
  if (failures++ < 10) printf("index %x, entry %llx: %s\n", index, (unsigned long long)entry, what);
}

/* Makes a prefix code: lengths are given out while there is room. The code of ones alone always
 * keeps some (T.81 C.2). */
static void some_codes(random_state *r, uint8_t counts[17], uint8_t symbols[256]) {
  uint32_t room = 1, number = 0;
  memset(counts, 0, 17);
  for (int length = 1; length <= 16; length++) {
    room *= 2;
    uint64_t most = room - 1 < 256 - number ? room - 1 : 256 - number;
    uint64_t count = length < 16 || random_below(r, 2) ? random_below(r, most + 1) : most;
    if (random_below(r, 3) != 0 && count > most / 4) count = most / 4;
    counts[length] = (uint8_t)(count > 255 ? 255 : count);
    number += counts[length];
    room -= counts[length];
  }
  for (int i = 0; i < 256; i++) symbols[i] = (uint8_t)i;
  for (uint32_t i = 255; i > 0; i--) {
    const uint32_t other = (uint32_t)random_below(r, i + 1);
    const uint8_t symbol = symbols[i];
    symbols[i] = symbols[other];
    symbols[other] = symbol;
  }
  if (random_below(r, 4) == 0) symbols[0] = 0xF0;
}

static int32_t value_at(uint64_t window, uint32_t symbol) {
  const uint32_t length = symbol >> 8 & 255, size = (symbol & 255) - length;
  if (size == 0) return 0;
  const int32_t extra = (int32_t)(window << length >> (64 - size));
  return extra >> (size - 1) ? extra : extra - (1 << size) + 1;
}

static void check_ac(const hrn_ac_table *table, uint32_t index, uint64_t below) {
  const uint64_t window = (uint64_t)index << (64 - HRN_AC_BITS) | below >> HRN_AC_BITS;
  const uint64_t entry = table->lookup[index];
  const uint32_t first = hrn_ac_slow(table, window), total = first & 255;
  const uint32_t entry_total = entry & 255, first_total = entry >> 40 & 255;
  if ((entry >> 8 & 255) == HRN_ADVANCE_SLOW) {
    slow++;
    if (entry_total != 0 || (entry >> 32 & 255) != 0) complain("a slow entry moves", index, entry);
    if (first != 0 && total <= HRN_AC_BITS) complain("is slow for nothing", index, entry);
    const uint32_t spread =
        (uint32_t)(first_total | (entry >> 16 & 0xFFFF) << 8 | entry >> 48 << 24);
    if (spread != 0 && spread != first) complain("not the symbol", index, entry);
    return;
  }
  if (first == 0 || total != first_total || (entry >> 8 & 255) != first >> 24 ||
      (int16_t)(entry >> 16) != value_at(window, first)) {
    complain("not the first symbol", index, entry);
    return;
  }
  const uint32_t second = hrn_ac_slow(table, window << total), both = total + (second & 255);
  const bool fits = second != 0 && both <= HRN_AC_BITS && first >> 24 != HRN_ADVANCE_END;
  fits ? joined++ : alone++;
  if (entry_total != (fits ? both : total) || (entry >> 32 & 255) != (fits ? second >> 24 : 0) ||
      (int16_t)(entry >> 48) != (fits ? value_at(window << total, second) : 0)) {
    complain("not the second symbol", index, entry);
  }
}

/* ---- passing over ---- */

/* The tables of one component, and its codes. */
typedef struct coder {
  JHUFF_TBL dc, ac;
  hrn_dc_table dc_table;
  hrn_ac_table ac_table;
} coder;

typedef struct stream {
  uint8_t bytes[4096 + HRN_UNSTUFFED_PADDING];
  uint64_t bit;
} stream;

static void put(stream *to, uint64_t value, uint32_t count) {
  while (count-- > 0 && to->bit < 4096 * 8) {
    to->bytes[to->bit >> 3] |= (uint8_t)((value >> count & 1) << (7 - (to->bit & 7)));
    to->bit++;
  }
}

/* Writes the code of a symbol by its number in the list, with any extra bits. */
static void put_symbol(random_state *r, stream *to, const JHUFF_TBL *table, uint32_t number) {
  uint32_t code = 0, first = 0, length = 1;
  while (number - first >= table->bits[length]) {
    first += table->bits[length];
    code = (code + table->bits[length++]) << 1;
  }
  put(to, code + (number - first), length);
  put(to, random_next(r), table->huffval[number] & 15);
}

static uint32_t some_symbol(random_state *r, const JHUFF_TBL *table) {
  uint32_t count = 0;
  for (int length = 1; length <= 16; length++) count += table->bits[length];
  return (uint32_t)random_below(r, random_below(r, 2) && count > 8 ? 8 : count);
}

/* Writes a regular block if the table allows it and chance finds it, else any symbols. */
static void put_block(random_state *r, stream *to, const coder *c) {
  uint32_t number = some_symbol(r, &c->dc);
  for (int tries = 0; tries < 9 && c->dc.huffval[number] > 9; tries++) {
    number = some_symbol(r, &c->dc);
  }
  put_symbol(r, to, &c->dc, number);
  for (uint32_t place = 1; place < 64;) {
    uint32_t advance = 0;
    for (int tries = 0; tries < 20; tries++) {
      number = some_symbol(r, &c->ac);
      const uint32_t symbol = c->ac.huffval[number], size = symbol & 15;
      advance = symbol == 0 ? 64 - place : (symbol >> 4) + 1;
      if (place + advance <= 64 && size <= 10 && (size > 0 || symbol == 0 || symbol == 0xF0)) break;
    }
    put_symbol(r, to, &c->ac, number);
    place += advance;
  }
}

static void some_coder(random_state *r, coder *c) {
  uint8_t counts[17], symbols[256];
  do some_codes(r, counts, symbols);
  while (memcmp(counts, (uint8_t[17]){0}, sizeof counts) == 0);
  /* Often the end of a block has a short code, as in all files that an encoder wrote. */
  for (int i = 4; i < 256 && random_below(r, 8) != 0; i++) {
    if (symbols[i] == 0) symbols[i] = symbols[1], symbols[1] = 0;
  }
  memcpy(c->ac.bits, counts, sizeof counts);
  memcpy(c->ac.huffval, symbols, sizeof symbols);
  if (!hrn_ac_build(&c->ac_table, counts, symbols)) complain("a table is refused", 0, 0);
  for (int i = 0; i < 256; i++) symbols[i] &= 15;
  memcpy(c->dc.bits, counts, sizeof counts);
  memcpy(c->dc.huffval, symbols, sizeof symbols);
  if (!hrn_dc_build(&c->dc_table, counts, symbols)) complain("a DC table is refused", 0, 0);
}

/* Two components with tables of their own; the first has two blocks an MCU. */
static void check_skip(random_state *r) {
  static coder coders[2];
  static hrn_entropy entropy; /* kept, as by a context: tables are made anew when they change */
  static stream data;
  static int16_t blocks[(3 * 8 + 1) * HRN_BLOCK];
  struct jpeg_decompress_struct info;
  jpeg_component_info components[2];
  JQUANT_TBL quantities;
  memset(&info, 0, sizeof info);
  memset(components, 0, sizeof components);
  info.data_precision = 8;
  info.num_components = info.comps_in_scan = 2;
  info.Se = 63;
  info.quant_tbl_ptrs[0] = &quantities;
  info.image_width = info.image_height = 64;
  hrn_mcu mcu = {.blocks = 3, .component = {0, 0, 1}};
  for (int i = 0; i < 2; i++) {
    if (random_below(r, 2)) some_coder(r, &coders[i]);
    if (coders[i].ac.bits[0] == 0 && coders[i].ac_table.codes.valid == false) return;
    components[i].h_samp_factor = 2 - i;
    components[i].v_samp_factor = 1;
    components[i].dc_tbl_no = components[i].ac_tbl_no = i;
    info.cur_comp_info[i] = &components[i];
    info.dc_huff_tbl_ptrs[i] = &coders[i].dc;
    info.ac_huff_tbl_ptrs[i] = &coders[i].ac;
  }
  for (int i = 0; i < 3; i++) {
    mcu.dc[i] = &coders[i == 2].dc_table;
    mcu.ac[i] = &coders[i == 2].ac_table;
  }
  hrn_scan scan;
  if (!hrn_scan_begin(&scan, &entropy, &info)) {
    complain("a scan is refused", 0, 0);
    return;
  }

  memset(&data, 0, sizeof data);
  put(&data, 0, (uint32_t)random_below(r, 8));
  const uint64_t first = data.bit;
  const uint32_t mcus = 1 + (uint32_t)random_below(r, 8) * (uint32_t)random_below(r, 2);
  for (uint32_t n = 0; n < mcus; n++) {
    for (int i = 0; i < 3; i++) put_block(r, &data, &coders[i == 2]);
  }
  uint64_t last = data.bit;
  if (random_below(r, 4) == 0) data.bytes[random_below(r, last / 8 + 1)] ^= 1 << random_below(r, 8);
  if (random_below(r, 8) == 0) last -= random_below(r, last - first + 1);
  memset(blocks, 0, sizeof blocks);
  hrn_segment decoded = {
      .bytes = data.bytes, .bit = first, .last_bit = last, .blocks = blocks, .mcus = mcus};
  hrn_segment skipped = decoded;
  hrn_decode_segment(&mcu, &decoded);
  hrn_skip_segment(&scan, &skipped);
  if ((decoded.irregular != 0) != (skipped.irregular != 0)) {
    complain("decoded and passed over are not both in order", mcus, decoded.irregular);
  }
  if (decoded.irregular != 0) {
    irregular++;
    return;
  }
  regular++;
  if (skipped.bit != decoded.bit || skipped.mcus != 0 ||
      memcmp(skipped.dc, decoded.dc, sizeof skipped.dc) != 0) {
    complain("passing over ends elsewhere", mcus, skipped.bit);
  }
}

int main(int count, char **arguments) {
  long tables = 3000;
  uint64_t seed = 1;
  for (int i = 1; i + 1 < count; i += 2) {
    if (strcmp(arguments[i], "-n") == 0) tables = atol(arguments[i + 1]);
    if (strcmp(arguments[i], "-s") == 0) seed = strtoull(arguments[i + 1], NULL, 10);
  }
  static hrn_ac_table ac;
  static hrn_dc_table dc;
  random_state r = random_seeded(seed);
  for (long n = 0; n < tables; n++) {
    uint8_t counts[17], symbols[256];
    some_codes(&r, counts, symbols);
    if (!hrn_ac_build(&ac, counts, symbols)) complain("a table is refused", 0, 0);
    for (uint32_t i = 0; i < 1u << HRN_AC_BITS; i++) check_ac(&ac, i, random_next(&r));
    for (int i = 0; i < 256; i++) symbols[i] &= 15;
    if (!hrn_dc_build(&dc, counts, symbols)) complain("a DC table is refused", 0, 0);
    for (uint32_t i = 0; i < 1u << HRN_DC_BITS; i++) {
      const uint64_t window = (uint64_t)i << (64 - HRN_DC_BITS) | random_next(&r) >> HRN_DC_BITS;
      const uint32_t symbol = hrn_dc_slow(&dc, window);
      const uint32_t found = dc.lookup[i];
      if (found != symbol && (found != 0 || (symbol >> 8 & 255) <= HRN_DC_BITS)) {
        complain("not the DC symbol", i, found);
      }
    }
    counts[1] = 3;
    if (hrn_ac_build(&ac, counts, symbols)) complain("three codes of one bit", 0, 0);
    counts[1] = 2;
    memset(counts + 2, 0, 15);
    if (hrn_ac_build(&ac, counts, symbols)) complain("a code of ones alone", 0, 0);
    for (int i = 0; i < 100; i++) check_skip(&r);
  }
  printf(
      "%ld entries of two symbols, %ld of one, %ld slow; %ld segments in order, %ld not; %ld "
      "wrong\n",
      joined, alone, slow, regular, irregular, failures);
  return failures != 0 || joined == 0 || alone == 0 || slow == 0 || regular == 0 || irregular == 0;
}
