/* png.h: reads a PNG, or a window of it. What the files of this package share. */
#ifndef HEADRACE_PNG_PNG_H
#define HEADRACE_PNG_PNG_H

#include <stdbool.h>
#include <zlib.h>

#include "../core/context.h"
#include "../core/facts.h"
#include "../core/image.h"

/* IHDR's colour types. */
enum { PNG_GREY = 0, PNG_RGB = 2, PNG_PALETTE = 3, PNG_GREY_ALPHA = 4, PNG_RGB_ALPHA = 6 };

/* One PNG: what its chunks before the image data say, and how far its image data has been read. */
typedef struct hrn_png {
  const uint8_t *bytes;
  size_t length;
  uint32_t width, height;
  uint8_t bit_depth, color_type, channels;
  bool interlaced;
  uint8_t palette[256][3];
  uint8_t orientation;
  size_t data; /* offset of the first IDAT chunk */

  z_stream stream;
  bool stream_made; /* inflateInit was called, once for the life of the context */
  bool stream_ended;
  size_t at;       /* offset of the chunk to feed next */
  uint64_t rows;   /* bytes of all rows */
  uint64_t room;   /* bytes of image data that may still be fed */
  bool chunks_end; /* no more IDAT follows */
} hrn_png;

/* chunks.c: the chunks before IDAT; status says what is wrong. */
int hrn_png_read_chunks(hrn_png *png, const uint8_t *bytes, size_t length, hrn_status *status);

/* stream.c: inflates the image data. */
int hrn_png_stream_begin(hrn_png *png, hrn_status *status);
int hrn_png_stream_read(hrn_png *png, uint8_t *to, uint64_t count, hrn_status *status);
uint32_t hrn_png_stream_end(hrn_png *png); /* warnings about what follows the last row */

/* rows.c. Bytes of a row of `width` pixels, without the filter byte. */
uint64_t hrn_png_row_bytes(const hrn_png *png, uint32_t width);
void hrn_png_row(const hrn_png *png, const uint8_t *row, uint32_t left, uint32_t count,
                 uint8_t *rgbx);
void hrn_png_class_row(const hrn_png *png, const uint8_t *row, uint32_t left, uint32_t count,
                       uint8_t *classes);

/* filters.c: undoes the filter of the first `bytes` of a row. And the plain loop that does so, for
 * tests. */
bool hrn_png_unfilter(const hrn_png *png, int filter, uint8_t *row, const uint8_t *above,
                      size_t bytes);
void hrn_png_undo_scalar(int filter, uint8_t *row, const uint8_t *above, size_t bytes, size_t step);

/* Make and free this package's part of a context. hrn_png_new returns false if there is no
 * memory. */
bool hrn_png_new(hrn_context *context);
void hrn_png_free(hrn_context *context);

/* png.c: the size of the record that is in the context, its pixels, and its facts. Classes are for
 * a mask: one byte a pixel, in rows without gaps. The record then has one channel of up to 8
 * bits. */
int hrn_png_header(hrn_context *context, uint32_t *width, uint32_t *height, hrn_status *status);
int hrn_png_window(hrn_context *context, const hrn_box *box, hrn_image *image, hrn_status *status);
int hrn_png_classes(hrn_context *context, const hrn_box *box, uint8_t **found, hrn_status *status);
int hrn_png_inspect(hrn_context *context, int depth, hrn_facts *facts, hrn_status *status);

#endif
