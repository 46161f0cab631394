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

/* What libjpeg holds for one image. The struct lives in the context, so everything that changes
 * between setjmp and longjmp is memory, never a register of a function that is gone. */
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
  uint64_t scan_blocks; /* of the scans up to number `scan_counted` */
  uint32_t max_scans, scan_counted;
  uint32_t warnings;
  uint32_t scans;        /* begun, when the struct was closed */
  uint32_t dry_row;      /* of MCUs, being read when the bytes ran out */
  struct hrn_hook *hook; /* kept_hook, while it stands in for libjpeg's entropy decoder */
  uint32_t margin;       /* bytes before the window's first pixel in a row that was decoded */
  bool own_pixels;       /* planes.c makes the rows, from the hook's coefficients */
  bool ran_dry;          /* libjpeg asked for bytes after the last one */
  bool truncated;        /* ... and the entropy decoder was not done */
  bool created;          /* info holds memory */
  bool lossless;         /* the file has samples and no coefficients (T.81, annex H) */
  /* Of the record in progress. */
  uint32_t denominator; /* of the windows' scale; 1 unless the plan is a fast one or drafts */
  bool drafts;          /* at that scale every pixel is Pillow's, */
  bool grey;            /* and of luminance alone */
  const uint8_t *seek;  /* its seek points, or NULL */
  size_t seek_length;
  bool learns;            /* points are to be noted where it has none */
  const uint8_t *learned; /* those points, or NULL */
  size_t learned_length;
  bool unlearnable;   /* no points can be learned of it */
  uint32_t seek_step; /* the inspection in progress is to note points; 0: it is not */
  /* Kept from record to record. */
  hrn_encoder encoder;
  hrn_entropy *entropy;       /* made by the first inspection */
  uint64_t allowance;         /* learn.c: MCUs that may be passed over for points alone */
  bool allowed;               /* it was begun */
  struct hrn_hook *kept_hook; /* made by the first baseline JPEG */
} hrn_jpeg;

/* What a context holds of this package, made and freed; false without memory. */
bool hrn_jpeg_new(hrn_context *context);
void hrn_jpeg_free(hrn_context *context);

/* Begins a record whose bytes the context has: whatever the last one left open is closed. */
void hrn_jpeg_begin(hrn_context *context);

/* error.c: our jpeg_error_mgr. */
void hrn_jpeg_errors_init(hrn_jpeg *jpeg);

/* source.c: bytes from memory, and a note when they ran out. */
void hrn_jpeg_source_init(hrn_jpeg *jpeg, const uint8_t *bytes, size_t length);
int64_t hrn_jpeg_offset(const hrn_jpeg *jpeg);

/* markers.c. A marker segment, as far as it is there. */
typedef struct hrn_jpeg_segment {
  int marker;
  uint64_t end;        /* of the bytes that it has by its length; perhaps behind the file's */
  const uint8_t *body; /* behind the length; NULL where that is cut, and for EOI */
  size_t length;       /* of the body */
  bool valid;          /* the length is there and counts itself */
} hrn_jpeg_segment;

#define HRN_JPEG_FIRST_SEGMENT 2 /* behind SOI */
#define HRN_JPEG_SOS 0xDA

/* The next segment at or behind *at, or EOI; *at is behind it then. What is no marker is passed
 * over, as libjpeg does, and with it entropy-coded data. */
bool hrn_jpeg_segment_next(const uint8_t *bytes, size_t length, size_t *at, hrn_jpeg_segment *s);

/* Fills process, bits, size, channels and orientation as far as they are there. */
void hrn_jpeg_markers(const uint8_t *bytes, size_t length, hrn_facts *facts);

/* end.c: fails with HRN_TRUNCATED, of a file whose bytes ran out. */
int hrn_jpeg_truncated(const hrn_jpeg *jpeg, hrn_status *status);

/* header.c. hrn_jpeg_open may longjmp to jpeg.escape: only under the caller's own setjmp. */
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

/* limits.c; but for the first, which the header of an image begins with, these may longjmp,
 * too. hrn_jpeg_admit refuses what the header tells is too much, before memory is taken. */
void hrn_jpeg_limits_init(hrn_context *context);
void hrn_jpeg_admit(hrn_context *context);
void hrn_jpeg_start(hrn_context *context);
jvirt_barray_ptr *hrn_jpeg_coefficients(hrn_context *context);

/* inspect.c */
int hrn_jpeg_inspect(hrn_context *context, int depth, hrn_facts *facts, hrn_status *status);

/* cmyk.c: in place, 4 bytes a pixel. */
void hrn_cmyk_to_rgbx(uint8_t *pixels, size_t count);

#endif
