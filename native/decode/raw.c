/* raw.c: reads an image of an array of pixels. There is nothing to decode: values are only moved to
 * where the stages want them, whatever the order of the array's axes. */
#include "decoder.h"

#include <string.h>

#include "spread.h"

/* Moves `low` or `high` by `count` - 1 steps, depending on the direction of the steps. */
static bool reach(int64_t step, uint32_t count, int64_t *low, int64_t *high) {
  int64_t whole;
  if (count == 0 || __builtin_mul_overflow(step, (int64_t)count - 1, &whole)) return false;
  int64_t *end = whole < 0 ? low : high;
  return !__builtin_add_overflow(*end, whole, end);
}

static bool inside(const hrn_raw *raw, size_t length) {
  int64_t low = raw->origin, high = raw->origin;
  return (raw->channels == 1 || raw->channels == 3 || raw->channels == 4) &&
         reach(raw->row, raw->height, &low, &high) && reach(raw->pixel, raw->width, &low, &high) &&
         reach(raw->channel, raw->channels, &low, &high) && low >= 0 && high >= 0 &&
         (uint64_t)high < length;
}

int hrn_decode_raw(hrn_context *context, const uint8_t *bytes, size_t length, const hrn_raw *raw,
                   hrn_status *status) {
  hrn_status_clear(status);
  if (hrn_decode_begin(context, bytes, length, status) != HRN_OK ||
      hrn_check_pixels(context, raw->width, raw->height, status) != HRN_OK) {
    return status->code;
  }
  if (!inside(raw, length)) {
    return hrn_fail(status, HRN_INTERNAL, -1, "%u x %u pixels of %u values outside of %zu bytes",
                    raw->width, raw->height, raw->channels, length);
  }
  context->record->codec = HRN_CODEC_RAW;
  context->record->raw = *raw;
  context->record->width = raw->width;
  context->record->height = raw->height;
  return HRN_OK;
}

/* Makes one row of any array, value by value. */
static void gather(const hrn_raw *raw, const uint8_t *from, int32_t count, uint8_t *to) {
  const int64_t green = raw->channels == 1 ? 0 : raw->channel, blue = 2 * green;
  for (int32_t x = 0; x < count; x++, from += raw->pixel, to += 4) {
    to[0] = from[0];
    to[1] = from[green];
    to[2] = from[blue];
    to[3] = 255;
  }
}

/* Makes a row whose channels each have their pixels side by side. All steps are known to the
 * compiler, so it makes a loop of vectors. */
static void interleave(const uint8_t *red, const uint8_t *green, const uint8_t *blue, int32_t count,
                       uint8_t *restrict to) {
  for (int32_t x = 0; x < count; x++) {
    const uint32_t pixel =
        (uint32_t)red[x] | (uint32_t)green[x] << 8 | (uint32_t)blue[x] << 16 | 0xFF000000u;
    memcpy(to + 4 * (size_t)x, &pixel, 4);
  }
}

static void bring_row(const hrn_raw *raw, hrn_spread_kernel spread, const uint8_t *from,
                      int32_t count, uint8_t *to) {
  const int64_t step = raw->channels == 1 ? 0 : raw->channel;
  if (raw->channels == 3 && raw->pixel == 3 && step == 1) {
    spread(from, count, to);
  } else if (raw->channels == 4 && raw->pixel == 4 && step == 1) {
    memcpy(to, from, 4 * (size_t)count);
  } else if (raw->pixel == 1) {
    interleave(from, from + step, from + 2 * step, count, to);
  } else {
    gather(raw, from, count, to);
  }
}

int hrn_raw_window(hrn_context *context, const hrn_box *box, hrn_image *image, hrn_status *status) {
  const hrn_raw *raw = &context->record->raw;
  const hrn_spread_kernel spread = hrn_spread_chosen();
  const size_t stride = (size_t)box->width * 4;
  size_t bytes;
  if (__builtin_mul_overflow(stride, (size_t)box->height, &bytes)) {
    return hrn_fail(status, HRN_LIMIT, -1, "a window of %d x %d pixels", box->width, box->height);
  }
  uint8_t *pixels = hrn_scratch(context, HRN_SCRATCH_DECODE, bytes, status);
  if (pixels == NULL) return status->code;
  /* All values are inside the record, because hrn_decode_raw has checked the corners. */
  const uint8_t *from = context->bytes + raw->origin + box->top * raw->row + box->left * raw->pixel;
  for (int32_t y = 0; y < box->height; y++) {
    bring_row(raw, spread, from + y * raw->row, box->width, pixels + (size_t)y * stride);
  }
  *image = (hrn_image){pixels, stride, box->width, box->height};
  return HRN_OK;
}
