/* run.c: many images of one array in one call. A tiny image costs less than the way to it: calls,
 * stages, rows of four bytes a pixel. Where a plan only moves pixels, each value is brought from
 * the array to its place at once (write/move_*.c).
 */
#include <string.h>

#include "native.h"

/* One axis of a stage that resizes nothing: outputs [from, to) show pixels of the image, the first
 * of them `first`, the next one `step` further; all others show the fill. */
typedef struct span {
  int32_t from, to, first, step;
} span;

static span span_of(const hrn_axis *axis) {
  /* Where the image begins in what is padded. Constant padding twice is padding once. */
  const int32_t shift = axis->padding.before + axis->padding.missing;
  const int32_t last = shift + axis->resized - 1;
  int32_t from = axis->step > 0 ? shift - axis->origin : axis->origin - last;
  int32_t to = axis->step > 0 ? last - axis->origin + 1 : axis->origin - shift + 1;
  if (from < 0) from = 0;
  if (to > axis->length) to = axis->length;
  if (to < from) from = to = 0; /* padding alone is seen */
  return (span){from, to, axis->box_start + axis->origin + axis->step * from - shift, axis->step};
}

/* Whether a program is but one stage that moves pixels. Grey of one channel is that channel:
 * Pillow's weights are 65536 together, and half of one is added. */
static int only_moves(const hrn_program *program, const hrn_raw *raw) {
  const hrn_stage *stage = &program->stages[0];
  if (program->count != 1 || stage->resizes || program->erasings > 0 || program->crops.count > 0 ||
      (stage->pads && stage->padding_mode != HRN_PAD_CONSTANT)) {
    return 0;
  }
  for (int32_t k = 0; k < program->pixels.count; k++) {
    if (program->pixels.op[k].kind != HRN_PIXEL_GREY || raw->channels != 1) return 0;
  }
  /* Grey of a coloured fill would have to be worked out. */
  return program->pixels.count == 0 || !stage->pads ||
         (stage->fill[0] == stage->fill[1] && stage->fill[1] == stage->fill[2]);
}

/* Where the pixels of a finished image come from. */
static hrn_moved moved_of(const hrn_stage *stage, const hrn_raw *raw, const uint8_t *bytes) {
  const span x = span_of(&stage->x), y = span_of(&stage->y);
  hrn_moved moved = {.from = bytes + raw->origin + y.first * raw->row + x.first * raw->pixel,
                     .row = y.step * raw->row,
                     .pixel = x.step * raw->pixel,
                     .channel = raw->channels == 1 ? 0 : raw->channel,
                     .width = stage->x.length,
                     .height = stage->y.length,
                     .left = x.from,
                     .right = x.to,
                     .top = y.from,
                     .bottom = y.to};
  memcpy(moved.fill, stage->fill, sizeof moved.fill);
  return moved;
}

/* The image of a row of the run by the way that all images go. */
static int whole_way(hrn_context *context, const hrn_run *run, const hrn_run_row *row,
                     const hrn_key *key, hrn_status *status) {
  hrn_job job = {
      .bytes = row->bytes, .length = run->length, .raw = run->raw, .key = *key, .view_count = 1};
  job.views[0] = (hrn_view){run->plan, row->destination, run->capacity};
  return hrn_sample(context, &job, status);
}

static int run_row(hrn_context *context, const hrn_run *run, const hrn_run_row *row,
                   hrn_status *status) {
  const hrn_plan *plan = run->plan;
  hrn_key key = run->key;
  key.sample = row->sample;
  key.draw = row->draw;
  hrn_program program;
  if (hrn_fold(plan, &key, (int32_t)run->raw.width, (int32_t)run->raw.height, &program, status) !=
      HRN_OK) {
    return status->code;
  }
  if (!only_moves(&program, &run->raw)) return whole_way(context, run, row, &key, status);
  const hrn_size size = hrn_finished_size(plan, &program);
  if (size.bytes > run->capacity) {
    return hrn_fail(status, HRN_ARGUMENT, -1,
                    "a sample of %ux%u pixels takes %llu bytes, the destination holds %llu",
                    size.width, size.height, (unsigned long long)size.bytes,
                    (unsigned long long)run->capacity);
  }
  const hrn_moved moved = moved_of(&program.stages[0], &run->raw, row->bytes);
  hrn_write_kernels_chosen()->move(&plan->format, &moved, row->destination);
  return HRN_OK;
}

/* A shuffled image of a large array is in no cache, and its first bytes would be waited for, 22 %
 * of the time of MNIST's. So the next one is on its way while this one is made. */
static void announce(const hrn_run *run, const hrn_run_row *row) {
  enum { LINE = 64, MOST = 4096 };
  const size_t length = run->length < MOST ? run->length : MOST;
  for (size_t at = 0; at < length; at += LINE) __builtin_prefetch(row->bytes + at);
}

int hrn_samples(hrn_context *context, const hrn_run *run, const hrn_run_row *rows, int32_t count,
                int32_t *done, hrn_status *status) {
  hrn_status_clear(status);
  *done = 0;
  if (run->plan->output.unmixed) {
    return hrn_fail(status, HRN_ARGUMENT, -1, "samples that are mixed are made one by one");
  }
  for (; *done < count; ++*done) {
    const hrn_run_row *row = &rows[*done];
    /* Limits and geometry are those of all rows. */
    if (*done == 0 &&
        (hrn_decode_raw(context, row->bytes, run->length, &run->raw, status) != HRN_OK ||
         hrn_check_sides(run->raw.width, run->raw.height, status) != HRN_OK)) {
      break;
    }
    if (*done + 1 < count) announce(run, row + 1);
    if (run_row(context, run, row, status) != HRN_OK) break;
  }
  hrn_scratch_end(context);
  return status->code;
}
