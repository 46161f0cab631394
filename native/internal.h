/* internal.h: what the stages of this package tell each other.
 *
 * Pixels between stages are RGBX: 4 bytes a pixel, the fourth undefined. libjpeg-turbo writes
 * it with SIMD, and a whole pixel is one 32-bit lane for the resizer.
 */
#ifndef HEADRACE_NATIVE_INTERNAL_H
#define HEADRACE_NATIVE_INTERNAL_H

#include "native.h"

/* Readable (and ignored) bytes that every internal pixel row buffer has after its last byte,
 * so that SIMD loads may run over the end of the last row. */
#define HRN_ROW_PADDING 64

typedef struct hrn_box {
  int32_t left, top, width, height;
} hrn_box;

/* A view of RGBX pixels; stride in bytes. */
typedef struct hrn_image {
  uint8_t *pixels;
  size_t stride;
  int32_t width, height;
} hrn_image;

/* The next `count` rows of a window to `first`, `stride` bytes apart. */
typedef int hrn_rows_reader(hrn_context *context, uint8_t *first, size_t stride, uint32_t count,
                            hrn_status *status);

/* An image whose rows come from the top down while somebody goes over them: a crop of a photograph
 * is megabytes, the rows that a pass works on stay in the nearest cache. Rows [first, ready) are
 * there, row y at image.pixels + (y - first) * stride. */
typedef struct hrn_rows {
  hrn_image image;
  int32_t first, ready;
  int32_t at_once;     /* rows that there is room for */
  hrn_box box;         /* the window of the encoded image, where `source` is not NULL */
  hrn_context *source; /* where what is missing comes from; NULL: nothing ever is */
  hrn_rows_reader *read;
} hrn_rows;

/* Scratch: a few named growable buffers a context owns; each reused from sample to sample,
 * 64-byte aligned, HRN_ROW_PADDING bytes past the asked size. Counted against
 * max_decoder_bytes. NULL with HRN_LIMIT or HRN_MEMORY in status. Content is not kept. */
enum hrn_scratch_name {
  HRN_SCRATCH_DECODE = 0,
  HRN_SCRATCH_MIDDLE,
  HRN_SCRATCH_IMAGE_A,
  HRN_SCRATCH_IMAGE_B,
  HRN_SCRATCH_COEFFICIENTS,
  HRN_SCRATCH_ROWS,
  HRN_SCRATCH_REGION,
  HRN_SCRATCH_MAPS,
  HRN_SCRATCH_BLOCKS,
  HRN_SCRATCH_UNSTUFFED,
  HRN_SCRATCH_PLANES,
  HRN_SCRATCH_SEEK,
  HRN_SCRATCH_FILTER,
  HRN_SCRATCH_PIXELS_A,
  HRN_SCRATCH_PIXELS_B,
  HRN_SCRATCH_MIX,
  HRN_SCRATCH_COUNT
};
void *hrn_scratch(hrn_context *context, enum hrn_scratch_name name, size_t bytes,
                  hrn_status *status);

/* After a sample: gives back what is too large to be held for nothing. */
void hrn_scratch_end(hrn_context *context);

/* ---- decode (decode.c joins jpeg.c, png.c and ppm.c) -------------------------------------------
 */

/* Reads the header of whatever the bytes are and checks the limits; leaves the context ready for
 * hrn_decode_window on the same bytes. */
int hrn_decode_header(hrn_context *context, const uint8_t *bytes, size_t length, uint32_t *width,
                      uint32_t *height, hrn_status *status);

/* After hrn_decode_header: the seek points of the same record (hrn_job.seek), for the windows that
 * follow. */
void hrn_decode_seek(hrn_context *context, const uint8_t *seek, size_t length);

/* After hrn_decode_header, for HRN_FAST: windows that follow need not be exact, and are of an image
 * whose sides are 1/denominator (1, 2, 4, 8) of the header's, rounded up; each of its pixels is
 * about the mean of denominator x denominator. Answers with the denominator that is had: 1 where
 * the file knows no other. */
int32_t hrn_decode_fast(hrn_context *context, int32_t denominator);

/* Takes hrn_decode_fast back, for a view that follows one. */
void hrn_decode_exact(hrn_context *context);

/* The size of the image whose header was read. */
void hrn_decode_size(const hrn_context *context, uint32_t *width, uint32_t *height);

/* About how long hrn_decode_window would take for a window at that scale, in nanoseconds; infinity
 * where the window should not be held in memory beside another. */
double hrn_decode_cost(const hrn_context *context, const hrn_box *box, int32_t denominator);

/* After hrn_decode_header: the pixels of `box` (inside the image, not empty) exactly as a full
 * decode followed by Pillow's convert("RGB") would give them, or as hrn_decode_fast says. *image
 * points into the context's scratch (HRN_SCRATCH_DECODE) until the next call. */
int hrn_decode_window(hrn_context *context, const hrn_box *box, hrn_image *image,
                      hrn_status *status);

/* The same pixels a few rows at a time: at least `at_once` of them lie in memory together. When all
 * that is wanted was seen, hrn_decode_settle tells what the bytes were worth. Where it answers
 * `again`, they were not what they seemed on the way: the rows begin once more, and only those of
 * the second time count. */
int hrn_decode_rows(hrn_context *context, const hrn_box *box, int32_t at_once, hrn_rows *rows,
                    hrn_status *status);
int hrn_decode_settle(hrn_rows *rows, int *again, hrn_status *status);

/* Rows that a pass which takes them in order has in memory: enough that a call of the decoder is
 * worth its while, few enough to stay in the nearer caches with everything else. */
enum { HRN_STRIP_ROWS = 32 };

/* rows.c. An image that is there whole. */
hrn_rows hrn_rows_of(const hrn_image *image);

/* Makes rows [from, to) be there, at most at_once of them; those before `from` are given up. */
int hrn_rows_need(hrn_rows *rows, int32_t from, int32_t to, hrn_status *status);

static inline const uint8_t *hrn_row(const hrn_rows *rows, int32_t y) {
  return rows->image.pixels + (size_t)(y - rows->first) * rows->image.stride;
}

/* ---- status ---------------------------------------------------------------------------- */
int hrn_fail(hrn_status *status, int code, int64_t offset, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static inline void hrn_status_clear(hrn_status *s) {
  s->code = HRN_OK;
  s->warnings = 0;
  s->offset = -1;
  s->text[0] = 0;
}

#endif
