/* entropy.h: reads a scan for its verdict and its seek points, or passes over parts of it. */
#ifndef HEADRACE_JPEG_ENTROPY_H
#define HEADRACE_JPEG_ENTROPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

#include "seek.h"
#include "steps.h"

/* The tables, which a context keeps from image to image. */
typedef struct hrn_entropy {
  hrn_lookup dc[NUM_HUFF_TBLS], ac[NUM_HUFF_TBLS];
  hrn_start start[HRN_MAX_COMPONENTS];
} hrn_entropy;

/* A scan that this pass can read: baseline, 8 bits, with all components, and the file's only
 * one. */
typedef struct hrn_scan {
  const hrn_start *start[HRN_MAX_BLOCKS]; /* of each block of an MCU */
  uint8_t component[HRN_MAX_BLOCKS];
  int blocks;
  uint64_t mcus, columns;
} hrn_scan;

/* Makes the tables of the scan whose header `info` has just read; false if it is not a plain
 * sequential scan. */
bool hrn_scan_begin(hrn_scan *scan, hrn_entropy *entropy,
                    const struct jpeg_decompress_struct *info);

/* Passes over the segment's MCUs, several symbols a lookup, and updates the DC predictors. Ignores
 * `blocks`. Sets `irregular` for the same data as hrn_decode_segment. */
void hrn_skip_segment(const hrn_scan *scan, hrn_segment *segment);

/* Bytes that the work buffer of hrn_entropy_clean needs beyond the length of the data. */
#define HRN_ENTROPY_PADDING 320

/* Where seek points go while the data is read: one for every `step`-th MCU of each row, in
 * order. */
typedef struct hrn_recorder {
  hrn_seek_point *points; /* NULL: none are wanted */
  uint32_t step;
  uint32_t columns, rows; /* MCUs of the scan */
} hrn_recorder;

/* Whether libjpeg would decode the data to the last MCU and EOI without a warning. `data` begins
 * behind the SOS header that `info` has just read. */
bool hrn_entropy_clean(hrn_entropy *entropy, const struct jpeg_decompress_struct *info,
                       const uint8_t *data, size_t length, uint8_t *work, hrn_recorder *recorder);

#endif
