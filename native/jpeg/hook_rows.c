/* hook_rows.c: the coefficients of a window's rows. A row that has seek points is decoded from the
 * last point before the window. For all other rows a walk goes through the MCUs of the scan, and
 * passes over those that lie on the way. */
#include "hook.h"

#include <string.h>

/* 64 symbols of 27 bits, every byte of them a stuffed one. */
#define MOST_BLOCK_BYTES (2 * HRN_BLOCK * 27 / 8)

/* Passing over MCUs needs tables of its own. Making them takes as long as decoding about 50 MCUs
 * that are not needed. A walk behind known rows mostly has fewer to pass over. */
#define WORTH_TABLES 64

/* ---- walking ---------------------------------------------------------------------------- */

/* Unstuffs bytes [from, to) of the scan, up to the next marker, and makes them the segment's. */
static void enter(hrn_hook *hook, hrn_segment *segment, uint8_t *unstuffed, size_t from, size_t to,
                  size_t *end, hrn_stuffing *stuffing) {
  size_t taken, length = hrn_unstuff(unstuffed, hook->scan + from, to - from, &taken, stuffing);
  segment->bytes = unstuffed;
  segment->last_bit = (uint64_t)length * 8;
  *end = from + taken;
}

/* Makes bytes [from, limit) the walk's segment. */
static void enter_walk(hrn_hook *hook, size_t from) {
  hrn_walk *walk = &hook->walk;
  enter(hook, &walk->segment, hook->unstuffed[0], from, walk->limit, &walk->end,
        hook->noted != NULL ? &hook->stuffing : NULL);
  walk->stored = from;
  walk->stuffed = 0;
}

/* Begins a walk at a bit of the scan. A point outside of the scan is another file's or an
 * attacker's. */
static void walk_from(hrn_hook *hook, size_t byte, size_t to, uint32_t bit, const int32_t *dc,
                      uint64_t mcu) {
  hrn_walk *walk = &hook->walk;
  memset(&walk->segment, 0, sizeof walk->segment);
  walk->limit = to;
  if (byte > to) {
    hook->irregular = true;
    byte = to;
  }
  enter_walk(hook, byte);
  walk->segment.bit = bit;
  if (dc != NULL) memcpy(walk->segment.dc, dc, sizeof walk->segment.dc);
  walk->mcu = mcu;
  walk->fresh = true;
}

/* Moves the walk over the restart marker that must stand here (T.81 E.2.4). */
static void walk_restart(hrn_hook *hook) {
  hrn_walk *walk = &hook->walk;
  uint8_t expected = (uint8_t)(0xD0 + (walk->mcu / hook->restart_interval - 1) % 8);
  if (walk->segment.last_bit - walk->segment.bit > 7 || walk->end + 2 > walk->limit ||
      hook->scan[walk->end] != 0xFF || hook->scan[walk->end + 1] != expected) {
    hook->irregular = true;
    return;
  }
  enter_walk(hook, walk->end + 2);
  walk->segment.bit = 0;
  memset(walk->segment.dc, 0, sizeof walk->segment.dc);
}

bool hrn_hook_make_skip(hrn_hook *hook) {
  hook->skips = hrn_scan_begin(&hook->skip, hook->entropy, hook->info);
  return hook->skips;
}

/* Decodes `run` MCUs to `blocks`, or passes over them if that is NULL. */
static void walk_run(hrn_hook *hook, uint32_t run, int16_t *blocks) {
  hrn_walk *walk = &hook->walk;
  const uint64_t behind = walk->mcu + run;
  walk->segment.mcus = run;
  walk->segment.more = NULL;
  if (hook->next_noted != NULL) hrn_learn_run(hook, run);
  if (blocks == NULL && hook->skips) {
    hrn_skip_segment(&hook->skip, &walk->segment);
  } else {
    /* Without tables for passing over, MCUs are decoded into the room of a second row of the
     * window, which nobody reads. */
    walk->segment.blocks = blocks != NULL ? blocks : hook->blocks + hook->row_stride;
    hrn_decode_segment(&hook->mcu, &walk->segment);
  }
  if (walk->segment.irregular) hook->irregular = true;
  walk->mcu = behind;
  walk->fresh = false;
}

