/* huffman.c: builds the tables of huffman.h from DHT segments. */
#include "huffman.h"

#include <string.h>

#define SYMBOL_END 0x00 /* AC: end of block */
#define SYMBOL_ZRL 0xF0 /* AC: 16 zeros */

/* 0 for a symbol that no baseline encoder writes. */
static uint32_t entry_of(bool dc, uint32_t length, uint8_t symbol) {
  uint32_t size = symbol & 15, run = symbol >> 4;
  if (dc) {
    if (symbol > HRN_HUFFMAN_MAX_SIZE) return 0;
    return (length + symbol) | length << 8 | (uint32_t)symbol << 16;
  }
  if (symbol == SYMBOL_END) return length | length << 8 | (uint32_t)HRN_ADVANCE_END << 24;
  if (symbol == SYMBOL_ZRL) return length | length << 8 | 16u << 24;
  if (size == 0 || size > HRN_HUFFMAN_MAX_SIZE) return 0;
  return (length + size) | length << 8 | (64 - size) << 16 | (run + 1) << 24;
}

/* What the lookup table holds for it: 16 zeros take the slow way, because the fast one would store
 * a value; an end of block stores its garbage behind the block, where it is harmless. */
static bool is_fast(bool dc, uint8_t symbol, uint32_t entry) {
  return entry != 0 && (dc || symbol != SYMBOL_ZRL);
}

bool hrn_huffman_build(hrn_huffman *table, const uint8_t counts[17], const uint8_t symbols[256],
                       bool dc) {
  if (table->valid && table->dc == dc && memcmp(table->counts, counts, sizeof table->counts) == 0 &&
      memcmp(table->symbols, symbols, sizeof table->symbols) == 0) {
    return true;
  }
  table->valid = false;
  for (uint32_t i = 0; i < 1u << HRN_HUFFMAN_BITS; i++) {
    table->lookup[i] = (uint32_t)HRN_ADVANCE_SLOW << 24;
  }
  int32_t code = 0, number = 0;
  for (uint32_t length = 1; length <= 16; length++) {
    table->offset[length] = number - code;
    for (int32_t i = 0; i < counts[length]; i++, code++, number++) {
      /* The codes of a length must fit it (T.81 C.2); libjpeg refuses such a table. */
      if (number >= 256 || code >= 1 << length) return false;
      uint8_t symbol = symbols[number];
      if (dc && symbol > 15) return false;
      uint32_t entry = entry_of(dc, length, symbol);
      if (length > HRN_HUFFMAN_BITS || !is_fast(dc, symbol, entry)) continue;
      uint32_t copies = 1u << (HRN_HUFFMAN_BITS - length);
      for (uint32_t j = 0; j < copies; j++) table->lookup[(uint32_t)code * copies + j] = entry;
    }
    table->last_code[length] = counts[length] > 0 ? code - 1 : -1;
    code <<= 1;
  }
  memcpy(table->counts, counts, sizeof table->counts);
  memcpy(table->symbols, symbols, sizeof table->symbols);
  table->dc = dc;
  table->valid = true;
  return true;
}

uint32_t hrn_huffman_slow(const hrn_huffman *table, uint64_t window) {
  for (uint32_t length = 1; length <= 16; length++) {
    int32_t code = (int32_t)(window >> (64 - length));
    if (code > table->last_code[length]) continue;
    return entry_of(table->dc, length, table->symbols[(code + table->offset[length]) & 255]);
  }
  return 0;
}
