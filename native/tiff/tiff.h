/* tiff.h: reads the first image of a TIFF of up to 8 bits a sample, in strips, or a window of
 * it. */
#ifndef HEADRACE_TIFF_TIFF_H
#define HEADRACE_TIFF_TIFF_H

#include <stdbool.h>

#include "../core/context.h"
#include "../core/facts.h"
#include "../core/image.h"

/* An array in the file: a field's values, of 2 or 4 bytes each. */
typedef struct hrn_tiff_values {
  const uint8_t *at;
  uint32_t count, bytes;
} hrn_tiff_values;

/* What the first directory says of its image. */
typedef struct hrn_tiff {
  bool big;               /* the file is big-endian */
  bool reversed;          /* the lowest bit of a byte comes first */
  uint32_t width, height; /* as stored, before the image is turned */
  uint32_t rows_per_strip;
  uint32_t compression, photometric, predictor;
  uint32_t bits, samples; /* bits of a sample; samples of a pixel */
  uint32_t planes;        /* planes that are read for a row: 1, or one for each colour and alpha */
  uint32_t orientation;   /* 1 to 8, as in EXIF; Pillow turns the image by it */
  hrn_tiff_values offsets, lengths, colours;
  const uint8_t *bytes; /* bytes of the whole file */
  size_t length;
} hrn_tiff;

enum { TIFF_RAW = 1, TIFF_LZW = 5, TIFF_DEFLATE = 8, TIFF_OLD_DEFLATE = 32946 };
enum {
  TIFF_WHITE_IS_ZERO = 0,
  TIFF_BLACK_IS_ZERO = 1,
  TIFF_RGB = 2,
  TIFF_PALETTE = 3,
  TIFF_CMYK = 5
};

/* directory.c: fills `tiff`, or fails and names what is not read. */
int hrn_tiff_read_directory(hrn_tiff *tiff, const uint8_t *bytes, size_t length,
                            hrn_status *status);
uint32_t hrn_tiff_value(const hrn_tiff *tiff, const hrn_tiff_values *values, uint32_t number);

/* strip.c: decodes the first `size` bytes of a strip. The predictor is not undone. */
int hrn_tiff_strip(const hrn_tiff *tiff, uint32_t strip, uint8_t *to, size_t size,
                   hrn_status *status);

/* The size of the record that is in the context, its pixels, and its facts. The first function
 * fills `tiff`. */
int hrn_tiff_header(hrn_context *context, hrn_tiff *tiff, uint32_t *width, uint32_t *height,
                    hrn_status *status);
int hrn_tiff_window(hrn_context *context, const hrn_tiff *tiff, const hrn_box *box,
                    hrn_image *image, hrn_status *status);
int hrn_tiff_inspect(hrn_context *context, hrn_tiff *tiff, int depth, hrn_facts *facts,
                     hrn_status *status);

#endif
