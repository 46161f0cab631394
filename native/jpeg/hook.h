/* hook.h: our entropy decoder in the place of libjpeg's, for the MCUs of a window alone. */
#ifndef HEADRACE_JPEG_HOOK_H
#define HEADRACE_JPEG_HOOK_H

#include "coefficients.h"
#include "jpeg.h"
#include "planes.h"
#include "seek.h"

/* A walk over the MCUs of the scan in their order, from any of them on. */
typedef struct hrn_walk {
  uint64_t mcu;   /* the next one */
  size_t end;     /* byte of the scan behind what was unstuffed: a marker, or the end */
  size_t limit;   /* byte of the scan that the walk stops before */
  size_t stored;  /* byte of the scan that the segment begins at */
  size_t stuffed; /* how many of the stuffed bytes stand before the last point that was noted */
  uint32_t run;   /* MCUs until the next point, or the end of what is asked for */
  uint32_t left;  /* MCUs of what is asked for, with those */
  bool fresh; /* it has just begun, behind a restart marker if one stands before its first MCU */
  hrn_segment segment;
} hrn_walk;

/* One scan being decoded. */
typedef struct hrn_hook {
  hrn_dc_table dc[NUM_HUFF_TBLS]; /* both kept from image to image */
  hrn_ac_table ac[NUM_HUFF_TBLS];
  hrn_mcu mcu;
  hrn_scan skip;        /* tables for the MCUs that are passed over */
  bool skips;           /* they are made */
  uint32_t passed;      /* MCUs without them */
  hrn_entropy *entropy; /* what they are made of, as info */
  const struct jpeg_decompress_struct *info;
  const uint8_t *scan; /* entropy-coded bytes up to the record's end */
  size_t length;
  uint32_t columns, rows; /* MCUs */
  uint32_t restart_interval;
  bool has_seek;
  hrn_seek seek;

  uint32_t first_column, last_column, last_row; /* the window, in MCUs */
  uint32_t first_row;                           /* of MCUs that was asked for */
  uint32_t column, row;                         /* of libjpeg's next call */
  uint32_t ready_row, ready_rows;               /* rows in `blocks` */
  int16_t *blocks;
  size_t row_stride; /* coefficients from one ready row to the next */
  uint8_t *unstuffed[2];
  hrn_walk walk;
  hrn_stuffing stuffing;      /* of the walk's segment, while points are noted */
  hrn_seek_point *noted;      /* room for the seek points that are learned; NULL where none are */
  hrn_seek_point *next_noted; /* where the next one goes; NULL while none are noted */
  bool onward;                /* the walk goes on behind the last row that has points */
  uint32_t points_a_row, components;
  hrn_planes planes; /* where libjpeg does not make the pixels */
  bool irregular;    /* the coefficients are not to be trusted: decode anew without us */
} hrn_hook;

/* hook_check.c: why the libjpeg that is linked cannot be hooked, or NULL. Tried once. */
const char *hrn_hook_refusal(void);

/* After jpeg_start_decompress: whether this scan is one that we read (plain sequential Huffman, 8
 * bits, all components in one scan), with its tables made. Not to be asked where the library cannot
 * be hooked. */
bool hrn_hook_accepts(hrn_context *context);

/* After that: the window in MCUs, inclusive, and the memory for it; HRN_MEMORY or another code
 * where there is none. The last row is a hint only: rows are made as asked. */
int hrn_hook_window(hrn_context *context, uint32_t first_column, uint32_t last_column,
                    uint32_t last_row, hrn_status *status);

/* After jpeg_crop_scanline: takes over decode_mcu for output columns [left, left + width) and rows
 * up to `bottom`. `seek` is the image's record or NULL. */
int hrn_hook_install(hrn_context *context, uint32_t left, uint32_t width, uint32_t bottom,
                     hrn_status *status);

/* Whether the hook was at work and met what is not for it. */
bool hrn_hook_irregular(const hrn_context *context);

/* ---- hook_rows.c ---------------------------------------------------------------------------- */

/* The window's MCUs of a row, one after the other, each its blocks in the order of the scan; NULL
 * once the data is irregular. Rows are asked for in order. */
int16_t *hrn_hook_row(hrn_hook *hook, uint32_t row);

/* How many coefficients so many MCUs have. */
static inline size_t hrn_hook_coefficients(const hrn_hook *hook, uint32_t mcus) {
  return (size_t)mcus * (size_t)hook->mcu.blocks * HRN_BLOCK;
}

/* The first MCU that is decoded for a row that has points: the one at or before the window. */
static inline uint32_t hrn_hook_lead(const hrn_hook *hook) {
  return hook->has_seek ? hook->first_column - hook->first_column % hook->seek.step
                        : hook->first_column;
}

/* Makes the tables that MCUs are passed over by. Not behind the window's last row: libjpeg has
 * freed what they are made of by then. */
bool hrn_hook_make_skip(hrn_hook *hook);

/* Begins the walk at the scan's first MCU. */
void hrn_hook_start(hrn_hook *hook);

/* Begins the walk that goes on behind the last row that has points, which is not the scan's last.
 */
void hrn_hook_onward(hrn_hook *hook);

/* Goes through the MCUs that are left of the first rows, without their coefficients. */
void hrn_hook_pass(hrn_hook *hook, uint32_t rows);

/* ---- learn.c -------------------------------------------------------------------------------- */

/* Before the first MCU: whether points are to be noted, and where to. `status` is as it
 * was afterwards. */
void hrn_learn_begin(hrn_context *context, hrn_status *status);

/* Has the points noted that the walk meets in the next `count` MCUs, which the segment is then to
 * be decoded or passed over for. */
void hrn_learn_run(hrn_hook *hook, uint32_t count);

/* Behind the window's last row: the rest of the scan, and what was learned, as context->jpeg has
 * it. */
void hrn_learn_end(hrn_context *context);

#endif
