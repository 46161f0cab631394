/* stage.c: runs one stage, which is only a window, a resize with a filter, or a gather, in which
 * every output pixel has one source (nearest, padding). All three give finished rows to the
 * sink. */
#include <string.h>

#include "../decode/decode.h"
#include "plan.h"

/* Pillow's affine nearest path for one axis: the positions of pixel centres are added up, not
 * multiplied, and truncated. table[i] is the source of resized pixel first + i. Up to
 * HRN_MAX_LENGTH the sum's error stays below half a step, so the last source is inside. */
static void nearest_table(const hrn_axis *axis, int32_t first, int32_t count, int32_t *table) {
  const double step = (double)((float)axis->to - (float)axis->from) / axis->resized;
  double at = axis->from + step * 0.5;
  for (int32_t i = 0; i < first; i++) at += step;
  for (int32_t i = 0; i < count; i++, at += step) table[i] = (int32_t)at;
}

/* Finds the window along one axis. Without padding it is contiguous: `count` pixels from `first`.
 * With padding, `map` (one entry an output) is filled as well, counted from `first`. */
static void axis_window(const hrn_axis *axis, int pads, int32_t mode, int32_t *map, int32_t *first,
                        int32_t *count) {
  if (map == NULL || !pads) {
    const int32_t last = axis->origin + axis->step * (axis->length - 1);
    *first = axis->step > 0 ? axis->origin : last;
    *count = axis->length;
    for (int32_t o = 0; map != NULL && o < axis->length; o++) {
      map[o] = axis->origin + axis->step * o - *first;
    }
    return;
  }
  int32_t low = INT32_MAX, high = -1;
  for (int32_t o = 0; o < axis->length; o++) {
    map[o] = hrn_padded_source(&axis->padding, mode, axis->resized, axis->origin + axis->step * o);
    if (map[o] < 0) continue;
    if (map[o] < low) low = map[o];
    if (map[o] > high) high = map[o];
  }
  /* A window that lies in constant padding alone still needs a window of the image. */
  if (high < 0) low = high = 0;
  *first = low;
  *count = high - low + 1;
  for (int32_t o = 0; o < axis->length; o++) {
    if (map[o] >= 0) map[o] -= low;
  }
}

/* Turns positions in the resized line into positions in the input window that they come from. */
static void axis_nearest(const hrn_axis *axis, int32_t *map, int32_t *table, int32_t *first,
                         int32_t *count) {
  nearest_table(axis, *first, *count, table);
  const int32_t start = table[0];
  for (int32_t o = 0; o < axis->length; o++) {
    if (map[o] >= 0) map[o] = table[map[o]] - start;
  }
  *first = start;
  *count = table[*count - 1] - start + 1;
}

/* The pixels of the input that the box of an axis touches, from *first on, and where the box lies
 * in them. */
static hrn_scaling scaling_of(const hrn_axis *axis, int32_t denominator, int32_t *first) {
  const int32_t end = axis->box_start + axis->box_length;
  const double scale = 1.0 / denominator; /* a power of two: all of this is exact */
  *first = axis->box_start / denominator;
  return (hrn_scaling){.input = (end + denominator - 1) / denominator - *first,
                       .output = axis->resized,
                       .from = (axis->box_start + axis->from) * scale - *first,
                       .to = (axis->box_start + axis->to) * scale - *first};
}

/* With `reaches` it only finds what is needed of the input, and makes no weights for a resize. */
static int prepare(hrn_context *context, const hrn_stage *stage, int reaches, hrn_ready *ready,
                   hrn_status *status) {
  const hrn_axis *x = &stage->x, *y = &stage->y;
  const int nearest = stage->resizes && stage->filter == HRN_NEAREST;
  memset(ready, 0, sizeof *ready);
  ready->stage = stage;
  ready->convolves = stage->resizes && !nearest;
  ready->gathers = stage->pads || nearest;
  int32_t *table = NULL;
  if (ready->gathers) {
    const size_t width = (size_t)x->length, height = (size_t)y->length;
    const size_t longer = width > height ? width : height;
    int32_t *maps =
        hrn_scratch(context, HRN_SCRATCH_MAPS, (width + height + longer) * sizeof *maps, status);
    if (maps == NULL) return status->code;
    ready->columns = maps;
    ready->rows = maps + width;
    table = maps + width + height;
  }
  hrn_box window;
  axis_window(x, stage->pads, stage->padding_mode, ready->columns, &window.left, &window.width);
  axis_window(y, stage->pads, stage->padding_mode, ready->rows, &window.top, &window.height);
  ready->input = window;
  if (stage->across > 0) {
    ready->resize.output = window;
    ready->input =
        hrn_reduce_reach(stage->across, stage->down, x->box_length, y->box_length, &window);
    ready->input.left += x->box_start;
    ready->input.top += y->box_start;
    ready->at_once = HRN_STRIP_ROWS;
    return HRN_OK;
  }
  if (ready->convolves) {
    int32_t left, top;
    const hrn_scaling scale_x = scaling_of(x, stage->denominator, &left);
    const hrn_scaling scale_y = scaling_of(y, stage->denominator, &top);
    if (reaches) {
      hrn_resize_reach(&scale_x, &scale_y, stage->filter, &window, &ready->resize);
    } else if (hrn_resize_prepare(context, &scale_x, &scale_y, stage->filter, stage->bits,
                                  stage->passes, &window, &ready->resize, status) != HRN_OK) {
      return status->code;
    }
    ready->input = ready->resize.input;
    ready->input.left += left;
    ready->input.top += top;
    ready->at_once = hrn_resize_at_once(&ready->resize);
    return HRN_OK;
  }
  if (nearest) {
    axis_nearest(x, ready->columns, table, &ready->input.left, &ready->input.width);
    axis_nearest(y, ready->rows, table, &ready->input.top, &ready->input.height);
  }
  ready->input.left += x->box_start;
  ready->input.top += y->box_start;
  /* A gather may look at rows in any order. Without one, rows are copied one by one. */
  ready->at_once = ready->gathers ? ready->input.height : HRN_STRIP_ROWS;
  return HRN_OK;
}

