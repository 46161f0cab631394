/* reduced.c: the means of boxes of pixels are Pillow's formula, also for boxes so large that its
 * numbers of 32 bits overflow.
 *
 * All rows of an input are the same memory, so an image of 2^25 pixels takes one row. */
#include <stdio.h>
#include <stdlib.h>

#include "../decode/decode.h"
#include "../resize/resize.h"

static uint8_t mean; /* of the first channel, of the pixel that was made last */

static void take(const hrn_sink *sink, int32_t y, const uint8_t *row) {
  (void)sink, (void)y;
  mean = row[0];
}

/* Reduces an image of one value to one pixel. */
static int reduce(hrn_context *context, int32_t width, int32_t height, uint8_t value,
                  hrn_status *status) {
  uint8_t *row = malloc((size_t)width * 4);
  if (row == NULL) abort();
  for (int32_t i = 0; i < width * 4; i++) row[i] = value;
  const hrn_image image = {.pixels = row, .stride = 0, .width = width, .height = height};
  hrn_rows rows = hrn_rows_of(&image);
  const hrn_sink sink = {.row = take};
  const int code = hrn_reduce_run(context, width, height, &rows, &sink, status);
  free(row);
  return code;
}

int main(void) {
  static const struct {
    int32_t width, height;
    uint8_t value, mean;
  } boxes[] = {
      {1, 1, 100, 100},       {7, 5, 255, 255},
      {640, 480, 100, 99},    /* the reciprocal is cut to 54 */
      {4095, 4097, 100, 100}, /* 2^24 - 1 pixels: the largest count with a reciprocal */
      {4096, 4096, 100, 0},   /* the count is 0 modulo 2^24, and has none */
      {8192, 4096, 100, 0},
  };
  const hrn_limits limits = hrn_default_limits();
  hrn_context *context = hrn_context_new(&limits);
  hrn_status status;
  int failures = 0;
  for (size_t i = 0; i < sizeof boxes / sizeof boxes[0]; i++) {
    const int32_t width = boxes[i].width, height = boxes[i].height;
    if (reduce(context, width, height, boxes[i].value, &status) != HRN_OK ||
        mean != boxes[i].mean) {
      printf("%d x %d of %d: mean %d (expected %d)\n", width, height, boxes[i].value, mean,
             boxes[i].mean);
      failures++;
    }
  }
  hrn_context_free(context);
  printf("%d of %zu means differ\n", failures, sizeof boxes / sizeof boxes[0]);
  return failures != 0;
}
