/* huffman.h: Huffman tables in the form that coefficients.c reads.
 *
 * The table is on the code alone (ITU T.81 F.2.2.3): the next 10 bits give the code's length, the
 * number of extra bits and the run, and the extra bits are then taken without a branch. A table on
 * code and value together saves a shift and costs a branch that is mispredicted for a quarter of
 * the symbols of a photograph: slower by a tenth where tried.
 */
#ifndef HEADRACE_NATIVE_HUFFMAN_H
#define HEADRACE_NATIVE_HUFFMAN_H

#include <stdbool.h>
#include <stdint.h>

/* 9 to 12 bits differ by 3 % at most; 10 keep the four tables of a colour file in half of L1. */
#define HRN_HUFFMAN_BITS 10

/* The largest value of either kind that a baseline encoder of 8-bit samples can write (T.81 table
 * F.1 and F.2): larger ones are irregular. Two symbols of 16 + 11 bits fit one 57-bit window. */
#define HRN_HUFFMAN_MAX_SIZE 11

/* An entry: total | length << 8 | shift << 16 | advance << 24.
 *   total    bits of code and extra bits
 *   length   bits of the code
 *   shift    AC: (64 - size) & 63, what brings the extra bits down; DC: size itself, since
 *            a DC difference of size 0 is common and no shift by 64 exists
 *   advance  AC: coefficients up to and with this one (run + 1); DC: 0 */
#define HRN_ADVANCE_END 129  /* end of block: past 63 from anywhere */
#define HRN_ADVANCE_SLOW 255 /* not in the table: ask hrn_huffman_slow */

typedef struct hrn_huffman {
  uint32_t lookup[1 << HRN_HUFFMAN_BITS];
  int32_t last_code[17]; /* the largest code of each length, -1 where there is none */
  int32_t offset[17];    /* symbol number = code + offset[length] */
  uint8_t symbols[256];
  uint8_t counts[17]; /* as in the DHT segment; counts[0] is unused */
  bool dc;
  bool valid;
} hrn_huffman;

/* Makes the table of a DHT segment, or keeps the one that is there when it is the same: most files
 * of a data set share the standard tables (T.81 K.3), or those of one encoder. False when the
 * counts are impossible or a DC symbol is none. */
bool hrn_huffman_build(hrn_huffman *table, const uint8_t counts[17], const uint8_t symbols[256],
                       bool dc);

/* The entry of a code longer than the table, or of a rare symbol; zero runs of 16 come back with
 * shift 0 and advance 16. 0 for what no encoder writes: no such code, an AC symbol of size 0
 * that is neither end of block nor 16 zeros, a size over HRN_HUFFMAN_MAX_SIZE. */
uint32_t hrn_huffman_slow(const hrn_huffman *table, uint64_t window);

#endif
