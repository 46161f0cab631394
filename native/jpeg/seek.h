/* seek.h: seek points, packed: where in a scan an MCU begins, and the DC predictors there.
 *
 * One record an image, found by its length alone. All numbers little-endian:
 *
 *      0  u8   version (1)
 *      1  u8   step: MCUs from point to point in a row
 *      2  u8   position bits: width of a point's position
 *      3  u8   components
 *      4  u8x4 DC bits: width of each component's predictor, 0 for a component that is not there
 *      8  u16  points a row
 *     10  u16  rows of MCUs; fewer than the image has if the rest is not learned yet
 *     12  i16x4 lowest predictor of each component: stored values are relative to it
 *     20  u32x rows: the byte of the scan in which the row's first MCU begins
 *      .  points, row after row, each: position (bits from its row's byte), predictors; no gaps,
 *         lowest bit first; then 8 bytes of 0, so that a point is read with one load.
 *
 * A record may be hostile. hrn_seek_open checks every count against the image and the length, and a
 * point only says where a bounded decoder begins. So wrong points give wrong pixels at worst.
 */
#ifndef HEADRACE_JPEG_SEEK_H
#define HEADRACE_JPEG_SEEK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coefficients.h"

#define HRN_SEEK_VERSION 1
#define HRN_SEEK_HEADER 20
#define HRN_SEEK_TAIL 8

/* One point, unpacked: a bit of the scan's bytes as stored (stuffing included), and the
 * predictors. */
typedef struct hrn_seek_point {
  uint32_t byte;
  uint32_t bit; /* 0-7 */
  int32_t dc[HRN_MAX_COMPONENTS];
} hrn_seek_point;

/* A checked record; points into the caller's bytes. */
typedef struct hrn_seek {
  const uint8_t *rows_at, *points_at;
  uint32_t step, points, rows, components;
  uint32_t position_bits, dc_bits[HRN_MAX_COMPONENTS], point_bits;
  int32_t lowest[HRN_MAX_COMPONENTS];
} hrn_seek;

/* False unless the record fits an image with that many MCUs and components, or its first rows. */
bool hrn_seek_open(hrn_seek *seek, const uint8_t *record, size_t length, uint32_t columns,
                   uint32_t rows, uint32_t components);

/* Unpacks point `number` of a row. Both must be inside the record. */
void hrn_seek_at(const hrn_seek *seek, uint32_t row, uint32_t number, hrn_seek_point *point);

/* Packs rows x points_a_row points, row after row. Returns the record's size, or 0 if the points do
 * not fit the format. Writes nothing if `capacity` is less than the size. */
size_t hrn_seek_pack(const hrn_seek_point *points, uint32_t points_a_row, uint32_t rows,
                     uint32_t components, uint32_t step, uint8_t *record, size_t capacity);

#endif
