/* decode.h: the entry to the decoders: what a record is, whether it is good, and its pixels. */
#ifndef HEADRACE_DECODE_DECODE_H
#define HEADRACE_DECODE_DECODE_H

#include <stdbool.h>

#include "../core/facts.h"
#include "../core/image.h"

/* One context a thread: decoder state, and scratch memory that grows to what the largest image
 * needed, but never over max_decoder_bytes. NULL if memory is short. */
hrn_context *hrn_context_new(const hrn_limits *limits);
void hrn_context_free(hrn_context *context);

/* For example "libjpeg-turbo 2.1.5, zlib 1.2.13". If this package's entropy decoder, and so seek
 * points, cannot be used with that libjpeg, the reason follows. */
const char *hrn_library_versions(void);

/* Reads the header (HRN_HEADER), or also all entropy data once without making pixels (HRN_ENTROPY).
 * The status of the latter is the verdict on the file, whatever crop is read later. facts is filled
 * as far as the file was read, also if the status is not HRN_OK. */
int hrn_inspect(hrn_context *context, const uint8_t *bytes, size_t length, int depth,
                hrn_facts *facts, hrn_status *status);

/* hrn_inspect with HRN_ENTROPY that also notes where every `step`-th MCU of each row begins. *seek
 * is then the packed points (seek.h) in the context's memory until its next call. It is NULL if
 * there are none, because the file is no baseline JPEG or drew a warning. */
int hrn_inspect_seek(hrn_context *context, const uint8_t *bytes, size_t length, uint32_t step,
                     hrn_facts *facts, const uint8_t **seek, size_t *seek_length,
                     hrn_status *status);

/* A file in the context's memory. It is there until the context's next call. */
typedef struct hrn_encoded {
  const uint8_t *bytes; /* NULL if none was made */
  size_t length;
} hrn_encoded;

/* Rewrites a progressive or arithmetic-coded JPEG as baseline, with the same coefficients, so the
 * same pixels, and the same APPn and COM markers. HRN_OK without bytes means that the file should
 * stay as it is: it is of another kind, baseline already, incomplete, or has warnings. After an
 * error it should stay as well. */
int hrn_to_baseline(hrn_context *context, const uint8_t *bytes, size_t length, hrn_encoded *encoded,
                    hrn_status *status);

/* The comment in which hrn_to_ppm keeps an orientation in a PPM. */
#define HRN_PPM_ORIENTATION " orientation "

/* ---- pixels ---------------------------------------------------------------------------- */

/* Reads the header of whatever the bytes are and checks the limits; leaves the context ready for
 * hrn_decode_window on the same bytes. */
int hrn_decode_header(hrn_context *context, const uint8_t *bytes, size_t length, uint32_t *width,
                      uint32_t *height, hrn_status *status);

/* An image of an array: where in a record the values of its pixels are. Value c of pixel (y, x) is
 * at origin + y * row + x * pixel + c * channel. Steps may be negative, or 0. */
typedef struct hrn_raw {
  uint32_t width, height;
  uint32_t channels; /* 1, which is red, green and blue; 3; or 4, whose last one is left out as by
                        Pillow's convert("RGB") */
  int64_t origin, row, pixel, channel;
} hrn_raw;

/* Like hrn_decode_header, for a record without a header. HRN_INTERNAL if a value would be outside
 * of the record, because the caller should have checked the whole array. */
int hrn_decode_raw(hrn_context *context, const uint8_t *bytes, size_t length, const hrn_raw *raw,
                   hrn_status *status);

/* Call after hrn_decode_header. Gives the seek points of the same record (hrn_job.seek) to the
 * windows that follow. */
void hrn_decode_seek(hrn_context *context, const uint8_t *seek, size_t length);

/* Call after hrn_decode_header, for a record without seek points or with those of its first rows.
 * Points are then noted while its windows are decoded (hrn_learned). */
void hrn_decode_learn(hrn_context *context);

/* The seek points that were noted for the record that was decoded last, or those of its first rows,
 * as hrn_inspect_seek finds them. They are in the context's memory until its next call. NULL and 0
 * if the record can have none, because it is not clean to its end. False if nothing was found out:
 * the record is no baseline JPEG, or was decoded with points. *crc32c is that of the record's
 * bytes, which must still be readable. */
bool hrn_learned(hrn_context *context, const uint8_t **seek, size_t *length, uint32_t *crc32c);

/* Call after hrn_decode_header, for HRN_FAST. The windows that follow need not be exact. They are
 * of an image whose sides are 1/denominator (1, 2, 4, 8) of the header's, rounded up. Each of its
 * pixels is about the mean of denominator x denominator pixels. Returns the denominator that is
 * used: 1 if the file cannot be decoded at another. */
int32_t hrn_decode_fast(hrn_context *context, int32_t denominator);

/* Call after hrn_decode_header, for Pillow's draft. The windows that follow are of an image whose
 * sides are 1/denominator (1, 2, 4, 8) of the header's, rounded up, as libjpeg makes it for Pillow.
 * With `grey` it is the luminance alone, in all three channels. HRN_UNSUPPORTED if the file is no
 * JPEG, or its colours allow no such draft. */
int hrn_decode_draft(hrn_context *context, int32_t denominator, bool grey, hrn_status *status);

/* Undoes hrn_decode_fast and hrn_decode_draft, for a view that follows one of those. */
void hrn_decode_exact(hrn_context *context);

/* The size of the image whose header was read. */
void hrn_decode_size(const hrn_context *context, uint32_t *width, uint32_t *height);

/* About how long hrn_decode_window would take for a window at that scale, in nanoseconds. Infinity
 * if the window should not be in memory beside another. */
double hrn_decode_cost(const hrn_context *context, const hrn_box *box, int32_t denominator);

/* Call after hrn_decode_header. Decodes the pixels of `box` (inside the image, not empty) exactly
 * as a full decode followed by Pillow's convert("RGB") would, or as hrn_decode_fast says. *image
 * points into the context's scratch (HRN_SCRATCH_DECODE) until the next call. */
int hrn_decode_window(hrn_context *context, const hrn_box *box, hrn_image *image,
                      hrn_status *status);

/* The same pixels, a few rows at a time: at least `at_once` of them are in memory together. After
 * the last row that is wanted, hrn_decode_settle gives the verdict on the bytes. If it sets *again,
 * the bytes turned out not to be what they seemed. The rows then begin once more, and only those of
 * the second time count. */
int hrn_decode_rows(hrn_context *context, const hrn_box *box, int32_t at_once, hrn_rows *rows,
                    hrn_status *status);
int hrn_decode_settle(hrn_rows *rows, int *again, hrn_status *status);

/* ---- masks ----------------------------------------------------------------------------- */

/* Opens a PNG of one channel of up to 8 bits, or with a palette, as the mask of an image of that
 * size. HRN_BAD if the size differs, HRN_UNSUPPORTED if the kind does. */
int hrn_decode_mask(hrn_context *context, const uint8_t *bytes, size_t length, int32_t width,
                    int32_t height, hrn_status *status);

/* Call after hrn_decode_mask. Gives a byte for each pixel of `box` (inside the mask, not empty), in
 * rows without gaps: indices of the palette, or greys as Pillow's mode L has them. No row below the
 * box is read. *classes are in the context's scratch (HRN_SCRATCH_DECODE). */
int hrn_decode_classes(hrn_context *context, const hrn_box *box, uint8_t **classes,
                       hrn_status *status);

#endif
