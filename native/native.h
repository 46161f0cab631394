/* native.h: turns encoded bytes and parameters into one finished sample.
 *
 * The interface of the C code is what is declared here and in the headers of the packages below. It
 * knows nothing of Go, files, threads or batches. A caller gives it bytes that are readable for the
 * length of the call, and memory that is writable for the size that the plan states.
 *
 * Every function is safe on any input bytes: the answer is a status, never a signal, an overread or
 * an endless loop. A context serves one thread at a time; plans are immutable and may be shared by
 * all threads. No function keeps a pointer to its arguments or writes to stdout or stderr. Two
 * functions call back: hrn_sample and hrn_samples run the program's own function of an op
 * HRN_PIXEL_USER (pixels/user.c), on their own thread and before they return. longjmp (libjpeg's
 * way out) never leaves the C function that called setjmp.
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

/* Encodes the image anew as a baseline 4:2:0 JPEG, or as greyscale if it has no colour. This loses
 * quality. If `shorter` is larger than 0 and the image's shorter side is longer than that, Pillow's
 * BILINEAR reduces it to that length. Of the metadata only `orientation` (hrn_facts) stays. */
int hrn_reencode(hrn_context *context, const uint8_t *bytes, size_t length, int32_t shorter,
                 int32_t quality, int32_t orientation, hrn_encoded *encoded, hrn_status *status);

/* Writes the image as binary PPM (P6): the pixels that every later decode would give. `shorter` is
 * as above and loses pixels; without it no pixel changes. `orientation` becomes a comment that the
 * inspection of such a file reads. */
int hrn_to_ppm(hrn_context *context, const uint8_t *bytes, size_t length, int32_t shorter,
               int32_t orientation, hrn_encoded *encoded, hrn_status *status);

/* ---- masks ----------------------------------------------------------------------------- */

#define HRN_MASK_FILL_OF_OP (-1) /* what the op fills the first channel of images with */

/* A mask: bytes, one a pixel, in rows without gaps; or a file (hrn_decode_mask), of which only what
 * is shown in the end is decoded. */
typedef struct hrn_mask {
  const uint8_t *pixels; /* NULL: the mask is in `file` */
  const uint8_t *file;
  size_t length;
  int32_t width, height; /* size of the image that the ops were drawn for */
  int32_t to_width, to_height;
  uint8_t *to;  /* to_width * to_height bytes */
  int32_t fill; /* shown by paddings and warps; what a crop takes from outside is 0 */
} hrn_mask;

/* Does to a mask what hrn_plan_replay said is done to its image, as torchvision's v2 moves masks:
 * each pixel shows the nearest source, by the rules of its tensors. */
int hrn_move_mask(hrn_context *context, const hrn_drawn *drawn, int32_t count, const hrn_mask *mask,
                  hrn_status *status);

/* ---- the one call ---------------------------------------------------------------------- */

/* One image of a sample: the plan that makes it, and where it goes. */
typedef struct hrn_view {
  const hrn_plan *plan;
  void *destination;
  uint64_t capacity; /* writable bytes there: at least the plan's size, or hrn_unmixed_bytes */
} hrn_view;

/* A sample that MixUp makes of the sample at hand and of one that already waits. It is made row by
 * row, while the rows are in the cache, with the result of hrn_mix. */
typedef struct hrn_mixup {
  void *destination; /* of hrn_plan_size's bytes; NULL: no sample is made */
  const void *other; /* the sample that waits; may be the sample at hand itself */
  double lambda;     /* the share of the sample that it is made for, */
  int32_t theirs;    /* which is the sample at hand (0) or the one that waits (1) */
} hrn_mixup;

typedef struct hrn_job {
  const uint8_t *bytes;
  size_t length;
  hrn_raw raw;         /* what the bytes are if they have no header; else it has 0 channels */
  hrn_key key;         /* key of the first view; view k has key.view + k */
  uint32_t crc32c;     /* the stored checksum */
  int32_t check_crc;   /* 1: compare it with the bytes first */
  const uint8_t *seek; /* the record's seek points (hrn_inspect_seek), or NULL */
  size_t seek_length;
  uint32_t seek_crc32c;    /* their stored checksum */
  int32_t check_seek_crc;  /* 1: points with another checksum are ignored, which is no error */
  uint32_t image_crc32c;   /* checksum of the bytes that the points were found in */
  int32_t check_image_crc; /* 1: points of other bytes are ignored, which is no error */
  int32_t learn;           /* 1: missing points are noted for hrn_learned */
  int32_t view_count;      /* at least 1 */
  hrn_view views[HRN_MAX_VIEWS];
  /* For an unmixed plan, whose view is the only one: what is finished at once; whether (1) the
   * sample stays at the view's destination to wait for another one; and the samples that are made
   * with it then. */
  hrn_patch patches[2];
  int32_t waits;
  hrn_mixup mixups[2];
} hrn_job;

/* Does everything: checksum, header, limits, draws, cropped decode, resize, flip, normalise, cast,
 * write. Each view has the bytes that it would have alone. Views that need about the same part of
 * the image are cut from one decode. On any status but HRN_OK the content of the destinations,
 * within their capacity, is undefined. */
int hrn_sample(hrn_context *context, const hrn_job *job, hrn_status *status);

/* ---- many images of an array ------------------------------------------------------------- */

/* What the images of a run have in common. */
typedef struct hrn_run {
  const hrn_plan *plan; /* not an unmixed one */
  hrn_raw raw;
  size_t length;     /* length of each image in bytes */
  uint64_t capacity; /* writable bytes at each destination */
  hrn_key key;       /* without sample and draw, which each row has */
} hrn_run;

typedef struct hrn_run_row {
  const uint8_t *bytes;
  uint64_t sample, draw;
  void *destination;
} hrn_run_row;

/* Does hrn_sample for each of the rows, with the same bytes as result. *done is the number of rows
 * that are finished. If that is not `count`, the status is that of the next row. */
int hrn_samples(hrn_context *context, const hrn_run *run, const hrn_run_row *rows, int32_t count,
                int32_t *done, hrn_status *status);

#endif
