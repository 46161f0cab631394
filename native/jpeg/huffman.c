/* huffman.c: builds the tables of huffman.h from DHT segments. */
#include "huffman.h"

#include <string.h>

#define SYMBOL_END 0x00 /* AC: end of block */
#define SYMBOL_ZRL 0xF0 /* AC: 16 zeros */

static uint32_t dc_symbol(uint32_t length, uint8_t symbol) {
  if (symbol > HRN_HUFFMAN_MAX_SIZE) return 0;
  return (length + symbol) | length << 8 | (uint32_t)symbol << 16;
}

static uint32_t ac_symbol(uint32_t length, uint8_t symbol) {
  uint32_t size = symbol & 15, run = symbol >> 4;
  if (symbol == SYMBOL_END) return length | length << 8 | (uint32_t)HRN_ADVANCE_END << 24;
  if (symbol == SYMBOL_ZRL) return length | length << 8 | 16u << 24;
  if (size == 0 || size > HRN_HUFFMAN_MAX_SIZE) return 0;
  return (length + size) | length << 8 | (64 - size) << 16 | (run + 1) << 24;
}

/* ---- codes ---- */

static bool same(const hrn_codes *codes, const uint8_t counts[17], const uint8_t symbols[256]) {
  return codes->valid && memcmp(codes->counts, counts, sizeof codes->counts) == 0 &&
         memcmp(codes->symbols, symbols, sizeof codes->symbols) == 0;
}

/* The codes of a length must fit it, and none may be of ones alone (T.81 C.2). libjpeg refuses a
 * table that breaks this. */
static bool assign(hrn_codes *codes, const uint8_t counts[17], const uint8_t symbols[256]) {
  int32_t code = 0, number = 0;
  codes->valid = false;
  for (uint32_t length = 1; length <= 16; length++) {
    codes->offset[length] = number - code;
    code += counts[length];
    number += counts[length];
    if (number > 256 || code >= 1 << length) return false;
    codes->last_code[length] = counts[length] > 0 ? code - 1 : -1;
    code <<= 1;
  }
  memcpy(codes->counts, counts, sizeof codes->counts);
  memcpy(codes->symbols, symbols, sizeof codes->symbols);
  return true;
}

static uint32_t find(const hrn_codes *codes, uint64_t window,
                     uint32_t symbol_of(uint32_t length, uint8_t symbol)) {
  for (uint32_t length = 1; length <= 16; length++) {
    int32_t code = (int32_t)(window >> (64 - length));
    if (code > codes->last_code[length]) continue;
    return symbol_of(length, codes->symbols[(code + codes->offset[length]) & 255]);
  }
  return 0;
}

/* ---- DC ---- */

bool hrn_dc_build(hrn_dc_table *table, const uint8_t counts[17], const uint8_t symbols[256]) {
  hrn_codes *codes = &table->codes;
  if (same(codes, counts, symbols)) return true;
  if (!assign(codes, counts, symbols)) return false;
  uint32_t *to = table->lookup, *end = to + (1 << HRN_DC_BITS), number = 0;
  for (uint32_t length = 1; length <= 16; length++) {
    for (uint32_t i = 0; i < counts[length]; i++, number++) {
      if (symbols[number] > 15) return false;
      if (length > HRN_DC_BITS) continue;
      uint32_t symbol = dc_symbol(length, symbols[number]);
      for (uint32_t n = 1u << (HRN_DC_BITS - length); n > 0; n--) *to++ = symbol;
    }
  }
  while (to < end) *to++ = 0;
  codes->valid = true;
  return true;
}

uint32_t hrn_dc_slow(const hrn_dc_table *table, uint64_t window) {
  return find(&table->codes, window, dc_symbol);
}

/* ---- AC ---- */

/* The value of `size` extra bits (T.81 F.12): a leading 0 means negative. */
static uint64_t value_of(uint32_t extra, uint32_t size) {
  if (size == 0) return 0;
  int32_t value = (int32_t)extra;
  if (extra >> (size - 1) == 0) value -= (int32_t)((1u << size) - 1);
  return (uint16_t)value;
}

/* What may follow a first symbol, for each number of index bits that it leaves. If it leaves `left`
 * bits with value p, entry (1 << left) + p is what follows. The entry is 0 if no whole symbol lies
 * in those bits. */
typedef uint64_t followers[1 << HRN_AC_BITS];

static void list_followers(const hrn_codes *codes, followers list) {
  memset(list, 0, sizeof(followers));
  uint32_t code = 0, number = 0;
  for (uint32_t length = 1; length < HRN_AC_BITS; length++, code <<= 1) {
    for (uint32_t i = 0; i < codes->counts[length]; i++, code++, number++) {
      uint32_t symbol = ac_symbol(length, codes->symbols[number]), total = symbol & 255;
      uint32_t size = total - length;
      if (symbol == 0) continue;
      for (uint32_t left = total; left < HRN_AC_BITS; left++) {
        uint64_t *to = list + (1u << left) + ((uint64_t)code << (left - length));
        for (uint32_t extra = 0; extra < 1u << size; extra++) {
          uint64_t entry = total | (uint64_t)(symbol >> 24) << 32 | value_of(extra, size) << 48;
          for (uint32_t n = 1u << (left - total); n > 0; n--) *to++ = entry;
        }
      }
    }
  }
}

/* Fills all entries that begin with this code. */
static uint64_t *add_code(uint64_t *to, uint32_t length, uint32_t symbol, followers list) {
  uint32_t total = symbol & 255, advance = symbol >> 24, size = total - length;
  if (symbol == 0 || total > HRN_AC_BITS) {
    uint64_t entry = (uint64_t)HRN_ADVANCE_SLOW << 8 | (uint64_t)(symbol >> 8 & 0xFFFF) << 16 |
                     (uint64_t)total << 40 | (uint64_t)advance << 48;
    for (uint32_t n = 1u << (HRN_AC_BITS - length); n > 0; n--) *to++ = entry;
    return to;
  }
  uint32_t left = HRN_AC_BITS - total;
  for (uint32_t extra = 0; extra < 1u << size; extra++) {
    uint64_t entry =
        total | (uint64_t)advance << 8 | value_of(extra, size) << 16 | (uint64_t)total << 40;
    const uint64_t *next = list + (1u << left);
    /* What follows the end of a block is not an AC symbol. */
    const bool alone = advance == HRN_ADVANCE_END;
    for (uint32_t p = 0; p < 1u << left; p++) *to++ = alone ? entry : entry + next[p];
  }
  return to;
}

bool hrn_ac_build(hrn_ac_table *table, const uint8_t counts[17], const uint8_t symbols[256]) {
  hrn_codes *codes = &table->codes;
  followers list;
  if (same(codes, counts, symbols)) return true;
  if (!assign(codes, counts, symbols)) return false;
  list_followers(codes, list);
  uint64_t *to = table->lookup, *end = to + (1 << HRN_AC_BITS);
  uint32_t number = 0;
  for (uint32_t length = 1; length <= HRN_AC_BITS; length++) {
    for (uint32_t i = 0; i < counts[length]; i++, number++) {
      to = add_code(to, length, ac_symbol(length, symbols[number]), list);
    }
  }
  while (to < end) *to++ = (uint64_t)HRN_ADVANCE_SLOW << 8;
  codes->valid = true;
  return true;
}

uint32_t hrn_ac_slow(const hrn_ac_table *table, uint64_t window) {
  return find(&table->codes, window, ac_symbol);
}
