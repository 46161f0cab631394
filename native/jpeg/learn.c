/* learn.c: seek points noted on the way, while a file that has none is decoded.
 *
 * A decode without points goes through every MCU above and beside its window anyway. It is stopped
 * at every place where a point belongs, which costs 0.6 % of it; what lies below the window is
 * passed over at the end, so that the points are those that an inspection would have found. A file
 * that an inspection would not call clean gets none.
 *
 * What lies below is a sixth of a file with RandomResizedCrop, and 11 % of its time. So it has an
 * allowance: each decode that learns adds a seventh of the work that its pixels took, and of a file
 * whose rest is more than what is there only the rows above are learned. A later decode goes by
 * their points. One whose window reaches below them goes on from the last one, and what it finds
 * there, or with an allowance the whole rest, is learned then. Whatever the transforms are, passing
 * over costs no more than that seventh, and nothing below known rows that no window reaches.
 */
#include "hook.h"

#include <string.h>

/* What a context begins with: some 20 photographs, so that a small set is learned at once. */
#define FIRST_ALLOWANCE 16384
/* Of the work that is done for pixels. */
#define SHARE 7

/* Fewer rows than an eighth of the image's are not worth another record. */
#define WORTH 8

void hrn_learn_begin(hrn_context *context, hrn_status *status) {
  hrn_jpeg *jpeg = context->jpeg;
  hrn_hook *hook = jpeg->kept_hook;
  hook->noted = hook->next_noted = NULL;
  if (!jpeg->learns || jpeg->unlearnable || jpeg->warnings != 0) return;
  if (hook->has_seek && (hook->seek.rows == hook->rows || hook->seek.step != HRN_SEEK_STEP)) return;
  hook->points_a_row = (hook->columns + HRN_SEEK_STEP - 1) / HRN_SEEK_STEP;
  const size_t points = (size_t)hook->points_a_row * hook->rows;
  hook->noted = hrn_scratch(context, HRN_SCRATCH_POINTS, points * sizeof *hook->noted, status);
  if (hook->noted == NULL) hrn_status_clear(status); /* the pixels do without */
  if (!hook->has_seek) hook->next_noted = hook->noted;
}

uint32_t hrn_learn_point(hrn_hook *hook, uint32_t count) {
  hrn_walk *walk = &hook->walk;
  const uint32_t column = (uint32_t)(walk->mcu % hook->columns), into = column % HRN_SEEK_STEP;
  if (into == 0) {
    const hrn_segment *segment = &walk->segment;
    /* Among the zeros behind the segment there is no place that is stored. */
    if (segment->bit > segment->last_bit) {
      hook->noted = hook->next_noted = NULL;
      return count;
    }
    hrn_seek_point *point = hook->next_noted++;
    point->byte = (uint32_t)hrn_stored(hook->scan, hook->length, &walk->place, segment->bit >> 3);
    point->bit = segment->bit & 7;
    memcpy(point->dc, segment->dc, sizeof point->dc);
  }
  uint32_t left = HRN_SEEK_STEP - into;
  if (left > hook->columns - column) left = hook->columns - column;
  return count < left ? count : left;
}

/* Whether the rest of the scan may be passed over. Work is counted in MCUs that are passed over, of
 * which one in the window, with all that is done to its pixels, is worth about two. */
static bool affordable(hrn_context *context, const hrn_hook *hook) {
  uint64_t *allowance = &context->jpeg->allowance;
  if (!context->jpeg->allowed) {
    context->jpeg->allowed = true;
    *allowance = FIRST_ALLOWANCE;
  }
  const uint64_t mcus = (uint64_t)hook->columns * hook->rows, rest = mcus - hook->walk.mcu;
  const uint32_t rows = hook->last_row > hook->first_row ? hook->last_row - hook->first_row : 0;
  const uint64_t window = (uint64_t)(hook->last_column - hook->first_column + 1) * (rows + 1);
  const uint64_t from = hook->has_seek ? (uint64_t)hook->seek.rows * hook->columns : 0;
  const uint64_t gone = hook->walk.mcu - (from < hook->walk.mcu ? from : hook->walk.mcu);
  /* What was not spent is kept for one more file, not for a long stretch without any limit. */
  if (*allowance < mcus) {
    const uint64_t more = *allowance + (window + (gone > window ? gone : window)) / SHARE;
    *allowance = more < mcus ? more : mcus;
  }
  if (rest > *allowance) return false;
  *allowance -= rest;
  return true;
}

