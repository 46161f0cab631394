/* learn.c: notes seek points while a file that has none is decoded.
 *
 * A decode without points goes through every MCU above and beside its window anyway. It stops at
 * every place where a point belongs. At the end, what lies below the window is passed over. The
 * points are those that an inspection would have found. A file whose data was no clean scan as far
 * as it was read gets no points.
 *
 * With RandomResizedCrop a sixth of a file lies below the window, and takes 11 % of the file's
 * time. Two rules bound that. First, the last twelfth of the rows is left out: random windows
 * contain it less often than the rows in the middle, passing over it takes as long as over those,
 * and a window that reaches it goes on from the last point. Second, there is an allowance. Each
 * decode that learns adds an eighth of the work that its pixels took. If the rest of a file is more
 * than the allowance, only the rows above are learned. A later decode uses their points. If its
 * window reaches below them, it goes on from the last one, and learns what it finds there, or the
 * rest if there is an allowance for it. So whatever the transforms are, passing over costs at most
 * that eighth, and rows below the known ones that no window reaches cost nothing.
 */
#include "hook.h"

#include <string.h>

/* A context's first allowance: about 20 photographs, so that a small set is learned at once. */
#define FIRST_ALLOWANCE 16384
/* Decodes add 1 / SHARE of the work that is done for pixels to the allowance. */
#define SHARE 8

/* The last 1 / LAST of the rows are not passed over just to learn points. */
#define LAST 12

/* Fewer rows than an eighth of the image's are not worth another record. */
#define WORTH 8

/* If this many rows have points, that counts as all of them. */
static uint32_t enough(const hrn_hook *hook) { return hook->rows - hook->rows / LAST; }

void hrn_learn_begin(hrn_context *context, hrn_status *status) {
  hrn_jpeg *jpeg = context->jpeg;
  hrn_hook *hook = jpeg->kept_hook;
  hook->noted = hook->next_noted = NULL;
  if (!jpeg->learns || jpeg->unlearnable || jpeg->warnings != 0) return;
  if (hook->has_seek && (hook->seek.rows >= enough(hook) || hook->seek.step != HRN_SEEK_STEP)) {
    return;
  }
  if (hook->length > UINT32_MAX) return; /* a point's position has 32 bits */
  hook->points_a_row = (hook->columns + HRN_SEEK_STEP - 1) / HRN_SEEK_STEP;
  const size_t points = (size_t)hook->points_a_row * hook->rows;
  hook->noted = hrn_scratch(context, HRN_SCRATCH_POINTS, points * sizeof *hook->noted, status);
  if (hook->noted == NULL) hrn_status_clear(status); /* the pixels do not need points */
  if (!hook->has_seek) hook->next_noted = hook->noted;
}

/* The byte of the scan that unstuffed byte `plain` of the walk's segment comes from. `plain` must
 * not be before the last one that was asked for. */
static size_t stored(hrn_hook *hook, uint64_t plain) {
  hrn_walk *walk = &hook->walk;
  const hrn_stuffing *stuffing = &hook->stuffing;
  while (walk->stuffed < stuffing->count && stuffing->at[walk->stuffed] < plain) walk->stuffed++;
  return walk->stored + (size_t)plain + walk->stuffed;
}

/* Notes the next MCU's point, if one belongs there. Returns how many MCUs to walk over until the
 * next one. */
static uint32_t note(hrn_hook *hook) {
  hrn_walk *walk = &hook->walk;
  const uint32_t column = (uint32_t)(walk->mcu % hook->columns), into = column % HRN_SEEK_STEP;
  if (into == 0) {
    const hrn_segment *segment = &walk->segment;
    /* The zeros behind the segment come from no byte of the scan. */
    if (segment->bit > segment->last_bit || hook->stuffing.count > hook->stuffing.room) {
      hook->noted = hook->next_noted = NULL;
      return walk->left;
    }
    hrn_seek_point *point = hook->next_noted++;
    point->byte = (uint32_t)stored(hook, segment->bit >> 3);
    point->bit = segment->bit & 7;
    memcpy(point->dc, segment->dc, sizeof point->dc);
  }
  uint32_t run = HRN_SEEK_STEP - into;
  if (run > hook->columns - column) run = hook->columns - column;
  return run < walk->left ? run : walk->left;
}

