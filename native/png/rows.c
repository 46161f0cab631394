/* rows.c: turns the samples of a PNG's row into RGBX, or into the classes of a mask.
 *
 * Samples become RGB as by Pillow's open() and convert("RGB"). Alpha and transparent colours are
 * dropped, never blended. 16-bit samples of colour, and of grey with alpha, lose their low byte.
 * 16-bit grey alone is Pillow's mode I;16, whose conversion clips: everything above 255 is
 * white. */
#include <string.h>

#include "png.h"

uint64_t hrn_png_row_bytes(const hrn_png *png, uint32_t width) {
  return ((uint64_t)width * png->channels * png->bit_depth + 7) / 8;
}

/* ---- samples ---- */

static inline void put(uint8_t *rgbx, uint8_t r, uint8_t g, uint8_t b) {
  rgbx[0] = r;
  rgbx[1] = g;
  rgbx[2] = b;
  rgbx[3] = 255;
}

/* Sample number x of a row of 1, 2, 4 or 8 bits, the first in the highest bits. */
static inline uint32_t sample(const uint8_t *row, uint32_t x, uint32_t depth) {
  uint64_t bit = (uint64_t)x * depth;
  return row[bit >> 3] >> (8 - depth - (bit & 7)) & ((1u << depth) - 1);
}

/* 255, 85, 17 and 1: these factors spread samples over 0..255 without rounding. */
static uint32_t grey_scale(uint32_t depth) { return 255u / ((1u << depth) - 1); }

static void grey_row(const uint8_t *row, uint32_t left, uint32_t count, uint32_t depth,
                     uint8_t *rgbx) {
  const uint32_t scale = grey_scale(depth);
  for (uint32_t x = 0; x < count; x++) {
    uint8_t value = (uint8_t)(sample(row, left + x, depth) * scale);
    put(rgbx + (size_t)4 * x, value, value, value);
  }
}

static void palette_row(const hrn_png *png, const uint8_t *row, uint32_t left, uint32_t count,
                        uint8_t *rgbx) {
  for (uint32_t x = 0; x < count; x++) {
    const uint8_t *entry = png->palette[sample(row, left + x, png->bit_depth)];
    put(rgbx + (size_t)4 * x, entry[0], entry[1], entry[2]);
  }
}

static void grey16_row(const uint8_t *row, uint32_t count, uint8_t *rgbx) {
  for (uint32_t x = 0; x < count; x++, row += 2) {
    uint8_t value = row[0] == 0 ? row[1] : 255;
    put(rgbx + (size_t)4 * x, value, value, value);
  }
}

/* For samples of whole bytes: green and blue are `green` and `blue` bytes behind red, 0 for
 * grey. */
static inline __attribute__((always_inline)) void whole_row(const uint8_t *row, uint32_t count,
                                                            size_t pixel, size_t green, size_t blue,
                                                            uint8_t *rgbx) {
  for (uint32_t x = 0; x < count; x++, row += pixel) {
    put(rgbx + (size_t)4 * x, row[0], row[green], row[blue]);
  }
}

/* Makes pixels [left, left + count) of a row. */
void hrn_png_row(const hrn_png *png, const uint8_t *row, uint32_t left, uint32_t count,
                 uint8_t *rgbx) {
  size_t bytes = png->bit_depth == 16 ? 2 : 1, pixel = png->channels * bytes;
  const uint8_t *first = row + left * pixel;
  if (png->color_type == PNG_PALETTE) {
    palette_row(png, row, left, count, rgbx);
  } else if (png->color_type == PNG_GREY && bytes == 1) {
    grey_row(row, left, count, png->bit_depth, rgbx);
  } else if (png->color_type == PNG_GREY) {
    grey16_row(first, count, rgbx);
  } else if (png->color_type == PNG_GREY_ALPHA) {
    whole_row(first, count, pixel, 0, 0, rgbx);
  } else if (pixel == 3) {
    whole_row(first, count, 3, 1, 2, rgbx);
  } else if (pixel == 4) {
    whole_row(first, count, 4, 1, 2, rgbx);
  } else {
    whole_row(first, count, pixel, bytes, 2 * bytes, rgbx);
  }
}

/* The same for a mask. Its classes are a palette's indices, or greys as in Pillow's mode L. */
void hrn_png_class_row(const hrn_png *png, const uint8_t *row, uint32_t left, uint32_t count,
                       uint8_t *classes) {
  const uint32_t depth = png->bit_depth;
  if (depth == 8) {
    memcpy(classes, row + left, count);
    return;
  }
  const uint32_t scale = png->color_type == PNG_PALETTE ? 1 : grey_scale(depth);
  for (uint32_t x = 0; x < count; x++) {
    classes[x] = (uint8_t)(sample(row, left + x, depth) * scale);
  }
}
