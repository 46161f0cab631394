/* seek.c: packs and unpacks seek points; seek.h has the layout. */
#include "seek.h"

#include <string.h>

/* A position is at most this wide, so that each of a point's fields comes out of one 64-bit
 * load. */
#define MAX_POSITION_BITS 32
#define MAX_DC_BITS 16

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }

static uint32_t get32(const uint8_t *p) {
  return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put16(uint8_t *p, uint32_t v) {
  p[0] = (uint8_t)v;
  p[1] = (uint8_t)(v >> 8);
}

static void put32(uint8_t *p, uint32_t v) {
  put16(p, v);
  put16(p + 2, v >> 16);
}

static uint64_t get64(const uint8_t *p) { return get32(p) | (uint64_t)get32(p + 4) << 32; }

/* Reads `width` <= 32 bits at `bit`. Loads 8 bytes. */
static uint32_t get_bits(const uint8_t *p, uint64_t bit, uint32_t width) {
  return (uint32_t)((get64(p + (bit >> 3)) >> (bit & 7)) & ((1ull << width) - 1));
}

/* Bits on their way into a record, lowest first. */
typedef struct bit_writer {
  uint8_t *to;
  uint64_t bits; /* those from the `count`-th on are 0 */
  uint32_t count;
} bit_writer;

/* `value` < 2^width, width <= 32; fewer than 32 bits wait from one call to the next. */
static void put_bits(bit_writer *w, uint32_t width, uint32_t value) {
  w->bits |= (uint64_t)value << w->count;
  w->count += width;
  if (w->count < 32) return;
  put32(w->to, (uint32_t)w->bits);
  w->to += 4;
  w->bits >>= 32;
  w->count -= 32;
}

static void put_rest(const bit_writer *w) {
  for (uint32_t i = 0; i * 8 < w->count; i++) w->to[i] = (uint8_t)(w->bits >> (8 * i));
}

static uint32_t width_of(uint32_t value) {
  return value == 0 ? 0 : 32 - (uint32_t)__builtin_clz(value);
}

/* The size of a record. It is computed in 64 bits, because the counts may come from hostile
 * bytes. */
static uint64_t record_size(uint64_t rows, uint64_t points, uint64_t point_bits) {
  return HRN_SEEK_HEADER + rows * 4 + (rows * points * point_bits + 7) / 8 + HRN_SEEK_TAIL;
}

bool hrn_seek_open(hrn_seek *seek, const uint8_t *record, size_t length, uint32_t columns,
                   uint32_t rows, uint32_t components) {
  if (length < HRN_SEEK_HEADER + HRN_SEEK_TAIL || record[0] != HRN_SEEK_VERSION) return false;
  seek->step = record[1];
  seek->position_bits = record[2];
  seek->components = record[3];
  seek->points = get16(record + 8);
  seek->rows = get16(record + 10);
  if (seek->step == 0 || seek->components != components || components > HRN_MAX_COMPONENTS ||
      seek->rows == 0 || seek->rows > rows ||
      seek->points != (columns + seek->step - 1) / seek->step ||
      seek->position_bits > MAX_POSITION_BITS) {
    return false;
  }
  seek->point_bits = seek->position_bits;
  for (uint32_t c = 0; c < HRN_MAX_COMPONENTS; c++) {
    seek->dc_bits[c] = record[4 + c];
    seek->lowest[c] = (int16_t)get16(record + 12 + 2 * c);
    if (seek->dc_bits[c] > MAX_DC_BITS || (c >= components && seek->dc_bits[c] != 0)) return false;
    seek->point_bits += seek->dc_bits[c];
  }
  if (record_size(seek->rows, seek->points, seek->point_bits) != length) return false;
  seek->rows_at = record + HRN_SEEK_HEADER;
  seek->points_at = seek->rows_at + (size_t)seek->rows * 4;
  return true;
}

void hrn_seek_at(const hrn_seek *seek, uint32_t row, uint32_t number, hrn_seek_point *point) {
  uint64_t bit = ((uint64_t)row * seek->points + number) * seek->point_bits;
  uint64_t position = get_bits(seek->points_at, bit, seek->position_bits);
  bit += seek->position_bits;
  position += (uint64_t)get32(seek->rows_at + (size_t)row * 4) * 8;
  /* A hostile sum may pass 32 bits; the decoder refuses every byte outside the scan. */
  point->byte = position >> 3 > UINT32_MAX ? UINT32_MAX : (uint32_t)(position >> 3);
  point->bit = position & 7;
  for (uint32_t c = 0; c < HRN_MAX_COMPONENTS; c++) {
    point->dc[c] = 0;
    if (c >= seek->components) continue;
    point->dc[c] = seek->lowest[c] + (int32_t)get_bits(seek->points_at, bit, seek->dc_bits[c]);
    bit += seek->dc_bits[c];
  }
}

size_t hrn_seek_pack(const hrn_seek_point *points, uint32_t points_a_row, uint32_t rows,
                     uint32_t components, uint32_t step, uint8_t *record, size_t capacity) {
  if (points_a_row > UINT16_MAX || rows > UINT16_MAX || step == 0 || step > UINT8_MAX ||
      components > HRN_MAX_COMPONENTS || points_a_row == 0 || rows == 0) {
    return 0;
  }
  uint64_t widest = 0;
  int32_t lowest[HRN_MAX_COMPONENTS], highest[HRN_MAX_COMPONENTS];
  for (uint32_t c = 0; c < HRN_MAX_COMPONENTS; c++) lowest[c] = highest[c] = points[0].dc[c];
  for (uint32_t row = 0; row < rows; row++) {
    const hrn_seek_point *first = points + (size_t)row * points_a_row;
    for (uint32_t i = 0; i < points_a_row; i++) {
      const hrn_seek_point *point = first + i;
      if (point->byte < first->byte) return 0;
      uint64_t position = ((uint64_t)point->byte - first->byte) * 8 + point->bit;
      if (position > widest) widest = position;
      for (uint32_t c = 0; c < components; c++) {
        if (point->dc[c] < lowest[c]) lowest[c] = point->dc[c];
        if (point->dc[c] > highest[c]) highest[c] = point->dc[c];
      }
    }
  }
  if (widest > UINT32_MAX) return 0;
  uint32_t position_bits = width_of((uint32_t)widest), point_bits = position_bits;
  uint32_t dc_bits[HRN_MAX_COMPONENTS] = {0};
  for (uint32_t c = 0; c < components; c++) {
    if (lowest[c] < INT16_MIN || highest[c] > INT16_MAX) return 0;
    dc_bits[c] = width_of((uint32_t)(highest[c] - lowest[c]));
    point_bits += dc_bits[c];
  }

  uint64_t size = record_size(rows, points_a_row, point_bits);
  if (size > SIZE_MAX) return 0;
  if (capacity < size) return (size_t)size;
  memset(record, 0, (size_t)size);
  record[0] = HRN_SEEK_VERSION;
  record[1] = (uint8_t)step;
  record[2] = (uint8_t)position_bits;
  record[3] = (uint8_t)components;
  put16(record + 8, points_a_row);
  put16(record + 10, rows);
  for (uint32_t c = 0; c < components; c++) {
    record[4 + c] = (uint8_t)dc_bits[c];
    put16(record + 12 + 2 * c, (uint32_t)lowest[c] & 0xFFFF);
  }
  uint8_t *rows_at = record + HRN_SEEK_HEADER, *points_at = rows_at + (size_t)rows * 4;
  bit_writer w = {points_at, 0, 0};
  for (uint32_t row = 0; row < rows; row++) {
    const hrn_seek_point *first = points + (size_t)row * points_a_row;
    put32(rows_at + (size_t)row * 4, first->byte);
    for (uint32_t i = 0; i < points_a_row; i++) {
      uint32_t position = (first[i].byte - first->byte) * 8 + first[i].bit;
      put_bits(&w, position_bits, position);
      for (uint32_t c = 0; c < components; c++) {
        put_bits(&w, dc_bits[c], (uint32_t)(first[i].dc[c] - lowest[c]));
      }
    }
  }
  put_rest(&w);
  return (size_t)size;
}