/* The segment's `more`: called after a run, begins the next one. */
static uint32_t next_run(hrn_segment *segment) {
  hrn_hook *hook = segment->owner;
  hrn_walk *walk = &hook->walk;
  walk->mcu += walk->run;
  walk->left -= walk->run;
  walk->run = walk->left > 0 && hook->next_noted != NULL ? note(hook) : walk->left;
  return walk->run;
}

void hrn_learn_run(hrn_hook *hook, uint32_t count) {
  hrn_walk *walk = &hook->walk;
  walk->left = count;
  walk->run = note(hook);
  walk->segment.mcus = walk->run;
  walk->segment.more = next_run;
  walk->segment.owner = hook;
}

/* Whether the allowance is enough to pass over the rows that are left, except for the last ones.
 * Work is counted in MCUs that are passed over. An MCU in the window, with all that is done to its
 * pixels, is worth about two of them. */
static bool affordable(hrn_context *context, const hrn_hook *hook) {
  uint64_t *allowance = &context->jpeg->allowance;
  if (!context->jpeg->allowed) {
    context->jpeg->allowed = true;
    *allowance = FIRST_ALLOWANCE;
  }
  const uint64_t mcus = (uint64_t)hook->columns * hook->rows;
  const uint64_t aim = (uint64_t)hook->columns * enough(hook);
  const uint64_t rest = aim > hook->walk.mcu ? aim - hook->walk.mcu : 0;
  const uint32_t rows = hook->last_row > hook->first_row ? hook->last_row - hook->first_row : 0;
  const uint64_t window = (uint64_t)(hook->last_column - hook->first_column + 1) * (rows + 1);
  const uint64_t from = hook->has_seek ? (uint64_t)hook->seek.rows * hook->columns : 0;
  const uint64_t gone = hook->walk.mcu - (from < hook->walk.mcu ? from : hook->walk.mcu);
  /* The allowance grows to the size of one file at most. So what was not spent does not add up to a
   * long stretch without any limit. */
  if (*allowance < mcus) {
    const uint64_t more = *allowance + (window + (gone > window ? gone : window)) / SHARE;
    *allowance = more < mcus ? more : mcus;
  }
  if (rest > *allowance) return false;
  *allowance -= rest;
  return true;
}

/* Whether the walk has used up its bytes at the last MCU, and EOI follows. hrn_entropy_clean
 * demands this as well. It is stricter than a decoder. */
static bool ends_cleanly(const hrn_hook *hook) {
  const hrn_walk *walk = &hook->walk;
  return (walk->segment.bit + 7) / 8 == walk->segment.last_bit / 8 &&
         hook->length - walk->end >= 2 && hook->scan[walk->end] == 0xFF &&
         hook->scan[walk->end + 1] == JPEG_EOI;
}

/* Passes over the rows that are left, except for the last ones. False if the file turns out to be
 * no clean scan. */
static bool finish(hrn_hook *hook) {
  hrn_hook_pass(hook, enough(hook));
  if (hook->noted != NULL && !hook->irregular &&
      (hook->walk.mcu < (uint64_t)hook->columns * hook->rows || ends_cleanly(hook))) {
    return true;
  }
  hook->irregular = false; /* no pixel was made of this data, so it has no say in the verdict */
  return false;
}

/* How many rows have points now; 0 if that is too few more than before. A row counts once the walk
 * has left it. */
static uint32_t rows_so_far(const hrn_hook *hook) {
  const uint32_t rows = (uint32_t)(hook->walk.mcu / hook->columns);
  const uint32_t before = hook->has_seek ? hook->seek.rows : 0;
  if (rows <= before) return 0;
  return rows >= enough(hook) || rows - before >= hook->rows / WORTH ? rows : 0;
}

/* Makes a record of the first rows, for the caller and for further windows of this image. */
static bool keep(hrn_context *context, hrn_hook *hook, uint32_t rows) {
  /* The last of the known points was noted again, so it is not copied. */
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
  if (record == NULL) return true; /* perhaps another time */
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
  if (affordable(context, hook) && !finish(hook)) {
    jpeg->unlearnable = true;
    return;
  }
  const uint32_t rows = rows_so_far(hook);
  if (rows > 0) jpeg->unlearnable = !keep(context, hook, rows);
}
