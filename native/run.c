/* run.c: many images of one array in one call. A tiny image costs less than the way to it: calls,
 * stages, rows of four bytes a pixel. Where a plan only moves pixels, each value is brought from
 * the array to its place at once, through the tables that define the finished values.
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

/* One plane of one finished image: channel c of the output. */
static void write_plane(const hrn_format *format, int c, const hrn_raw *raw, const hrn_stage *stage,
                        const uint8_t *bytes, uint8_t *to) {
  const hrn_plane_kernel write_values = hrn_write_kernels_chosen()->plane;
  const span x = span_of(&stage->x), y = span_of(&stage->y);
  const int32_t width = stage->x.length, height = stage->y.length;
  const size_t apart = format->layout == HRN_NHWC ? 3 * format->element : format->element;
  const size_t row = (size_t)width * apart;
  const int64_t channel = raw->channels == 1 ? 0 : c * raw->channel;
  const uint8_t *image = bytes + raw->origin + channel + x.first * raw->pixel;
  /* Rows of the whole image that lie one behind the other are one long row. */
  if (x.step == 1 && y.step == 1 && x.to - x.from == width && y.to - y.from == height &&
      raw->row == width * raw->pixel) {
    write_values(format, c, image + y.first * raw->row, raw->pixel, width * height, to, apart);
    return;
  }
  for (int32_t out = 0; out < height; out++, to += row) {
    const int seen = out >= y.from && out < y.to;
    const int32_t from = seen ? x.from : 0, end = seen ? x.to : 0;
    /* The fill, by a step of 0. */
    write_values(format, c, &stage->fill[c], 0, from, to, apart);
    write_values(format, c, &stage->fill[c], 0, width - end, to + (size_t)end * apart, apart);
    if (!seen) continue;
    const int64_t line = y.first + (int64_t)y.step * (out - y.from);
    write_values(format, c, image + line * raw->row, x.step * raw->pixel, end - from,
                 to + (size_t)from * apart, apart);
  }
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
  const hrn_format *format = &plan->format;
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
  const size_t plane = format->layout == HRN_NHWC
                           ? format->element
                           : (size_t)size.width * size.height * format->element;
  for (uint32_t c = 0; c < format->channels; c++) {
    write_plane(format, (int)c, &run->raw, &program.stages[0], row->bytes,
                (uint8_t *)row->destination + c * plane);
  }
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