/* Whether the walk, behind the last MCU, used up its bytes and stands before EOI. As
 * hrn_entropy_clean has it, which is stricter than a decoder. */
static bool ends_cleanly(const hrn_hook *hook) {
  const hrn_walk *walk = &hook->walk;
  return (walk->segment.bit + 7) / 8 == walk->segment.last_bit / 8 &&
         hook->length - walk->end >= 2 && hook->scan[walk->end] == 0xFF &&
         hook->scan[walk->end + 1] == JPEG_EOI;
}

/* Passes over the rest of the scan; false where a file is none that points can be of. */
static bool finish(hrn_hook *hook) {
  hrn_hook_pass(hook);
  const size_t expected = (size_t)hook->points_a_row * hook->rows;
  if (hook->noted != NULL && !hook->irregular && ends_cleanly(hook) &&
      (size_t)(hook->next_noted - hook->noted) == expected) {
    return true;
  }
  hook->irregular = false; /* of what no pixel was made of: no verdict */
  return false;
}

/* How many rows may be kept without going on; 0 where those are too few. A row counts once the walk
 * has left it. */
static uint32_t rows_so_far(const hrn_hook *hook) {
  const uint32_t rows = (uint32_t)(hook->walk.mcu / hook->columns);
  const uint32_t before = hook->has_seek ? hook->seek.rows : 0;
  return rows > before && (rows - before) >= hook->rows / WORTH ? rows : 0;
}

/* Makes a record of the first rows, for the caller and for further windows of this image. */
static bool keep(hrn_context *context, hrn_hook *hook, uint32_t rows) {
  /* Of those that were known, the last one was noted again. */
  const uint32_t known = hook->has_seek ? hook->seek.rows * hook->seek.points - 1 : 0;
  for (uint32_t i = 0; i < known; i++) {
    hrn_seek_at(&hook->seek, i / hook->points_a_row, i % hook->points_a_row, hook->noted + i);
  }
  const uint32_t components = (uint32_t)hook->components;
  const size_t size =
      hrn_seek_pack(hook->noted, hook->points_a_row, rows, components, HRN_SEEK_STEP, NULL, 0);
  if (size == 0) return false;
  hrn_status ignored;
  uint8_t *record = hrn_scratch(context, HRN_SCRATCH_SEEK, size, &ignored);
  if (record == NULL) return true; /* another time */
  hrn_seek_pack(hook->noted, hook->points_a_row, rows, components, HRN_SEEK_STEP, record, size);
  hrn_jpeg *jpeg = context->jpeg;
  jpeg->learned = jpeg->seek = record;
  jpeg->learned_length = jpeg->seek_length = size;
  return true;
}

void hrn_learn_end(hrn_context *context) {
  hrn_jpeg *jpeg = context->jpeg;
  hrn_hook *hook = jpeg->hook;
  if (hook == NULL || hook->noted == NULL || hook->irregular || jpeg->warnings != 0) return;
  if (hook->has_seek && !hook->onward) return; /* the known points were enough */
  uint32_t rows = 0;
  if (!affordable(context, hook)) {
    rows = rows_so_far(hook);
    if (rows == 0) return;
  } else if (finish(hook)) {
    rows = hook->rows;
  }
  jpeg->unlearnable = rows == 0 || !keep(context, hook, rows);
}