int hrn_stage_prepare(hrn_context *context, const hrn_stage *stage, hrn_ready *ready,
                      hrn_status *status) {
  return prepare(context, stage, 0, ready, status);
}

int hrn_stage_reach(hrn_context *context, const hrn_stage *stage, hrn_box *input,
                    hrn_status *status) {
  hrn_ready ready;
  if (prepare(context, stage, 1, &ready, status) == HRN_OK) *input = ready.input;
  return status->code;
}

/* Makes output rows of single source pixels. A row that shows the same source row as the one before
 * it is not built again. */
static int gather(hrn_context *context, const hrn_ready *ready, const hrn_image *image,
                  const hrn_sink *sink, hrn_status *status) {
  const int32_t width = ready->stage->x.length, height = ready->stage->y.length;
  uint32_t *row = hrn_scratch(context, HRN_SCRATCH_ROWS, (size_t)width * 4, status);
  if (row == NULL) return status->code;
  uint32_t fill;
  memcpy(&fill, ready->stage->fill, 4);
  for (int32_t y = 0; y < height; y++) {
    if (y == 0 || ready->rows[y] != ready->rows[y - 1]) {
      const uint8_t *source = NULL;
      if (ready->rows[y] >= 0) source = image->pixels + (size_t)ready->rows[y] * image->stride;
      for (int32_t x = 0; x < width; x++) {
        if (source == NULL || ready->columns[x] < 0) {
          row[x] = fill;
        } else {
          memcpy(&row[x], source + 4 * (size_t)ready->columns[x], 4);
        }
      }
    }
    sink->row(sink, y, (const uint8_t *)row);
  }
  return HRN_OK;
}

static int resample(hrn_context *context, const hrn_ready *ready, hrn_rows *input,
                    const hrn_sink *sink, hrn_status *status) {
  const hrn_stage *stage = ready->stage;
  if (stage->across == 0) return hrn_resize_run(context, &ready->resize, input, sink, status);
  return hrn_reduce_run(context, stage->across, stage->down, input, sink, status);
}

/* Resizes a region into an image, for the padding that follows. */
static int resize_to_region(hrn_context *context, const hrn_ready *ready, hrn_rows *input,
                            hrn_image *region, hrn_status *status) {
  const int32_t width = ready->resize.output.width, height = ready->resize.output.height;
  size_t bytes;
  if (__builtin_mul_overflow((size_t)width * 4, (size_t)height, &bytes)) {
    return hrn_fail(status, HRN_LIMIT, -1, "a region of %dx%d pixels", width, height);
  }
  uint8_t *pixels = hrn_scratch(context, HRN_SCRATCH_REGION, bytes, status);
  if (pixels == NULL) return status->code;
  *region = (hrn_image){pixels, (size_t)width * 4, width, height};
  const hrn_writer writer = hrn_image_writer(region, width, height);
  return resample(context, ready, input, &writer.sink, status);
}

int hrn_stage_run(hrn_context *context, const hrn_ready *ready, hrn_rows *input,
                  const hrn_sink *sink, hrn_status *status) {
  if (ready->convolves && !ready->gathers) {
    return resample(context, ready, input, sink, status);
  }
  if (ready->convolves) {
    hrn_image region;
    if (resize_to_region(context, ready, input, &region, status) != HRN_OK) {
      return status->code;
    }
    return gather(context, ready, &region, sink, status);
  }
  if (ready->gathers) {
    if (hrn_rows_need(input, 0, input->image.height, status) != HRN_OK) return status->code;
    return gather(context, ready, &input->image, sink, status);
  }
  for (int32_t y = 0; y < input->image.height; y++) {
    if (hrn_rows_need(input, y, y + 1, status) != HRN_OK) return status->code;
    sink->row(sink, y, hrn_row(input, y));
  }
  return HRN_OK;
}

int hrn_stage_first(hrn_context *context, const hrn_ready *ready, const hrn_sink *sink,
                    hrn_status *status) {
  hrn_rows rows;
  int again = 1;
  if (hrn_decode_rows(context, &ready->input, ready->at_once, &rows, status) != HRN_OK) {
    return status->code;
  }
  while (again) {
    if (hrn_stage_run(context, ready, &rows, sink, status) != HRN_OK ||
        hrn_decode_settle(&rows, &again, status) != HRN_OK) {
      return status->code;
    }
  }
  return HRN_OK;
}
