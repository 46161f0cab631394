/* tiff.c: the pixels of a window of a TIFF, from the strips that it meets. */
#include "tiff.h"

#include <string.h>

static uint64_t row_bytes(const hrn_tiff *tiff) {
  return ((uint64_t)tiff->width * tiff->samples * tiff->bits + 7) / 8;
}

int hrn_tiff_header(hrn_context *context, hrn_tiff *tiff, uint32_t *width, uint32_t *height,
                    hrn_status *status) {
  if (hrn_tiff_read_directory(tiff, context->bytes, context->length, status) != HRN_OK) {
    return status->code;
  }
  *width = tiff->width;
  *height = tiff->height;
  return hrn_check_pixels(context, *width, *height, status);
}

/* Colours by index: of a palette the high bytes of its 16-bit values, reds first, then greens. */
static void fill_colours(const hrn_tiff *tiff, uint8_t (*colours)[4]) {
  const uint32_t count = 1u << tiff->bits;
  for (uint32_t i = 0; i < count; i++) {
    const uint8_t value = (uint8_t)(i * 255 / (count - 1));
    for (uint32_t channel = 0; channel < 3; channel++) {
      colours[i][channel] =
          tiff->photometric == TIFF_WHITE_IS_ZERO ? 255 - value
          : tiff->photometric != TIFF_PALETTE
              ? value
              : (uint8_t)(hrn_tiff_value(tiff, &tiff->colours, channel * count + i) >> 8);
    }
    colours[i][3] = 255;
  }
}

/* a * b / 255 rounded, as Pillow's MULDIV255. */
static inline uint32_t multiply_255(uint32_t a, uint32_t b) {
  const uint32_t t = a * b + 128;
  return ((t >> 8) + t) >> 8;
}

/* Pixels [left, left + count) of a row. Alpha is left out, as by Pillow's convert("RGB"). */
static void put_row(const hrn_tiff *tiff, const uint8_t *row, uint32_t left, uint32_t count,
                    uint8_t (*colours)[4], uint8_t *to) {
  for (uint32_t x = left; x < left + count; x++, to += 4) {
    const uint8_t *p = row + (size_t)x * tiff->samples;
    to[3] = 255;
    if (tiff->photometric == TIFF_RGB) {
      memcpy(to, p, 3);
    } else if (tiff->photometric == TIFF_CMYK) {
      const uint32_t light = 255u - p[3];
      for (int c = 0; c < 3; c++) to[c] = (uint8_t)(light - multiply_255(p[c], light));
    } else if (tiff->bits == 8) {
      memcpy(to, colours[*p], 4);
    } else {
      const uint64_t bit = (uint64_t)x * tiff->bits;
      const uint32_t shift = 8 - tiff->bits - (bit & 7);
      memcpy(to, colours[row[bit >> 3] >> shift & ((1u << tiff->bits) - 1)], 4);
    }
  }
}

/* Horizontal differencing (TIFF 6.0, section 14), of 8-bit samples. */
static void undo_predictor(const hrn_tiff *tiff, uint8_t *row, size_t bytes) {
  for (size_t i = tiff->samples; i < bytes; i++) {
    row[i] = (uint8_t)(row[i] + row[i - tiff->samples]);
  }
}

int hrn_tiff_window(hrn_context *context, const hrn_tiff *tiff, const hrn_box *box,
                    hrn_image *image, hrn_status *status) {
  const size_t stride = (size_t)box->width * 4, bytes = row_bytes(tiff);
  const uint32_t top = (uint32_t)box->top, bottom = top + (uint32_t)box->height;
  size_t pixels, strip, total;
  uint8_t colours[256][4];
  if (__builtin_mul_overflow(stride, (size_t)box->height, &pixels) ||
      __builtin_mul_overflow(bytes, (size_t)tiff->rows_per_strip, &strip) ||
      __builtin_add_overflow(pixels, strip, &total)) {
    total = SIZE_MAX; /* refused with its number by the limit */
  }
  uint8_t *to = hrn_scratch(context, HRN_SCRATCH_DECODE, total, status);
  if (to == NULL) return status->code;
  if (tiff->samples == 1 || tiff->photometric == TIFF_BLACK_IS_ZERO) fill_colours(tiff, colours);
  for (uint32_t y = top - top % tiff->rows_per_strip; y < bottom; y += tiff->rows_per_strip) {
    uint32_t rows = tiff->height - y;
    if (rows > tiff->rows_per_strip) rows = tiff->rows_per_strip;
    /* A strip ends where the window does, for its rows come in turn. */
    if (rows > bottom - y) rows = bottom - y;
    if (hrn_tiff_strip(tiff, y / tiff->rows_per_strip, to + pixels, bytes * rows, status) !=
        HRN_OK) {
      return status->code;
    }
    for (uint32_t i = y < top ? top - y : 0; i < rows; i++) {
      uint8_t *row = to + pixels + i * bytes;
      if (tiff->predictor == 2) undo_predictor(tiff, row, bytes);
      put_row(tiff, row, (uint32_t)box->left, (uint32_t)box->width, colours,
              to + (size_t)(y + i - top) * stride);
    }
    if (rows < tiff->rows_per_strip) break; /* `y` might wrap behind the last */
  }
  *image = (hrn_image){to, stride, box->width, box->height};
  return HRN_OK;
}

int hrn_tiff_inspect(hrn_context *context, hrn_tiff *tiff, int depth, hrn_facts *facts,
                     hrn_status *status) {
  uint32_t width, height;
  hrn_image image;
  hrn_tiff_header(context, tiff, &width, &height, status);
  facts->width = tiff->width;
  facts->height = tiff->height;
  facts->channels = (uint8_t)tiff->samples;
  facts->bits = (uint8_t)tiff->bits;
  facts->process = tiff->compression == TIFF_LZW       ? HRN_PROCESS_LZW
                   : tiff->compression == TIFF_DEFLATE ? HRN_PROCESS_DEFLATE
                                                       : HRN_PROCESS_RAW;
  if (status->code != HRN_OK || depth != HRN_ENTROPY) return status->code;
  facts->scans = 1;
  /* A column: of all strips, with little memory for pixels. */
  const hrn_box column = {0, 0, 1, (int32_t)tiff->height};
  return hrn_tiff_window(context, tiff, &column, &image, status);
}
