/* resize.c: orders the two passes, keeps the rows between them, and gives the result to the sink.
 *
 * The two passes run interleaved. As soon as the rows that one output row needs have gone through
 * the first pass, the second pass uses them, while they are still in the nearest cache.
 */
#include "resize.h"

#include <string.h>

/* How many rows of the intermediate image are kept beyond those that one output needs. The overlap
 * is then moved to the front only once in this many rows. */
enum { SLACK_ROWS = 24 };

/* Row buffers are whole groups of 16 pixels, so kernels may store whole vectors. */
static size_t row_bytes(int32_t pixels) { return ((size_t)pixels * 4 + 63) / 64 * 64; }

static int changes(const hrn_scaling *axis) {
  return axis->input != axis->output || axis->from != 0 || axis->to != axis->input;
}

void hrn_resize_reach(const hrn_scaling *x, const hrn_scaling *y, int filter, const hrn_box *window,
                      hrn_resize *resize) {
  memset(resize, 0, sizeof *resize);
  /* A pass that is skipped needs only the window of its axis. */
  resize->output = resize->input = *window;
  hrn_box *input = &resize->input;
  resize->horizontal = changes(x);
  resize->vertical = changes(y);
  if (resize->horizontal) {
    hrn_taps_reach(x, filter, window->left, window->width, &input->left, &input->width);
  }
  if (resize->vertical) {
    hrn_taps_reach(y, filter, window->top, window->height, &input->top, &input->height);
  }
}

/* For filters of tensors the horizontal pass is always the first. The arithmetic has 64 bits,
 * because sides may be up to 2^24 and the factors must not overflow. */
static int begins_vertically(const hrn_scaling *x, const hrn_scaling *y, int filter, int passes) {
  const int64_t dy = (int64_t)y->input - y->output;
  const int64_t dx = (int64_t)x->input - x->output;
  if (hrn_is_of_tensors(filter) || passes == HRN_PASSES_HORIZONTAL || dy <= 0) return 0;
  return passes == HRN_PASSES_TALL ? y->input > 100 * (int64_t)x->input : dy > 2 * dx;
}

int hrn_resize_prepare(hrn_context *context, const hrn_scaling *x, const hrn_scaling *y, int filter,
                       int bits, int passes, const hrn_box *window, hrn_resize *resize,
                       hrn_status *status) {
  hrn_resize_reach(x, y, filter, window, resize);
  resize->vertical_first = begins_vertically(x, y, filter, passes);

  /* Both axes are in one scratch buffer. The second begins at a cache line. */
  size_t x_bytes = 0, y_bytes = 0, bytes;
  if (resize->horizontal) x_bytes = hrn_taps_bytes(x, filter, window->width);
  if (resize->vertical) y_bytes = hrn_taps_bytes(y, filter, window->height);
  if ((resize->horizontal && x_bytes == 0) || (resize->vertical && y_bytes == 0) ||
      __builtin_add_overflow((x_bytes + 63) / 64 * 64, y_bytes, &bytes)) {
    return hrn_fail(status, HRN_LIMIT, -1, "resize from %dx%d to %dx%d needs too many coefficients",
                    x->input, y->input, x->output, y->output);
  }
  const hrn_resize_kernels *kernels = hrn_resize_kernels_chosen();
  uint8_t *memory = hrn_scratch(context, HRN_SCRATCH_COEFFICIENTS, bytes, status);
  if (memory == NULL) return status->code;
  if (resize->horizontal) {
    hrn_taps_build(&resize->x, x, filter, bits, window->left, window->width, 1, memory);
    kernels->arrange(&resize->x, 1);
  }
  if (resize->vertical) {
    hrn_taps_build(&resize->y, y, filter, bits, window->top, window->height, 0,
                   memory + (x_bytes + 63) / 64 * 64);
    kernels->arrange(&resize->y, 0);
  }
  return HRN_OK;
}

int32_t hrn_resize_at_once(const hrn_resize *resize) {
  const int whole = resize->vertical && (!resize->horizontal || resize->vertical_first);
  return whole ? resize->input.height : HRN_STRIP_ROWS;
}

/* The four orders of passes follow. Rows go through the horizontal kernel in pairs, because two
 * rows fill a 256-bit register. An odd last row is paired with itself. */

/* Sends rows, two at a time, through the horizontal kernel and straight to the sink. */
static int horizontal_only(hrn_context *context, const hrn_resize *resize, hrn_rows *input,
                           const hrn_sink *sink, hrn_status *status) {
  const hrn_resize_kernels *kernels = hrn_resize_kernels_chosen();
  const size_t stride = row_bytes(resize->output.width);
  uint8_t *rows = hrn_scratch(context, HRN_SCRATCH_ROWS, 2 * stride, status);
  if (rows == NULL) return status->code;
  for (int32_t y = 0; y < input->image.height; y += 2) {
    const int pair = y + 1 < input->image.height;
    if (hrn_rows_need(input, y, y + 1 + pair, status) != HRN_OK) return status->code;
    kernels->horizontal(&resize->x, hrn_row(input, y), hrn_row(input, pair ? y + 1 : y), rows,
                        pair ? rows + stride : rows);
    sink->row(sink, y, rows);
    if (pair) sink->row(sink, y + 1, rows + stride);
  }
  return HRN_OK;
}

