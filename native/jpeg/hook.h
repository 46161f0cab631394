/* hook.h: our entropy decoder in the place of libjpeg's. It decodes only the MCUs of a window. */
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
  uint32_t left;  /* MCUs left of what is asked for, those of `run` included */
  bool fresh; /* the walk has just begun; a restart marker before its first MCU is already behind it
               */
  hrn_segment segment;
} hrn_walk;

/* One scan being decoded. */
typedef struct hrn_hook {
  hrn_dc_table dc[NUM_HUFF_TBLS]; /* both kept from image to image */
  hrn_ac_table ac[NUM_HUFF_TBLS];
  hrn_mcu mcu;
  hrn_scan skip;        /* tables for the MCUs that are passed over */
  bool skips;           /* the tables of `skip` are made */
  uint32_t passed;      /* MCUs that were passed over without those tables */
  hrn_entropy *entropy; /* `skip` is made from this and from `info` */
  const struct jpeg_decompress_struct *info;
  const uint8_t *scan; /* entropy-coded bytes up to the record's end */
  size_t length;
  uint32_t columns, rows; /* MCUs */
  uint32_t restart_interval;
  bool has_seek;
  hrn_seek seek;

  uint32_t first_column, last_column, last_row; /* the window, in MCUs */
  uint32_t first_row;                           /* first row of MCUs that was asked for */
  uint32_t column, row;                         /* of libjpeg's next call */
  uint32_t ready_row, ready_rows;               /* rows in `blocks` */
  int16_t *blocks;
  size_t row_stride; /* coefficients from one ready row to the next */
  uint8_t *unstuffed[2];
  hrn_walk walk;
  hrn_stuffing stuffing;      /* of the walk's segment, while points are noted */
  hrn_seek_point *noted;      /* room for the seek points that are learned; NULL: none are */
  hrn_seek_point *next_noted; /* where the next one goes; NULL: none are noted now */
  bool onward;                /* the walk goes on behind the last row that has points */
  uint32_t points_a_row, components;
  hrn_planes planes; /* used if libjpeg does not make the pixels */
  bool irregular;    /* the coefficients cannot be trusted: libjpeg must decode the image anew */
} hrn_hook;

/* hook_check.c: why the linked libjpeg cannot be hooked, or NULL. Checked once. */
const char *hrn_hook_refusal(void);

/* Call after jpeg_start_decompress. Whether we can read this scan (plain sequential Huffman, 8
 * bits, all components in one scan). If so, its tables are made. Call only if the library can be
 * hooked. */
bool hrn_hook_accepts(hrn_context *context);

/* Call after hrn_hook_accepts. Sets the window in MCUs, bounds included, and takes the memory for
 * it; fails with HRN_MEMORY or another code if there is none. The last row is only a hint: rows are
 * decoded as they are asked for. */
int hrn_hook_window(hrn_context *context, uint32_t first_column, uint32_t last_column,
                    uint32_t last_row, hrn_status *status);

/* Call after jpeg_crop_scanline. Takes over decode_mcu for output columns [left, left + width) and
 * rows up to `bottom`. `seek` is the image's record or NULL. */
int hrn_hook_install(hrn_context *context, uint32_t left, uint32_t width, uint32_t bottom,
                     hrn_status *status);

/* Whether the hook was in use and met data that it cannot decode. */
bool hrn_hook_irregular(const hrn_context *context);

/* ---- hook_rows.c ---------------------------------------------------------------------------- */

/* The coefficients of the window's MCUs in a row: one MCU after the other, the blocks of each in
 * the order of the scan. NULL once the data is irregular. Rows must be asked for in order. */
int16_t *hrn_hook_row(hrn_hook *hook, uint32_t row);

/* How many coefficients so many MCUs have. */
static inline size_t hrn_hook_coefficients(const hrn_hook *hook, uint32_t mcus) {
  return (size_t)mcus * (size_t)hook->mcu.blocks * HRN_BLOCK;
}

/* The first MCU that is decoded in a row with points: that of the last point at or before the
 * window's left edge. */
static inline uint32_t hrn_hook_lead(const hrn_hook *hook) {
  return hook->has_seek ? hook->first_column - hook->first_column % hook->seek.step
                        : hook->first_column;
}

/* Makes the tables for passing over MCUs. Must be called before the window's last row is done,
 * because libjpeg then frees what they are made from. */
bool hrn_hook_make_skip(hrn_hook *hook);

/* Begins the walk at the scan's first MCU. */
void hrn_hook_start(hrn_hook *hook);

/* Begins the walk behind the last row that has points. That row must not be the scan's last. */
void hrn_hook_onward(hrn_hook *hook);

/* Passes over the MCUs that are left of the first `rows` rows, without their coefficients. */
void hrn_hook_pass(hrn_hook *hook, uint32_t rows);

/* ---- learn.c -------------------------------------------------------------------------------- */

/* Call before the first MCU. Decides whether points are noted, and takes memory for them. Leaves
 * `status` as it was. */
void hrn_learn_begin(hrn_context *context, hrn_status *status);

/* Prepares the walk's segment so that the points in the next `count` MCUs are noted. The caller
 * then decodes the segment or passes over it. */
void hrn_learn_run(hrn_hook *hook, uint32_t count);

/* Call after the window's last row. Passes over the rest of the scan if that is worth it, and puts
 * what was learned into context->jpeg. */
void hrn_learn_end(hrn_context *context);

#endif
