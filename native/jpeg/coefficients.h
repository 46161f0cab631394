/* coefficients.h: baseline entropy data to coefficients, from any MCU on.
 *
 * A decoder that can start anywhere is what seek points are for. It reads bytes with the stuffing
 * already taken out, so that refilling the bit window needs no look at each byte.
 *
 * Anything that a clean baseline file does not hold is only noted (`irregular`): the caller then
 * throws the coefficients away and asks libjpeg, whose word on damaged files is Pillow's.
 */
#ifndef HEADRACE_JPEG_COEFFICIENTS_H
#define HEADRACE_JPEG_COEFFICIENTS_H

#include <stddef.h>

#include "huffman.h"

#define HRN_MAX_BLOCKS 10 /* in an MCU: T.81 B.2.3 */
#define HRN_MAX_COMPONENTS 4
#define HRN_BLOCK 64 /* coefficients */

/* Bytes readable (and zero) behind unstuffed data. A block is at most 64 symbols of 27 bits; the
 * position is checked once a block, and the window loads 8 bytes. */
#define HRN_UNSTUFFED_PADDING 320

/* The MCU of the one scan. */
typedef struct hrn_mcu {
  int32_t blocks;
  const hrn_dc_table *dc[HRN_MAX_BLOCKS];
  const hrn_ac_table *ac[HRN_MAX_BLOCKS];
  uint8_t component[HRN_MAX_BLOCKS];
} hrn_mcu;

/* A run of MCUs, and where its decoder stands. */
typedef struct hrn_segment {
  const uint8_t *bytes;   /* unstuffed */
  uint64_t bit, last_bit; /* of the next symbol; of the data's end */
  int16_t *blocks; /* zeroed by the caller, in zigzag-undone order; one block more than asked is
                      written to (garbage) */
  uint32_t mcus;   /* left to decode */
  int32_t dc[HRN_MAX_COMPONENTS]; /* predictors */
  uint32_t irregular;             /* not 0: nothing of this segment may be used */
  uint32_t block;                 /* of the MCU, at work */
  /* Asked when none is left, with `bit` and `dc` as they are there: how many MCUs follow at once.
   * NULL: none. A decoder that went on by another call would leave its loop for it. */
  uint32_t (*more)(struct hrn_segment *segment);
  void *owner; /* of `more` */
} hrn_segment;

/* Decodes a whole segment; both segments, whose symbols are taken in turn so that one's table
 * lookup hides behind the other's. */
void hrn_decode_segment(const hrn_mcu *mcu, hrn_segment *segment);
void hrn_decode_segments(const hrn_mcu *mcu, hrn_segment *first, hrn_segment *second);

/* Where bytes were left out: the places of the first `room` stuffed 0xFF in the unstuffed data, and
 * how many there are. */
typedef struct hrn_stuffing {
  uint32_t *at;
  size_t room, count;
} hrn_stuffing;

/* Copies entropy data without its stuffing up to the first marker or the end: returns the bytes
 * written, `*taken` those read. `to` holds `length` + HRN_UNSTUFFED_PADDING bytes, zeroed behind.
 * `stuffing` may be NULL. */
size_t hrn_unstuff(uint8_t *to, const uint8_t *from, size_t length, size_t *taken,
                   hrn_stuffing *stuffing);

#endif