/* The kernel reads the image where it is, because a vertical pass needs whole rows. */
static int vertical_only(hrn_context *context, const hrn_resize *resize, hrn_rows *input,
                         const hrn_sink *sink, hrn_status *status) {
  const hrn_resize_kernels *kernels = hrn_resize_kernels_chosen();
  uint8_t *row = hrn_scratch(context, HRN_SCRATCH_ROWS, row_bytes(input->image.width), status);
  if (row == NULL) return status->code;
  if (hrn_rows_need(input, 0, input->image.height, status) != HRN_OK) return status->code;
  for (int32_t y = 0; y < resize->output.height; y++) {
    kernels->vertical(&resize->y, y, hrn_row(input, resize->y.start[y]), input->image.stride, row,
                      (size_t)input->image.width * 4);
    sink->row(sink, y, row);
  }
  return HRN_OK;
}

/* Only two rows of the first pass exist between the passes. */
static int vertical_then_horizontal(hrn_context *context, const hrn_resize *resize, hrn_rows *input,
                                    const hrn_sink *sink, hrn_status *status) {
  const hrn_resize_kernels *kernels = hrn_resize_kernels_chosen();
  const size_t wide = row_bytes(input->image.width), narrow = row_bytes(resize->output.width);
  uint8_t *middle = hrn_scratch(context, HRN_SCRATCH_MIDDLE, 2 * wide, status);
  if (middle == NULL) return status->code;
  uint8_t *rows = hrn_scratch(context, HRN_SCRATCH_ROWS, 2 * narrow, status);
  if (rows == NULL) return status->code;
  if (hrn_rows_need(input, 0, input->image.height, status) != HRN_OK) return status->code;
  for (int32_t y = 0; y < resize->output.height; y += 2) {
    const int pair = y + 1 < resize->output.height;
    for (int32_t i = 0; i < 1 + pair; i++) {
      kernels->vertical(&resize->y, y + i, hrn_row(input, resize->y.start[y + i]),
                        input->image.stride, middle + (size_t)i * wide,
                        (size_t)input->image.width * 4);
    }
    kernels->horizontal(&resize->x, middle, pair ? middle + wide : middle, rows,
                        pair ? rows + narrow : rows);
    sink->row(sink, y, rows);
    if (pair) sink->row(sink, y + 1, rows + narrow);
  }
  return HRN_OK;
}

/* Supports of neighbouring outputs overlap, so rows of the first pass are kept in a buffer that
 * slides down the image. The buffer is linear and not a ring, because kernels address rows by a
 * stride. */
static int horizontal_then_vertical(hrn_context *context, const hrn_resize *resize, hrn_rows *input,
                                    const hrn_sink *sink, hrn_status *status) {
  const hrn_resize_kernels *kernels = hrn_resize_kernels_chosen();
  const size_t stride = row_bytes(resize->output.width);
  int32_t most = 0;
  for (int32_t y = 0; y < resize->y.count; y++) {
    if (resize->y.length[y] > most) most = resize->y.length[y];
  }
  /* A pair may end one row beyond what is needed, and may begin when the buffer has one row
   * left. */
  const int32_t capacity = most + 2 + SLACK_ROWS;
  size_t bytes;
  if (__builtin_mul_overflow(stride, (size_t)capacity, &bytes)) {
    return hrn_fail(status, HRN_LIMIT, -1, "resize needs %d rows of %zu bytes", capacity, stride);
  }
  uint8_t *middle = hrn_scratch(context, HRN_SCRATCH_MIDDLE, bytes, status);
  if (middle == NULL) return status->code;
  uint8_t *row = hrn_scratch(context, HRN_SCRATCH_ROWS, stride, status);
  if (row == NULL) return status->code;

  int32_t base = 0, ready = 0; /* middle holds input rows [base, ready) */
  for (int32_t y = 0; y < resize->output.height; y++) {
    const int32_t start = resize->y.start[y], end = start + resize->y.length[y];
    /* Rounding can leave an input row between two outputs' supports. It is not needed. */
    if (ready < start) ready = base = start;
    while (ready < end) {
      if (ready + 2 - base > capacity) {
        memmove(middle, middle + (size_t)(start - base) * stride, (size_t)(ready - start) * stride);
        base = start;
      }
      const int pair = ready + 1 < input->image.height;
      if (hrn_rows_need(input, ready, ready + 1 + pair, status) != HRN_OK) return status->code;
      uint8_t *out = middle + (size_t)(ready - base) * stride;
      kernels->horizontal(&resize->x, hrn_row(input, ready),
                          hrn_row(input, pair ? ready + 1 : ready), out, pair ? out + stride : out);
      ready += 1 + pair;
    }
    kernels->vertical(&resize->y, y, middle + (size_t)(start - base) * stride, stride, row,
                      (size_t)resize->output.width * 4);
    sink->row(sink, y, row);
  }
  return HRN_OK;
}

int hrn_resize_run(hrn_context *context, const hrn_resize *resize, hrn_rows *input,
                   const hrn_sink *sink, hrn_status *status) {
  if (!resize->horizontal && !resize->vertical) {
    /* The crop was decoded at the size that it is resized to. */
    for (int32_t y = 0; y < input->image.height; y++) {
      if (hrn_rows_need(input, y, y + 1, status) != HRN_OK) return status->code;
      sink->row(sink, y, hrn_row(input, y));
    }
    return HRN_OK;
  }
  if (!resize->vertical) return horizontal_only(context, resize, input, sink, status);
  if (!resize->horizontal) return vertical_only(context, resize, input, sink, status);
  if (resize->vertical_first) return vertical_then_horizontal(context, resize, input, sink, status);
  return horizontal_then_vertical(context, resize, input, sink, status);
}
