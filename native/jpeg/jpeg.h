/* jpeg.h: what the files that read and write JPEGs share. */
#ifndef HEADRACE_JPEG_JPEG_H
#define HEADRACE_JPEG_JPEG_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h> /* jpeglib.h needs FILE and size_t and does not include them */

#include <jpeglib.h>

#include "../core/context.h"
#include "encoder.h"
#include "entropy.h"
#include "../core/facts.h"
#include "../core/image.h"

/* libjpeg's state for one image. The struct lives in the context, so values that change between
 * setjmp and longjmp are in memory. Locals could be in registers, and would be undefined after the
 * jump. */
typedef struct hrn_jpeg {
  struct jpeg_decompress_struct info;
  struct jpeg_error_mgr errors;
  struct jpeg_source_mgr source;
  struct jpeg_progress_mgr progress;
  jmp_buf escape; /* where error_exit goes; set by the function that called libjpeg */
  const uint8_t *bytes;
  size_t length;
  hrn_status *status; /* of the call in progress */
  uint64_t max_bytes, max_scan_blocks;
  uint64_t scan_blocks; /* blocks of the scans up to number `scan_counted` */
  uint32_t max_scans, scan_counted;
  uint32_t warnings;
  uint32_t scans;        /* scans that had begun when the struct was closed */
  uint32_t dry_row;      /* row of MCUs that was being read when the bytes ran out */
  struct hrn_hook *hook; /* kept_hook while it replaces libjpeg's entropy decoder, else NULL */
  uint32_t margin;       /* bytes of a decoded row before the window's first pixel */
  bool own_pixels;       /* planes.c makes the rows, from the hook's coefficients */
  bool ran_dry;          /* libjpeg asked for bytes after the last one */
  bool truncated;        /* the bytes ran out before the entropy decoder was done */
  bool created;          /* info holds memory */
  bool lossless;         /* the file has samples and no coefficients (T.81, annex H) */
  /* State of the record in progress. */
  uint32_t denominator; /* windows are decoded at 1/denominator; 1 unless fast or a draft */
  bool drafts;          /* Pillow's draft mode: at that scale every pixel equals Pillow's */
  bool grey;            /* in draft mode: decode luminance alone */
  const uint8_t *seek;  /* the record's seek points, or NULL */
  size_t seek_length;
  bool learns;            /* note seek points while decoding, if the record has none */
  const uint8_t *learned; /* seek points that were learned, or NULL */
  size_t learned_length;
  bool unlearnable;   /* no seek points can be learned from the record */
  uint32_t seek_step; /* MCUs between the points that an inspection notes; 0: it notes none */
  /* Kept from record to record. */
  hrn_encoder encoder;
  hrn_entropy *entropy;       /* made by the first inspection */
  uint64_t allowance;         /* learn.c: MCUs that may still be passed over just to learn points */
  bool allowed;               /* `allowance` has its first value */
  struct hrn_hook *kept_hook; /* made by the first baseline JPEG */
} hrn_jpeg;

/* Make and free this package's part of a context. hrn_jpeg_new returns false if there is no
 * memory. */
bool hrn_jpeg_new(hrn_context *context);
void hrn_jpeg_free(hrn_context *context);

/* Begins the record whose bytes are in the context. Closes whatever the last record left open. */
void hrn_jpeg_begin(hrn_context *context);

/* error.c: our jpeg_error_mgr. */
void hrn_jpeg_errors_init(hrn_jpeg *jpeg);

/* source.c: gives libjpeg bytes from memory, and notes when they ran out. */
void hrn_jpeg_source_init(hrn_jpeg *jpeg, const uint8_t *bytes, size_t length);
int64_t hrn_jpeg_offset(const hrn_jpeg *jpeg);

/* markers.c. A marker segment, or as much of one as the file has. */
typedef struct hrn_jpeg_segment {
  int marker;
  uint64_t end;        /* where it ends by its length field; may lie behind the file's end */
  const uint8_t *body; /* what follows the length field; NULL if that is cut off, and for EOI */
  size_t length;       /* of the body */
  bool valid;          /* the length field is there and is at least 2, because it counts itself */
} hrn_jpeg_segment;

#define HRN_JPEG_FIRST_SEGMENT 2 /* behind SOI */
#define HRN_JPEG_SOS 0xDA

/* Finds the next segment, or EOI, at or behind *at, and moves *at behind it. Skips bytes that are
 * no marker, as libjpeg does, and so entropy-coded data as well. */
bool hrn_jpeg_segment_next(const uint8_t *bytes, size_t length, size_t *at, hrn_jpeg_segment *s);

/* Fills process, bits, size, channels and orientation with as much of them as the file has. */
void hrn_jpeg_markers(const uint8_t *bytes, size_t length, hrn_facts *facts);

/* end.c: fails with HRN_TRUNCATED, for a file whose bytes ran out. */
int hrn_jpeg_truncated(const hrn_jpeg *jpeg, hrn_status *status);

/* header.c. hrn_jpeg_open may longjmp to jpeg.escape, so its caller must have called setjmp
 * itself. */
void hrn_jpeg_open(hrn_context *context);
int hrn_jpeg_header(hrn_context *context, uint32_t *width, uint32_t *height, hrn_status *status);
int hrn_jpeg_draft(hrn_context *context, uint32_t denominator, bool grey, hrn_status *status);
bool hrn_jpeg_incomplete(const struct jpeg_decompress_struct *info);
int hrn_jpeg_verdict(hrn_jpeg *jpeg, hrn_status *status);
void hrn_jpeg_close(hrn_context *context);

/* window.c */
int hrn_jpeg_rows(hrn_context *context, const hrn_box *box, bool hooked, hrn_rows *rows,
                  hrn_status *status);
int hrn_jpeg_read(hrn_context *context, uint8_t *first, size_t stride, uint32_t count,
                  hrn_status *status);
int hrn_jpeg_settle(hrn_rows *rows, int *again, hrn_status *status);

/* limits.c. hrn_jpeg_limits_init is called before an image's header is read. The others may longjmp
 * as well. hrn_jpeg_admit refuses an image whose header asks for too much, before memory is
 * taken. */
void hrn_jpeg_limits_init(hrn_context *context);
void hrn_jpeg_admit(hrn_context *context);
void hrn_jpeg_start(hrn_context *context);
jvirt_barray_ptr *hrn_jpeg_coefficients(hrn_context *context);

/* inspect.c */
int hrn_jpeg_inspect(hrn_context *context, int depth, hrn_facts *facts, hrn_status *status);

/* cmyk.c: converts in place, 4 bytes a pixel. */
void hrn_cmyk_to_rgbx(uint8_t *pixels, size_t count);

#endif
