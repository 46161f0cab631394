/* tiff.c: makes the pixels of a window of a TIFF, from the strips that it meets. */
#include "tiff.h"

#include <stddef.h>
#include <string.h>

/* Bytes of a row of a plane. Samples side by side are one plane. */
static uint64_t row_bytes(const hrn_tiff *tiff) {
  const uint32_t samples = tiff->planes > 1 ? 1 : tiff->samples;
  return ((uint64_t)tiff->width * samples * tiff->bits + 7) / 8;
}

/* Orientations 5 to 8 change the sides. */
static bool swaps(const hrn_tiff *tiff) { return tiff->orientation >= 5; }

int hrn_tiff_header(hrn_context *context, hrn_tiff *tiff, uint32_t *width, uint32_t *height,
                    hrn_status *status) {
  if (hrn_tiff_read_directory(tiff, context->bytes, context->length, status) != HRN_OK) {
    return status->code;
  }
  *width = swaps(tiff) ? tiff->height : tiff->width;
  *height = swaps(tiff) ? tiff->width : tiff->height;
  return hrn_check_pixels(context, *width, *height, status);
}

/* The colour of each value of a pixel with one sample. A palette has values of 16 bits, first all
 * reds, then all greens, then all blues; Pillow takes their high bytes. */
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

/* A row as stored: where its first plane begins, and how many bytes lie between two planes and
 * between two pixels. */
typedef struct stored {
  const uint8_t *row;
  size_t plane, pixel;
} stored;

/* Makes pixels [left, left + count) of a row, `step` bytes apart. Alpha is dropped, as by Pillow's
 * convert("RGB"). */
static void put_row(const hrn_tiff *tiff, const stored *from, uint32_t left, uint32_t count,
                    uint8_t (*colours)[4], uint8_t *to, ptrdiff_t step) {
  const uint8_t *row = from->row;
  const size_t plane = from->plane;
  for (uint32_t x = left; x < left + count; x++, to += step) {
    const uint8_t *p = row + x * from->pixel;
    to[3] = 255;
    if (tiff->photometric == TIFF_RGB) {
      for (size_t c = 0; c < 3; c++) to[c] = p[c * plane];
    } else if (tiff->photometric == TIFF_CMYK) { /* as Pillow's convert("RGB") of CMYK */
      const uint32_t light = 255u - p[3 * plane];
      for (size_t c = 0; c < 3; c++) {
        to[c] = (uint8_t)(light - multiply_255(p[c * plane], light));
      }
    } else if (tiff->bits == 8) {
      memcpy(to, colours[*p], 4);
    } else { /* less than a byte: the first pixel is in the highest bits */
      const uint64_t bit = (uint64_t)x * tiff->bits;
      const uint32_t shift = 8 - tiff->bits - (bit & 7);
      memcpy(to, colours[row[bit >> 3] >> shift & ((1u << tiff->bits) - 1)], 4);
    }
  }
}

/* Horizontal differencing (TIFF 6.0, section 14), of 8-bit samples. */
static void undo_predictor(uint8_t *row, size_t pixel, size_t bytes) {
  for (size_t i = pixel; i < bytes; i++) row[i] = (uint8_t)(row[i] + row[i - pixel]);
}

/* Where the pixels of a window go: the first one as stored, and how far from it those on its right
 * and below it go. A turned image has negative steps, or the sides exchanged. */
typedef struct target {
  uint8_t *first;
  ptrdiff_t right, down;
} target;

/* For a box of the turned image: finds the part of the stored image that it shows, and where the
 * pixels of that part go. Orientations are those of TIFF 6.0, section 8. */
static target turned(const hrn_tiff *tiff, const hrn_box *box, uint8_t *to, hrn_box *part) {
  const uint32_t o = tiff->orientation;
  const bool mirror_x = o == 2 || o == 3 || o == 7 || o == 8;
  const bool mirror_y = o == 3 || o == 4 || o == 6 || o == 7;
  const ptrdiff_t stride = (ptrdiff_t)box->width * 4;
  target t = {to, 4, stride};
  *part = *box;
  if (swaps(tiff)) {
    *part = (hrn_box){box->top, box->left, box->height, box->width};
    t.right = stride;
    t.down = 4;
  }
  if (mirror_x) {
    part->left = (int32_t)tiff->width - part->left - part->width;
    t.first += t.right * (part->width - 1);
    t.right = -t.right;
  }
  if (mirror_y) {
    part->top = (int32_t)tiff->height - part->top - part->height;
    t.first += t.down * (part->height - 1);
    t.down = -t.down;
  }
  return t;
}