/* Decodes the next `count` MCUs to `blocks`, or passes over them if that is NULL. */
static void walk_on(hrn_hook *hook, uint32_t count, int16_t *blocks) {
  hrn_walk *walk = &hook->walk;
  while (count > 0 && !hook->irregular) {
    uint32_t run = count;
    if (hook->restart_interval > 0) {
      uint32_t into = (uint32_t)(walk->mcu % hook->restart_interval);
      if (into == 0 && walk->mcu > 0 && !walk->fresh) walk_restart(hook);
      if (hook->irregular) return;
      if (run > hook->restart_interval - into) run = hook->restart_interval - into;
    }
    if (blocks == NULL && !hook->skips) {
      const uint32_t room = hook->last_column - hrn_hook_lead(hook) + 1;
      if (run > room) run = room;
    }
    walk_run(hook, run, blocks);
    if (blocks != NULL) blocks += (size_t)run * (size_t)hook->mcu.blocks * HRN_BLOCK;
    count -= run;
  }
}

void hrn_hook_start(hrn_hook *hook) { walk_from(hook, 0, hook->length, 0, NULL, 0); }

void hrn_hook_onward(hrn_hook *hook) {
  const uint32_t row = hook->seek.rows - 1, number = hook->seek.points - 1;
  hrn_seek_point point;
  hrn_seek_at(&hook->seek, row, number, &point);
  walk_from(hook, point.byte, hook->length, point.bit, point.dc,
            (uint64_t)row * hook->columns + (uint64_t)number * hook->seek.step);
  hook->onward = true;
  /* The first point that is noted is this one once more. */
  if (hook->noted != NULL)
    hook->next_noted = hook->noted + (size_t)row * hook->seek.points + number;
}

void hrn_hook_pass(hrn_hook *hook, uint32_t rows) {
  const uint64_t mcus = (uint64_t)hook->columns * rows;
  if (hook->walk.mcu < mcus) walk_on(hook, (uint32_t)(mcus - hook->walk.mcu), NULL);
}

/* Whether libjpeg would go on from here to EOI without an error. jpeg_finish_decompress skips what
 * is no marker, restart markers and TEM. It refuses a second scan, frame or image. Files with any
 * other marker are left to it. A file that ends without EOI has lost no pixel. */
static bool ends_plainly(const hrn_hook *hook) {
  size_t at = hook->walk.end;
  for (;;) {
    const uint8_t *mark = memchr(hook->scan + at, 0xFF, hook->length - at);
    if (mark == NULL || (at = (size_t)(mark - hook->scan) + 1) == hook->length) return true;
    const uint8_t marker = hook->scan[at];
    if (marker == 0xFF) continue; /* a fill byte */
    const bool bare = marker == 0 || marker == 1 || (marker >= 0xD0 && marker <= 0xD7);
    if (!bare) return marker == JPEG_EOI;
    at++;
  }
}

/* ---- rows of the window ------------------------------------------------------------------- */

/* Learned points may end above a row. */
static bool has_points(const hrn_hook *hook, uint32_t row) {
  return hook->has_seek && row < hook->seek.rows;
}

/* Where a row's bytes end. That is at the first point behind the window, so that no more than
 * needed is unstuffed, but no further than the row's MCUs can reach. Otherwise hostile points could
 * make every row copy the whole scan. */
static size_t row_end(const hrn_hook *hook, uint32_t row, size_t from) {
  uint32_t after = hook->last_column / hook->seek.step + 1;
  size_t to = hook->length;
  if (after < hook->seek.points || has_points(hook, row + 1)) {
    hrn_seek_point next;
    bool same = after < hook->seek.points;
    hrn_seek_at(&hook->seek, same ? row : row + 1, same ? after : 0, &next);
    /* The byte that the next point stands in may also hold this row's last bits, and it may be a
     * stuffed one. */
    if (next.byte < to && to - next.byte > 2) to = (size_t)next.byte + 2;
  }
  uint64_t mcus = hook->last_column - hrn_hook_lead(hook) + 1;
  uint64_t most = mcus * (uint32_t)hook->mcu.blocks * MOST_BLOCK_BYTES + 8;
  return to > from && to - from > most ? from + (size_t)most : to;
}

