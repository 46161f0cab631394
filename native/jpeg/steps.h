/* steps.h: Huffman tables that move over several symbols a lookup, without their values.
 *
 * A verdict needs only where each code ends. To pass over MCUs, the DC values are needed as
 * well. */
#ifndef HEADRACE_JPEG_STEPS_H
#define HEADRACE_JPEG_STEPS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

/* Bits that index a table: 11 keeps the tables of a usual file inside the first-level cache. */
#define HRN_LOOKUP_BITS 11
#define HRN_LOOKUP_SIZE (1 << HRN_LOOKUP_BITS)

/* How far one or several symbols move: bits in the stream | coefficients in the block << 8. 0:
 * none. */
typedef uint16_t hrn_step;

/* HRN_END_OF_BLOCK is what an end-of-block symbol adds to the coefficient's place: more than any
 * sum of runs. HRN_SLOW is the entry where no symbol fits. */
#define HRN_END_OF_BLOCK 128u
#define HRN_SLOW (255u << 8)

/* The most bits of a step of several symbols, their extra bits included. A window has 56 bits or
 * more, and so room for three lookups. */
#define HRN_STEP_BITS 18u

/* The tables of a DHT segment. */
typedef struct hrn_lookup {
  hrn_step many[HRN_LOOKUP_SIZE];       /* AC: as many symbols as the index holds */
  hrn_step one[HRN_LOOKUP_SIZE];        /* the first symbol alone */
  hrn_step within[2 * HRN_LOOKUP_SIZE]; /* AC: at 1 << left | p, the symbols in `left` bits p */
  hrn_step symbol[256];                 /* by place in the list of symbols, for longer codes */
  int32_t first_code[18], first_symbol[18];
  int32_t count[18];
  uint8_t source_bits[17], source_symbols[256]; /* what it was built from */
  uint32_t built;                               /* how many times; 0: never */
  bool usable;
} hrn_lookup;

/* A block's beginning: its DC symbol with the AC symbols that the index still holds, an hrn_step |
 * the DC difference << 16. 0: the DC symbol does not lie inside the index. */
typedef struct hrn_start {
  uint32_t step[HRN_LOOKUP_SIZE];
  const hrn_lookup *dc, *ac;
  uint32_t dc_built, ac_built; /* `built` of those two when this was made */
} hrn_start;

/* Make the tables anew unless they were made from the same. hrn_lookup_of returns NULL if libjpeg
 * would refuse `source`. */
const hrn_lookup *hrn_lookup_of(hrn_lookup *table, const JHUFF_TBL *source, bool dc);
void hrn_start_make(hrn_start *start, const hrn_lookup *dc, const hrn_lookup *ac);

/* The one symbol on top of the window, whatever its length; 0 if the data is left to libjpeg.
 * hrn_start_at adds the DC difference, as in an entry of hrn_start. */
hrn_step hrn_step_at(const hrn_lookup *table, uint64_t window);
uint32_t hrn_start_at(const hrn_lookup *dc, uint64_t window);

#endif