/* Reads the first `rows` rows of a strip, of all planes that are needed, `apart` bytes apart. Rows
 * before `first` may stay as differences. */
static int read_strip(const hrn_tiff *tiff, uint32_t strip, uint32_t first, uint32_t rows,
                      size_t apart, uint8_t *to, hrn_status *status) {
  const size_t bytes = row_bytes(tiff), pixel = tiff->planes > 1 ? 1 : tiff->samples;
  const uint32_t each = (tiff->height - 1) / tiff->rows_per_strip + 1;
  for (uint32_t plane = 0; plane < tiff->planes; plane++, to += apart) {
    if (hrn_tiff_strip(tiff, plane * each + strip, to, bytes * rows, status) != HRN_OK) {
      return status->code;
    }
    for (uint32_t i = first; tiff->predictor == 2 && i < rows; i++) {
      undo_predictor(to + i * bytes, pixel, bytes);
    }
  }
  return HRN_OK;
}

int hrn_tiff_window(hrn_context *context, const hrn_tiff *tiff, const hrn_box *box,
                    hrn_image *image, hrn_status *status) {
  const size_t stride = (size_t)box->width * 4, bytes = row_bytes(tiff);
  size_t pixels, strip = 0, planes, total;
  uint8_t colours[256][4];
  if (__builtin_mul_overflow(stride, (size_t)box->height, &pixels) ||
      __builtin_mul_overflow(bytes, (size_t)tiff->rows_per_strip, &strip) ||
      __builtin_mul_overflow(strip, (size_t)tiff->planes, &planes) ||
      __builtin_add_overflow(pixels, planes, &total)) {
    total = SIZE_MAX; /* refused with its number by the limit */
  }
  uint8_t *to = hrn_scratch(context, HRN_SCRATCH_DECODE, total, status);
  if (to == NULL) return status->code;
  uint8_t *rows_at = to + pixels;
  hrn_box part;
  const target target = turned(tiff, box, to, &part);
  const uint32_t top = (uint32_t)part.top, bottom = top + (uint32_t)part.height;
  if (tiff->samples == 1 || tiff->photometric == TIFF_BLACK_IS_ZERO) fill_colours(tiff, colours);
  for (uint32_t y = top - top % tiff->rows_per_strip; y < bottom; y += tiff->rows_per_strip) {
    uint32_t rows = tiff->height - y;
    if (rows > tiff->rows_per_strip) rows = tiff->rows_per_strip;
    /* A strip is decoded from its beginning, and no further than the window reaches. */
    if (rows > bottom - y) rows = bottom - y;
    const uint32_t first = y < top ? top - y : 0, number = y / tiff->rows_per_strip;
    if (read_strip(tiff, number, first, rows, strip, rows_at, status) != HRN_OK) {
      return status->code;
    }
    for (uint32_t i = first; i < rows; i++) {
      const stored from = {rows_at + i * bytes, tiff->planes > 1 ? strip : 1,
                           tiff->planes > 1 ? 1 : tiff->samples};
      put_row(tiff, &from, (uint32_t)part.left, (uint32_t)part.width, colours,
              target.first + target.down * (ptrdiff_t)(y + i - top), target.right);
    }
    if (rows < tiff->rows_per_strip) break; /* `y` might wrap behind the last */
  }
  *image = (hrn_image){to, stride, box->width, box->height};
  return HRN_OK;
}

int hrn_tiff_inspect(hrn_context *context, hrn_tiff *tiff, int depth, hrn_facts *facts,
                     hrn_status *status) {
  uint32_t width = 0, height = 0;
  hrn_image image;
  hrn_tiff_header(context, tiff, &width, &height, status);
  /* The facts are given as far as they were read, even if the header says "unsupported". */
  facts->width = swaps(tiff) ? tiff->height : tiff->width;
  facts->height = swaps(tiff) ? tiff->width : tiff->height;
  facts->channels = (uint8_t)tiff->samples;
  facts->bits = (uint8_t)tiff->bits;
  facts->process = tiff->compression == TIFF_LZW       ? HRN_PROCESS_LZW
                   : tiff->compression == TIFF_DEFLATE ? HRN_PROCESS_DEFLATE
                                                       : HRN_PROCESS_RAW;
  if (status->code != HRN_OK || depth != HRN_ENTROPY) return status->code;
  facts->scans = 1;
  /* A verdict needs all strips decoded. One column of the stored image does that, with little
   * memory for pixels. */
  const hrn_box column = {0, 0, swaps(tiff) ? (int32_t)width : 1,
                          swaps(tiff) ? 1 : (int32_t)height};
  return hrn_tiff_window(context, tiff, &column, &image, status);
}
