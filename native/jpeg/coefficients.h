/* coefficients.h: decodes baseline entropy data to coefficients, beginning at any MCU.
 *
 * Seek points need a decoder that can start anywhere. This one reads bytes from which the stuffing
 * was removed, so it refills its bit window without looking at each byte.
 *
 * Data that a clean baseline file cannot contain only sets `irregular`. The caller then throws the
 * coefficients away and asks libjpeg, because Pillow treats damaged files as libjpeg does.
 */
#ifndef HEADRACE_JPEG_COEFFICIENTS_H
#define HEADRACE_JPEG_COEFFICIENTS_H

#include <stddef.h>

#include "huffman.h"

#define HRN_MAX_BLOCKS 10 /* in an MCU: T.81 B.2.3 */
#define HRN_MAX_COMPONENTS 4
#define HRN_BLOCK 64 /* coefficients */

/* Bytes behind unstuffed data that must be readable, and zero. The position is checked once a
 * block, a block has at most 64 symbols of 27 bits, and the window loads 8 bytes. */
#define HRN_UNSTUFFED_PADDING 320

/* The layout of an MCU. The file has only one scan. */
typedef struct hrn_mcu {
  int32_t blocks;
  const hrn_dc_table *dc[HRN_MAX_BLOCKS];
  const hrn_ac_table *ac[HRN_MAX_BLOCKS];
  uint8_t component[HRN_MAX_BLOCKS];
} hrn_mcu;

/* A run of MCUs, and where its decoder stands. */
typedef struct hrn_segment {
  const uint8_t *bytes;   /* unstuffed */
  uint64_t bit, last_bit; /* bit of the next symbol; of the data's end */
  int16_t *blocks; /* in natural order (zigzag undone), zeroed by the caller. Garbage is written to
                      one block more than asked for */
  uint32_t mcus;   /* left to decode */
  int32_t dc[HRN_MAX_COMPONENTS]; /* predictors */
  uint32_t irregular;             /* if not 0, nothing of this segment may be used */
  uint32_t block;                 /* number of the block in its MCU that is being decoded */
  /* Called when no MCU is left, with `bit` and `dc` at that place. Returns how many MCUs follow at
   * once. NULL: none follow. With this callback the decoder stays in its loop instead of entering
   * it anew. */
  uint32_t (*more)(struct hrn_segment *segment);
  void *owner; /* for `more` to use */
} hrn_segment;

/* Decode one whole segment, or two. Symbols of two segments are decoded in turn, so that the
 * latency of one's table lookup is hidden behind the other's. */
void hrn_decode_segment(const hrn_mcu *mcu, hrn_segment *segment);
void hrn_decode_segments(const hrn_mcu *mcu, hrn_segment *first, hrn_segment *second);

/* Where stuffing was removed: the places of the first `room` stuffed 0xFF in the unstuffed data,
 * and how many there are in all. */
typedef struct hrn_stuffing {
  uint32_t *at;
  size_t room, count;
} hrn_stuffing;

/* Copies entropy data without its stuffing, up to the first marker or the end. Returns how many
 * bytes were written; `*taken` is how many were read. `to` has room for `length` +
 * HRN_UNSTUFFED_PADDING bytes; the padding behind the data is zeroed. `stuffing` may be NULL. */
size_t hrn_unstuff(uint8_t *to, const uint8_t *from, size_t length, size_t *taken,
                   hrn_stuffing *stuffing);

#endif
