/* native.h: encoded bytes and parameters in, one finished sample out.
 *
 * The interface of the C code: what stands here and in the headers of the packages below. It knows
 * nothing of Go, files, threads or batches: a caller hands it bytes that are readable for the
 * length of the call and memory that is writable for the size that the plan states.
 *
 * Every function is safe on any input bytes: the answer is a status, never a signal, an
 * overread or an endless loop. A context serves one thread at a time; plans are immutable and
 * shared by all. No function keeps a pointer to its arguments or writes to stdout or stderr. Two
 * call back: hrn_sample and hrn_samples run the program's own function of an op HRN_PIXEL_USER
 * (pixels/user.c), on their own thread and before they return. longjmp (libjpeg's way out) never
 * leaves the C function that called setjmp.
 */
#ifndef HEADRACE_NATIVE_H
#define HEADRACE_NATIVE_H

#include <stddef.h>
#include <stdint.h>

#include "core/crc32c.h"
#include "decode/decode.h"
#include "plan/mix.h"
#include "draws/mixing.h"
#include "plan/plan.h"

/* ---- new files ------------------------------------------------------------------------- */

/* The image encoded anew as a baseline 4:2:0 JPEG (without colour: greyscale), which loses.
 * `shorter` larger than 0 makes the shorter side so long, with Pillow's BILINEAR, where it is
 * longer. Of the metadata only `orientation` (hrn_facts) stays. */
int hrn_reencode(hrn_context *context, const uint8_t *bytes, size_t length, int32_t shorter,
                 int32_t quality, int32_t orientation, hrn_encoded *encoded, hrn_status *status);

/* The image as binary PPM (P6): the pixels that every later decode would give. `shorter` as above,
 * which loses; without it no pixel changes. `orientation` becomes a comment that the inspection of
 * such a file reads. */
int hrn_to_ppm(hrn_context *context, const uint8_t *bytes, size_t length, int32_t shorter,
               int32_t orientation, hrn_encoded *encoded, hrn_status *status);

/* ---- masks ----------------------------------------------------------------------------- */

#define HRN_MASK_FILL_OF_OP (-1) /* what the op fills images with, their first channel */

/* Bytes, one a pixel, rows without gaps; or a file (hrn_decode_mask), of which no more is decoded
 * than is seen in the end. */
typedef struct hrn_mask {
  const uint8_t *pixels; /* NULL: of the file */
  const uint8_t *file;
  size_t length;
  int32_t width, height; /* those of the image that the ops were drawn for */
  int32_t to_width, to_height;
  uint8_t *to;  /* to_width * to_height bytes */
  int32_t fill; /* of paddings and warps; what a crop takes from outside is 0 */
} hrn_mask;

/* Does to a mask what hrn_plan_replay said is done to its image, as torchvision's v2 moves masks:
 * the nearest source, by the rules of its tensors. */
int hrn_move_mask(hrn_context *context, const hrn_drawn *drawn, int32_t count, const hrn_mask *mask,
                  hrn_status *status);

/* ---- the one call ---------------------------------------------------------------------- */

/* One image of a sample: the plan that makes it, and where it goes. */
typedef struct hrn_view {
  const hrn_plan *plan;
  void *destination;
  uint64_t capacity; /* bytes writable there; at least the plan's size, or hrn_unmixed_bytes */
} hrn_view;

/* A sample that is made by MixUp of the one at hand and of one that waits already: row by row,
 * while those are in the cache, as hrn_mix would make it. */
typedef struct hrn_mixup {
  void *destination; /* of hrn_plan_size's bytes; NULL: none */
  const void *other; /* what waits; perhaps the sample itself */
  double lambda;     /* the share of the one that it is made for, */
  int32_t theirs;    /* which is (0) the one at hand or (1) the one that waits */
} hrn_mixup;

typedef struct hrn_job {
  const uint8_t *bytes;
  size_t length;
  hrn_raw raw;         /* what the bytes are without a header; else of 0 channels */
  hrn_key key;         /* of the first view; key.view + k is that of view k */
  uint32_t crc32c;     /* the stored checksum */
  int32_t check_crc;   /* 1: compare it with the bytes first */
  const uint8_t *seek; /* the record's seek points (hrn_inspect_seek), or NULL */
  size_t seek_length;
  uint32_t seek_crc32c;    /* their stored checksum */
  int32_t check_seek_crc;  /* 1: points of another checksum are passed over, not an error */
  uint32_t image_crc32c;   /* of the bytes that the points were found in */
  int32_t check_image_crc; /* 1: points of other bytes are passed over, not an error */
  int32_t learn;           /* 1: points that are not there are noted for hrn_learned */
  int32_t view_count;      /* at least 1 */
  hrn_view views[HRN_MAX_VIEWS];
  /* An unmixed plan's, whose view is the only one: what is finished at once; whether (1) the sample
   * is left at the view's destination to wait for another; and those that are made with it then. */
  hrn_patch patches[2];
  int32_t waits;
  hrn_mixup mixups[2];
} hrn_job;

/* checksum, header, limits, draws, cropped decode, resize, flip, normalise, cast, write. Each view
 * has the bytes that it would have alone; those that want about the same part of the image are cut
 * from one decode. On any status but HRN_OK the destinations' content is undefined, within their
 * capacity. */
int hrn_sample(hrn_context *context, const hrn_job *job, hrn_status *status);

/* ---- many images of an array ------------------------------------------------------------- */

/* What images of a run have in common. */
typedef struct hrn_run {
  const hrn_plan *plan; /* not an unmixed one */
  hrn_raw raw;
  size_t length;     /* bytes of each image */
  uint64_t capacity; /* of each destination */
  hrn_key key;       /* but for sample and draw */
} hrn_run;

typedef struct hrn_run_row {
  const uint8_t *bytes;
  uint64_t sample, draw;
  void *destination;
} hrn_run_row;

/* hrn_sample for each of the rows, with the same bytes as result. *done rows are finished; where
 * that is not `count`, the status is that of the next one. */
int hrn_samples(hrn_context *context, const hrn_run *run, const hrn_run_row *rows, int32_t count,
                int32_t *done, hrn_status *status);

#endif
