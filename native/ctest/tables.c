/* tables.c: every entry of a Huffman table is what its bits say, symbol by symbol.
 *
 *   tables [-n TABLES] [-s SEED]
 *
 * Random tables, of the lengths that encoders write and of any others that the standard allows, one
 * bit for 16 zeros included. hrn_ac_slow and hrn_dc_slow, which look at one code at a time, say
 * what each index stands for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../huffman.h"
#include "random.h"

static long failures, joined, alone, slow;

static void complain(const char *what, uint32_t index, uint64_t entry) {
  if (failures++ < 10) printf("index %x, entry %llx: %s\n", index, (unsigned long long)entry, what);
}

/* A prefix code, whole or not: lengths are dealt while there is room (T.81 annex C). */
static void some_codes(random_state *r, uint8_t counts[17], uint8_t symbols[256]) {
  uint32_t room = 1, number = 0;
  memset(counts, 0, 17);
  for (int length = 1; length <= 16; length++) {
    room *= 2;
    uint64_t most = room < 256 - number ? room : 256 - number;
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
  }
  printf("%ld entries of two symbols, %ld of one, %ld slow, %ld wrong\n", joined, alone, slow,
         failures);
  return failures != 0 || joined == 0 || alone == 0 || slow == 0;
}
