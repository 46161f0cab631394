/* image.h: pixels between stages, whole or a few rows at a time.
 *
 * They are RGBX: 4 bytes a pixel, the fourth undefined. libjpeg-turbo writes it with SIMD, and a
 * whole pixel is one 32-bit lane for the resizer.
 */
#ifndef HEADRACE_CORE_IMAGE_H
#define HEADRACE_CORE_IMAGE_H

#include "memory.h"

typedef struct hrn_box {
  int32_t left, top, width, height;
} hrn_box;

/* A view of RGBX pixels; stride in bytes. */
typedef struct hrn_image {
  uint8_t *pixels;
  size_t stride;
  int32_t width, height;
} hrn_image;

enum hrn_filter { /* Pillow's names; values to HRN_HAMMING are Pillow's Image.Resampling */
                  HRN_NEAREST = 0,
                  HRN_LANCZOS = 1,
                  HRN_BILINEAR = 2,
                  HRN_BICUBIC = 3,
                  HRN_BOX = 4,
                  HRN_HAMMING = 5,
                  /* as torch resizes tensors of bytes, antialiased */
                  HRN_TENSOR_BILINEAR = 6,
                  HRN_TENSOR_BICUBIC = 7
};

/* Writes the next `count` rows of a window to `first`, `stride` bytes apart. */
typedef int hrn_rows_reader(hrn_context *context, uint8_t *first, size_t stride, uint32_t count,
                            hrn_status *status);

/* An image whose rows come from the top down, while somebody goes over them. A crop of a photograph
 * has megabytes, but the rows that a pass works on stay in the nearest cache. Rows [first, ready)
 * are in memory; row y is at image.pixels + (y - first) * stride. */
typedef struct hrn_rows {
  hrn_image image;
  int32_t first, ready;
  int32_t at_once;     /* how many rows there is room for */
  hrn_box box;         /* the window of the encoded image, if `source` is not NULL */
  hrn_context *source; /* where missing rows come from; NULL: no row is ever missing */
  hrn_rows_reader *read;
} hrn_rows;

/* How many rows a pass that takes them in order has in memory: enough to make a call of the decoder
 * worthwhile, and few enough to stay in the nearer caches with everything else. */
enum { HRN_STRIP_ROWS = 32 };

/* Makes the rows of an image that is in memory as a whole. */
hrn_rows hrn_rows_of(const hrn_image *image);

/* Brings rows [from, to) into memory, at most at_once of them. Rows before `from` are given up. */
int hrn_rows_need(hrn_rows *rows, int32_t from, int32_t to, hrn_status *status);

static inline const uint8_t *hrn_row(const hrn_rows *rows, int32_t y) {
  return rows->image.pixels + (size_t)(y - rows->first) * rows->image.stride;
}

#endif
