/* run.c: makes many images of one array in one call. For a tiny image the calls, the stages and the
 * rows of four bytes a pixel cost more than the image itself. If a plan only moves pixels, each
 * value is copied from the array straight to its place (write/move_*.c). */
#include <string.h>

#include "native.h"

/* One axis of a stage that resizes nothing. Outputs [from, to) show pixels of the image: the first
 * one shows pixel `first`, and each next one the pixel `step` further. All other outputs show the
 * fill. */
typedef struct span {
  int32_t from, to, first, step;
} span;

static span span_of(const hrn_axis *axis) {
  /* Where the image begins in the padded line. Constant padding twice is the same as padding
   * once. */
  const int32_t shift = axis->padding.before + axis->padding.missing;
  const int32_t last = shift + axis->resized - 1;
  int32_t from = axis->step > 0 ? shift - axis->origin : axis->origin - last;
  int32_t to = axis->step > 0 ? last - axis->origin + 1 : axis->origin - shift + 1;
  if (from < 0) from = 0;
  if (to > axis->length) to = axis->length;
  if (to < from) from = to = 0; /* only padding is shown */
  return (span){from, to, axis->box_start + axis->origin + axis->step * from - shift, axis->step};
}

/* Whether a program is only one stage that moves pixels. Grey of one channel is that channel,
 * because Pillow's weights add up to 65536 and it adds one half. */
static int only_moves(const hrn_program *program, const hrn_raw *raw) {
  const hrn_stage *stage = &program->stages[0];
  if (program->count != 1 || stage->resizes || program->erasings > 0 || program->crops.count > 0 ||
      (stage->pads && stage->padding_mode != HRN_PAD_CONSTANT)) {
    return 0;
  }
  for (int32_t k = 0; k < program->pixels.count; k++) {
    if (program->pixels.op[k].kind != HRN_PIXEL_GREY || raw->channels != 1) return 0;
  }
  /* The grey of a coloured fill would have to be computed. */
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

/* Makes the image of a row in the way in which all other images are made. */
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

/* A shuffled image of a large array is in no cache. Waiting for its first bytes took 22 % of the
 * time with MNIST. So the next image is fetched while this one is made. */
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
    /* Limits and geometry are the same for all rows. */
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
