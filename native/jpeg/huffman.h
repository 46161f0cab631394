/* huffman.h: Huffman tables in the form that coefficients.c reads.
 *
 * An AC entry holds finished coefficients: the next 11 bits give one or two symbols with the values
 * of their extra bits (ITU T.81 F.2.2.3, F.12). So a photograph's block of 18 symbols takes 12
 * lookups and none of the arithmetic. One symbol in thirty has extra bits outside of the index,
 * which costs a mispredicted branch. Decoding 300 photographs was compared with a table that is
 * indexed by the code alone, with branch-free extra bits. It took 103 % of the time with 9 index
 * bits, 90 % with 10, 81 % with 11 and 79 % with 12. But 12 bits double the time to build a table,
 * and a table is built for nearly every file if the dataset's encoder optimised its tables.
 */
#ifndef HEADRACE_JPEG_HUFFMAN_H
#define HEADRACE_JPEG_HUFFMAN_H

#include <stdbool.h>
#include <stdint.h>

#define HRN_DC_BITS 10
#define HRN_AC_BITS 11

/* The largest size of either kind that a baseline encoder of 8-bit samples can write (T.81 table
 * F.1 and F.2). Larger ones are irregular. */
#define HRN_HUFFMAN_MAX_SIZE 11

/* A symbol: total | length << 8 | shift << 16 | advance << 24; 0 is none.
 *   total    bits of code and extra bits
 *   length   bits of the code
 *   shift    AC: (64 - size) & 63, what brings the extra bits down; DC: size itself, because
 *            a DC difference of size 0 is common and no shift by 64 exists
 *   advance  AC: coefficients up to and with this one (run + 1); DC: 0
 *
 * An AC entry: total | advance << 8 | value << 16 | second advance << 32 | first total << 40 |
 * second value << 48. Here total is that of both symbols, and the second ones are 0 if there is
 * only one symbol. If not even one symbol fits, total is 0 and advance is HRN_ADVANCE_SLOW. The
 * other bits then hold the symbol, if at least its code fits: length << 16 | shift << 24 | total <<
 * 40 | advance << 48. */
#define HRN_ADVANCE_END 129  /* end of block: leads past 63 from any place */
#define HRN_ADVANCE_SLOW 255 /* no symbol lies inside the index */

/* The codes of a DHT segment. */
typedef struct hrn_codes {
  int32_t last_code[17]; /* the largest code of each length, -1 where there is none */
  int32_t offset[17];    /* symbol number = code + offset[length] */
  uint8_t symbols[256];
  uint8_t counts[17]; /* as in the segment; counts[0] is unused */
  bool valid;
} hrn_codes;

typedef struct hrn_dc_table {
  uint32_t lookup[1 << HRN_DC_BITS]; /* symbols; 0: ask hrn_dc_slow */
  hrn_codes codes;
} hrn_dc_table;

typedef struct hrn_ac_table {
  uint64_t lookup[1 << HRN_AC_BITS];
  hrn_codes codes;
} hrn_ac_table;

/* Make the table of a DHT segment, or keep the present one if it is the same. False if the counts
 * are impossible, or a DC symbol is too large. */
bool hrn_dc_build(hrn_dc_table *table, const uint8_t counts[17], const uint8_t symbols[256]);
bool hrn_ac_build(hrn_ac_table *table, const uint8_t counts[17], const uint8_t symbols[256]);

/* Return the symbol on top of the window, for codes longer than the index. 16 zeros have shift 0
 * and advance 16. Return 0 for what no encoder writes: a code that does not exist, an AC symbol of
 * size 0 that is neither end of block nor 16 zeros, a size over HRN_HUFFMAN_MAX_SIZE. */
uint32_t hrn_dc_slow(const hrn_dc_table *table, uint64_t window);
uint32_t hrn_ac_slow(const hrn_ac_table *table, uint64_t window);

#endif
