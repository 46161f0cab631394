/* reduce.c: the mean of whole boxes of pixels, as Pillow's Image.reduce makes it. A sum is
 * multiplied by the reciprocal of its count. The reciprocal has 24 bits behind the point and was
 * computed in single precision (python-pillow/Pillow, src/libImaging/Reduce.c and division_UINT32
 * of ImagingUtils.h). */
#include <string.h>

#include "resize.h"

hrn_box hrn_reduce_reach(int32_t across, int32_t down, int32_t width, int32_t height,
                         const hrn_box *window) {
  const int64_t left = (int64_t)window->left * across, top = (int64_t)window->top * down;
  const int64_t right = left + (int64_t)window->width * across;
  const int64_t bottom = top + (int64_t)window->height * down;
  return (hrn_box){.left = (int32_t)left,
                   .top = (int32_t)top,
                   .width = (int32_t)((right < width ? right : width) - left),
                   .height = (int32_t)((bottom < height ? bottom : height) - top)};
}

/* The reciprocal of a count, with 24 bits behind the point. A count that is a multiple of 2^24 is 0
 * modulo 2^32 once it is multiplied by 2^8. Pillow divides by that zero too, and converts the
 * infinity to an integer, which C leaves undefined (C11, 6.3.1.4). Its build for x86-64 converts to
 * 64 bits and keeps the lower 32 of them, which are 0: the mean is black. So it is here. */
static uint32_t reciprocal_of(uint32_t count) {
  const uint32_t divisor = count << 8;
  return divisor == 0 ? 0 : (uint32_t)((float)(1 << 30) * 4.0F / (float)divisor);
}

/* Writes the means of sums of `count` bytes, rounded as Pillow rounds them. All arithmetic is
 * modulo 2^32, as there, so the mean of a box of 2^24 pixels or more may be any. */
static void write_means(const uint32_t *sums, int32_t width, int32_t across, int32_t last,
                        int32_t rows, uint8_t *out) {
  for (int32_t x = 0; x < width; x++) {
    const uint32_t count = (uint32_t)(x + 1 == width ? last : across) * (uint32_t)rows;
    const uint32_t reciprocal = reciprocal_of(count);
    for (int c = 0; c < 3; c++) {
      out[4 * x + c] = (uint8_t)((sums[4 * x + c] + count / 2) * reciprocal >> 24);
    }
    out[4 * x + 3] = 255;
  }
}

static void add_row(const uint8_t *row, int32_t length, int32_t across, uint32_t *sums) {
  for (int32_t x = 0; x < length; sums += 4) {
    const int32_t end = length - x < across ? length : x + across;
    for (; x < end; x++) {
      for (int c = 0; c < 3; c++) sums[c] += row[4 * x + c];
    }
  }
}

int hrn_reduce_run(hrn_context *context, int32_t across, int32_t down, hrn_rows *input,
                   const hrn_sink *sink, hrn_status *status) {
  const int32_t length = input->image.width, height = input->image.height;
  const int32_t width = hrn_divide_up(length, across);
  uint32_t *sums = hrn_scratch(context, HRN_SCRATCH_MIDDLE, (size_t)width * 16, status);
  if (sums == NULL) return status->code;
  uint8_t *out = hrn_scratch(context, HRN_SCRATCH_ROWS, (size_t)width * 4, status);
  if (out == NULL) return status->code;
  for (int32_t y = 0, row = 0; y < height; row++) {
    const int32_t end = height - y < down ? height : y + down, rows = end - y;
    memset(sums, 0, (size_t)width * 16);
    for (; y < end; y++) {
      if (hrn_rows_need(input, y, y + 1, status) != HRN_OK) return status->code;
      add_row(hrn_row(input, y), length, across, sums);
    }
    write_means(sums, width, across, length - (width - 1) * across, rows, out);
    sink->row(sink, row, out);
  }
  return HRN_OK;
}