/* One row's segment from its seek point to the window's right edge. */
static void enter_row(hrn_hook *hook, uint32_t row, uint32_t slot, hrn_segment *segment) {
  hrn_seek_point point;
  hrn_seek_at(&hook->seek, row, hook->first_column / hook->seek.step, &point);
  memset(segment, 0, sizeof *segment);
  size_t from = point.byte, to = row_end(hook, row, from), end;
  if (from > to) {
    hook->irregular = true;
    from = to;
  }
  enter(hook, segment, hook->unstuffed[slot], from, to, &end, NULL);
  segment->bit = point.bit;
  memcpy(segment->dc, point.dc, sizeof segment->dc);
  segment->blocks = hook->blocks + slot * hook->row_stride;
  segment->mcus = hook->last_column - hrn_hook_lead(hook) + 1;
}

/* Decodes two rows as two streams in turn, because libjpeg asks for the second one soon after. More
 * than two, in a queue, were no faster. */
static void decode_rows_from_points(hrn_hook *hook, uint32_t row) {
  hrn_segment first, second;
  bool two = row < hook->last_row && has_points(hook, row + 1);
  memset(hook->blocks, 0, (two ? 2 : 1) * hook->row_stride * sizeof *hook->blocks);
  enter_row(hook, row, 0, &first);
  if (two) {
    enter_row(hook, row + 1, 1, &second);
    hrn_decode_segments(&hook->mcu, &first, &second);
  } else {
    hrn_decode_segment(&hook->mcu, &first);
  }
  if (first.irregular || (two && second.irregular)) hook->irregular = true;
  hook->ready_rows = two ? 2 : 1;
}

/* Without points the walk goes through every MCU on the way. With restart markers a row's walk
 * begins at its point. */
static void decode_row_walking(hrn_hook *hook, uint32_t row) {
  uint64_t start = (uint64_t)row * hook->columns + hook->first_column;
  if (has_points(hook, row)) {
    hrn_seek_point point;
    uint32_t number = hook->first_column / hook->seek.step;
    hrn_seek_at(&hook->seek, row, number, &point);
    walk_from(hook, point.byte, row_end(hook, row, point.byte), point.bit, point.dc,
              (uint64_t)row * hook->columns + (uint64_t)number * hook->seek.step);
  } else if (hook->has_seek && !hook->onward) {
    hrn_hook_onward(hook);
  }
  memset(hook->blocks, 0, hook->row_stride * sizeof *hook->blocks);
  uint64_t away = start - hook->walk.mcu;
  hook->passed += (uint32_t)away;
  if (hook->passed > WORTH_TABLES && !hook->skips && !hrn_hook_make_skip(hook))
    hook->irregular = true;
  if (away > 0) walk_on(hook, (uint32_t)away, NULL);
  walk_on(hook, hook->last_column - hook->first_column + 1, hook->blocks);
  hook->ready_rows = 1;
  /* A file whose last row has seek points was read to its end when they were noted. */
  if (row + 1 == hook->rows && !has_points(hook, row) && !ends_plainly(hook)) {
    hook->irregular = true;
  }
}

/* Rows are asked for in order, each once for every MCU of the window. Only the first of these calls
 * decodes. */
static void make_ready(hrn_hook *hook, uint32_t row) {
  if (row >= hook->ready_row && row < hook->ready_row + hook->ready_rows) return;
  hook->ready_row = row;
  if (hook->ready_rows == 0) hook->first_row = row;
  if (has_points(hook, row) && hook->restart_interval == 0) {
    decode_rows_from_points(hook, row);
  } else {
    decode_row_walking(hook, row);
  }
}

int16_t *hrn_hook_row(hrn_hook *hook, uint32_t row) {
  if (!hook->irregular) make_ready(hook, row);
  if (hook->irregular) return NULL;
  const bool points = has_points(hook, row) && hook->restart_interval == 0;
  const uint32_t lead = points ? hrn_hook_lead(hook) : hook->first_column;
  return hook->blocks + (row - hook->ready_row) * hook->row_stride +
         hrn_hook_coefficients(hook, hook->first_column - lead);
}
