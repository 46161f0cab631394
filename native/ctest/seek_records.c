/* seek_records.c: packed seek points are the same when they are unpacked, and impossible records
 * are refused.
 *
 *   seek_records [-n ROUNDS] [-s SEED]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../jpeg/seek.h"
#include "random.h"

static int failures;

#define EXPECT(condition)                                                    \
  do {                                                                       \
    if (!(condition)) {                                                      \
      printf("seek_records.c:%d: %s: %s\n", __LINE__, __func__, #condition); \
      failures++;                                                            \
      return;                                                                \
    }                                                                        \
  } while (0)

typedef struct points {
  uint32_t columns, rows, components, step, a_row;
  hrn_seek_point *points;
} points;

/* Rows that begin anywhere after the one before, and points in them in order, as in a scan. */
static points some_points(random_state *r) {
  static const uint64_t spreads[] = {1, 3, 200, 100000};
  points p = {.columns = 1 + (uint32_t)random_below(r, 300),
              .rows = 1 + (uint32_t)random_below(r, 40),
              .components = 1 + (uint32_t)random_below(r, 4),
              .step = 1 + (uint32_t)random_below(r, 255)};
  p.a_row = (p.columns + p.step - 1) / p.step;
  p.points = calloc((size_t)p.a_row * p.rows, sizeof *p.points);
  if (p.points == NULL) abort();
  const uint64_t spread = spreads[random_below(r, 4)], dc = 1 + random_below(r, 65536);
  uint64_t bit = random_below(r, 4000000000u);
  for (uint32_t i = 0; i < p.a_row * p.rows; i++) {
    p.points[i].byte = (uint32_t)(bit >> 3);
    p.points[i].bit = bit & 7;
    for (uint32_t c = 0; c < p.components; c++) {
      p.points[i].dc[c] = INT16_MIN + (int32_t)random_below(r, dc);
    }
    bit += random_below(r, spread);
  }
  return p;
}

static size_t pack(const points *p, uint8_t *record, size_t capacity) {
  return hrn_seek_pack(p->points, p->a_row, p->rows, p->components, p->step, record, capacity);
}

/* An allocation that ends where the record does; NULL if the points do not fit the format. */
static uint8_t *packed(const points *p, size_t *length) {
  *length = pack(p, NULL, 0);
  uint8_t *record = malloc(*length);
  if (record != NULL && *length > 0) pack(p, record, *length);
  return record;
}

static void every_point_comes_back(random_state *r) {
  points p = some_points(r);
  size_t length;
  uint8_t *record = packed(&p, &length);
  hrn_seek seek;
  EXPECT(length > 0);
  EXPECT(hrn_seek_open(&seek, record, length, p.columns, p.rows, p.components));
  EXPECT(seek.step == p.step && seek.points == p.a_row);
  for (uint32_t row = 0; row < p.rows; row++) {
    for (uint32_t i = 0; i < p.a_row; i++) {
      const hrn_seek_point *expected = &p.points[(size_t)row * p.a_row + i];
      hrn_seek_point found;
      hrn_seek_at(&seek, row, i, &found);
      EXPECT(found.byte == expected->byte && found.bit == expected->bit);
      EXPECT(memcmp(found.dc, expected->dc, sizeof found.dc) == 0);
    }
  }
  free(record);
  free(p.points);
}

static void a_record_of_another_length_or_image_is_refused(random_state *r) {
  points p = some_points(r);
  size_t length;
  uint8_t *record = packed(&p, &length);
  hrn_seek seek;
  const size_t shorter = random_below(r, length);
  uint8_t *cut = malloc(shorter + (shorter == 0));
  memcpy(cut, record, shorter);
  EXPECT(!hrn_seek_open(&seek, cut, shorter, p.columns, p.rows, p.components));
  uint8_t *longer = calloc(1, length + 1);
  memcpy(longer, record, length);
  EXPECT(!hrn_seek_open(&seek, longer, length + 1, p.columns, p.rows, p.components));
  EXPECT(!hrn_seek_open(&seek, record, length, p.columns + p.step, p.rows, p.components));
  EXPECT(!hrn_seek_open(&seek, record, length, p.columns, p.rows - 1, p.components));
  EXPECT(!hrn_seek_open(&seek, record, length, p.columns, p.rows, p.components + 1));
  EXPECT(p.components == 1 ||
         !hrn_seek_open(&seek, record, length, p.columns, p.rows, p.components - 1));
  free(cut);
  free(longer);
  free(record);
  free(p.points);
}

static void a_record_of_an_images_first_rows_says_how_many_they_are(random_state *r) {
  points p = some_points(r);
  size_t length;
  uint8_t *record = packed(&p, &length);
  const uint32_t rows = p.rows + (uint32_t)random_below(r, 9);
  hrn_seek seek;
  EXPECT(hrn_seek_open(&seek, record, length, p.columns, rows, p.components));
  EXPECT(seek.rows == p.rows);
  hrn_seek_point found;
  hrn_seek_at(&seek, p.rows - 1, p.a_row - 1, &found);
  const hrn_seek_point *last = &p.points[(size_t)p.rows * p.a_row - 1];
  EXPECT(found.byte == last->byte && found.bit == last->bit);
  free(record);
  free(p.points);
}

