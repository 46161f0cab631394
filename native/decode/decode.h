/* decode.h: the door to the decoders: what a record is, whether it is good, and its pixels. */
#ifndef HEADRACE_DECODE_DECODE_H
#define HEADRACE_DECODE_DECODE_H

#include <stdbool.h>

#include "../core/facts.h"
#include "../core/image.h"

/* One context a thread: decoder state and scratch that grows to the largest image seen, never
 * over max_decoder_bytes. NULL when memory is short. */
hrn_context *hrn_context_new(const hrn_limits *limits);
void hrn_context_free(hrn_context *context);

/* "libjpeg-turbo 2.1.5, zlib 1.2.13"; with the reason behind it where the entropy decoder of this
 * package, and so seek points, cannot be used with that libjpeg. */
const char *hrn_library_versions(void);

/* Reads the header (HRN_HEADER), or also all entropy data once without making pixels
 * (HRN_ENTROPY): then the status is the verdict on the file that every later crop shares. facts
 * is filled as far as was read, also when the status is not HRN_OK. */
int hrn_inspect(hrn_context *context, const uint8_t *bytes, size_t length, int depth,
                hrn_facts *facts, hrn_status *status);

/* hrn_inspect with HRN_ENTROPY that also notes where every `step`-th MCU of each row begins. *seek
 * is then the packed points (seek.h) in the context's memory until its next call, or NULL where
 * there are none: the file is no baseline JPEG, or drew a warning. */
int hrn_inspect_seek(hrn_context *context, const uint8_t *bytes, size_t length, uint32_t step,
                     hrn_facts *facts, const uint8_t **seek, size_t *seek_length,
                     hrn_status *status);

/* A file in the context's memory, until its next call. */
typedef struct hrn_encoded {
  const uint8_t *bytes; /* NULL where none was made */
  size_t length;
} hrn_encoded;

/* A progressive or arithmetic-coded JPEG as baseline: the same coefficients, so the same pixels,
 * and the same APPn and COM markers. HRN_OK without bytes where the file is better left alone: of
 * another kind, baseline already, incomplete or with warnings. On an error it is, too. */
int hrn_to_baseline(hrn_context *context, const uint8_t *bytes, size_t length, hrn_encoded *encoded,
                    hrn_status *status);

/* The comment by which hrn_to_ppm keeps an orientation in a PPM. */
#define HRN_PPM_ORIENTATION " orientation "

/* ---- pixels ---------------------------------------------------------------------------- */

/* Reads the header of whatever the bytes are and checks the limits; leaves the context ready for
 * hrn_decode_window on the same bytes. */
int hrn_decode_header(hrn_context *context, const uint8_t *bytes, size_t length, uint32_t *width,
                      uint32_t *height, hrn_status *status);

/* An image of an array: where in a record the values of its pixels lie. Value c of pixel (y, x) is
 * at origin + y * row + x * pixel + c * channel; steps may be negative, or 0. */
typedef struct hrn_raw {
  uint32_t width, height;
  uint32_t channels; /* 1, which is red, green and blue; 3; or 4, whose last is left out, as
                      * Pillow's convert("RGB") does */
  int64_t origin, row, pixel, channel;
} hrn_raw;

/* The same as hrn_decode_header for a record without a header. HRN_INTERNAL where a value would lie
 * outside of the record: a caller that was told of an array has checked all of it. */
int hrn_decode_raw(hrn_context *context, const uint8_t *bytes, size_t length, const hrn_raw *raw,
                   hrn_status *status);

/* After hrn_decode_header: the seek points of the same record (hrn_job.seek), for the windows that
 * follow. */
void hrn_decode_seek(hrn_context *context, const uint8_t *seek, size_t length);

/* After hrn_decode_header, of a record without seek points, or with those of its first rows: they
 * are to be noted while its windows are decoded (hrn_learned). */
void hrn_decode_learn(hrn_context *context);

/* The seek points that were noted of the record last decoded, as hrn_inspect_seek finds them, or
 * those of its first rows; in the context's memory until its next call. NULL and 0 of a record that
 * can have none, for it is not clean to its end. False where nothing was found out: the record is
 * no baseline JPEG, or was decoded by points. *crc32c is of the record's bytes, which must still be
 * readable. */
bool hrn_learned(hrn_context *context, const uint8_t **seek, size_t *length, uint32_t *crc32c);

/* After hrn_decode_header, for HRN_FAST: windows that follow need not be exact, and are of an image
 * whose sides are 1/denominator (1, 2, 4, 8) of the header's, rounded up; each of its pixels is
 * about the mean of denominator x denominator. Answers with the denominator that is had: 1 where
 * the file knows no other. */
int32_t hrn_decode_fast(hrn_context *context, int32_t denominator);

/* After hrn_decode_header, for Pillow's draft: windows that follow are of an image whose sides are
 * 1/denominator (1, 2, 4, 8) of the header's, rounded up, as libjpeg makes it for Pillow; with
 * `grey` of its luminance alone, in all three channels. HRN_UNSUPPORTED of what is no JPEG, or is
 * not of such colours. */
int hrn_decode_draft(hrn_context *context, int32_t denominator, bool grey, hrn_status *status);

/* Takes hrn_decode_fast and hrn_decode_draft back, for a view that follows one. */
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

/* ---- masks ----------------------------------------------------------------------------- */

/* Opens a PNG of one channel of up to 8 bits, or with a palette, as the mask of an image of that
 * size; HRN_BAD of another size, HRN_UNSUPPORTED of another kind. */
int hrn_decode_mask(hrn_context *context, const uint8_t *bytes, size_t length, int32_t width,
                    int32_t height, hrn_status *status);

/* After hrn_decode_mask: a byte for each pixel of `box` (inside the mask, not empty), rows without
 * gaps: indices of the palette, or greys as Pillow's mode L has them. No row below the box is
 * read. *classes are in the context's scratch (HRN_SCRATCH_DECODE). */
int hrn_decode_classes(hrn_context *context, const hrn_box *box, uint8_t **classes,
                       hrn_status *status);

#endif