/* An accepted record must be readable to the last point. The allocation ends with the record. */
static void a_damaged_record_is_refused_or_read_within_its_bytes(random_state *r) {
  points p = some_points(r);
  size_t length;
  uint8_t *record = packed(&p, &length);
  for (uint64_t n = 1 + random_below(r, 3); n > 0; n--) {
    record[random_below(r, random_below(r, 2) ? HRN_SEEK_HEADER : length)] =
        (uint8_t)random_next(r);
  }
  hrn_seek seek;
  if (hrn_seek_open(&seek, record, length, p.columns, p.rows, p.components)) {
    EXPECT(seek.step > 0 && seek.points == (p.columns + seek.step - 1) / seek.step);
    EXPECT(seek.rows > 0 && seek.rows <= p.rows);
    for (uint32_t row = 0; row < seek.rows; row++) {
      for (uint32_t i = 0; i < seek.points; i++) {
        hrn_seek_point found;
        hrn_seek_at(&seek, row, i, &found);
        EXPECT(found.bit < 8);
      }
    }
  }
  free(record);
  free(p.points);
}

static void each_field_of_a_header_is_checked(void) {
  hrn_seek_point point[2] = {{.byte = 5, .bit = 3, .dc = {7}}, {.byte = 9, .bit = 1, .dc = {-8}}};
  uint8_t good[64], record[64];
  const size_t length = hrn_seek_pack(point, 2, 1, 1, 8, good, sizeof good);
  hrn_seek seek;
  EXPECT(length > 0 && hrn_seek_open(&seek, good, length, 16, 1, 1));
  static const struct {
    int at, value;
  } wrong[] = {{0, 0}, {0, 2}, {1, 0}, {1, 7},  {1, 16},  {2, 33}, {2, 255},
               {3, 0}, {3, 2}, {3, 5}, {4, 17}, {4, 255}, {5, 1},  {7, 16},
               {8, 1}, {8, 3}, {9, 1}, {10, 0}, {10, 2},  {11, 1}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    memcpy(record, good, sizeof record);
    record[wrong[i].at] = (uint8_t)wrong[i].value;
    EXPECT(!hrn_seek_open(&seek, record, length, 16, 1, 1));
  }
  for (size_t shorter = 0; shorter < length; shorter++) {
    EXPECT(!hrn_seek_open(&seek, good, shorter, 16, 1, 1));
  }
}

static void points_that_do_not_fit_the_format_are_not_packed(void) {
  uint8_t record[64];
  hrn_seek_point point[2] = {{.byte = 9}, {.byte = 9}};
  EXPECT(hrn_seek_pack(point, 2, 1, 1, 1, record, sizeof record) > 0);
  point[0].dc[0] = INT16_MAX + 1;
  EXPECT(hrn_seek_pack(point, 2, 1, 1, 1, record, sizeof record) == 0);
  point[0].dc[0] = INT16_MIN - 1;
  EXPECT(hrn_seek_pack(point, 2, 1, 1, 1, record, sizeof record) == 0);
  point[0].dc[0] = 0;
  point[1].byte = 8; /* before its row */
  EXPECT(hrn_seek_pack(point, 2, 1, 1, 1, record, sizeof record) == 0);
  point[1].byte = UINT32_MAX; /* 2^32 bytes of 8 bits from the row's first */
  EXPECT(hrn_seek_pack(point, 2, 1, 1, 1, record, sizeof record) == 0);
  point[1].byte = 9;
  EXPECT(hrn_seek_pack(point, 2, 1, 5, 1, record, sizeof record) == 0);
  EXPECT(hrn_seek_pack(point, 2, 1, 1, 0, record, sizeof record) == 0);
  EXPECT(hrn_seek_pack(point, 2, 1, 1, 256, record, sizeof record) == 0);
  EXPECT(hrn_seek_pack(point, 0, 1, 1, 1, record, sizeof record) == 0);
  EXPECT(hrn_seek_pack(point, 2, 0, 1, 1, record, sizeof record) == 0);
}

static void nothing_is_written_where_the_room_is_too_small(random_state *r) {
  points p = some_points(r);
  const size_t length = pack(&p, NULL, 0);
  uint8_t *room = malloc(length);
  memset(room, 0xA5, length);
  EXPECT(pack(&p, room, length - 1) == length);
  for (size_t i = 0; i < length; i++) EXPECT(room[i] == 0xA5);
  free(room);
  free(p.points);
}

int main(int count, char **arguments) {
  long rounds = 2000;
  uint64_t seed = 1;
  for (int i = 1; i + 1 < count; i += 2) {
    if (strcmp(arguments[i], "-n") == 0) rounds = atol(arguments[i + 1]);
    if (strcmp(arguments[i], "-s") == 0) seed = strtoull(arguments[i + 1], NULL, 10);
  }
  random_state r = random_seeded(seed);
  each_field_of_a_header_is_checked();
  points_that_do_not_fit_the_format_are_not_packed();
  for (long n = 0; n < rounds && failures < 10; n++) {
    every_point_comes_back(&r);
    a_record_of_another_length_or_image_is_refused(&r);
    a_record_of_an_images_first_rows_says_how_many_they_are(&r);
    a_damaged_record_is_refused_or_read_within_its_bytes(&r);
    nothing_is_written_where_the_room_is_too_small(&r);
  }
  printf("%ld rounds, %d statements failed\n", rounds, failures);
  return failures != 0;
}
