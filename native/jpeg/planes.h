/* planes.h: makes the pixels of a window here, from our coefficients, for the samplings that nearly
 * all files have. */
#ifndef HEADRACE_JPEG_PLANES_H
#define HEADRACE_JPEG_PLANES_H

#include "jpeg.h"
#include "plane_kernels.h"

enum { HRN_LUMA, HRN_CB, HRN_CR, HRN_PLANES };

/* One component's samples. */
typedef struct hrn_plane {
  int16_t quantisation[DCTSIZE2];
  uint8_t *rows;     /* at the left column of the first MCU */
  size_t stride;     /* bytes */
  uint32_t ring;     /* rows in memory: row y lies at y % ring */
  uint32_t h, v;     /* blocks of an MCU */
  uint32_t offset;   /* coefficients in an MCU before this plane's */
  uint32_t from, to; /* rows that the window is made from */
} hrn_plane;

/* A window, and how much of it is done. */
typedef struct hrn_planes {
  const hrn_plane_kernels *kernels;
  hrn_plane plane[HRN_PLANES];
  int count;
  size_t mcu;                           /* coefficients */
  uint32_t first_column, mcus;          /* columns of MCUs: the first, how many */
  uint32_t left, right, top, bottom;    /* the window */
  uint32_t chroma_width, chroma_height; /* of the whole image, where chroma is smaller */
  uint8_t *doubled[HRN_PLANES];         /* a row of chroma upsampled, from column left & ~1 on */
  uint32_t row, last_row;               /* of MCUs: the next, the last */
  uint32_t y, ready; /* rows of pixels: the next, the first whose samples are missing */
} hrn_planes;

/* Whether we can make the pixels of this scan, which hrn_hook_accepts has accepted: at full size,
 * grey or YCbCr with chroma as large as luma or halved (4:4:4, 4:2:2, 4:2:0), on a CPU that has
 * kernels. */
bool hrn_planes_accept(const hrn_context *context);

/* hook_check.c: whether the linked libjpeg makes other pixels than planes.c. Checked once. */
bool hrn_planes_refused(void);

/* Prepares to make the box's pixels; false if there is no memory for that. */
bool hrn_planes_begin(hrn_context *context, const hrn_box *box, hrn_status *status);

/* Makes the next `count` rows, and writes garbage up to HRN_COLOUR_PADDING bytes behind the last
 * one. The rows are useless if hrn_hook_irregular is true afterwards. */
void hrn_planes_read(hrn_context *context, uint8_t *first, size_t stride, uint32_t count);

#endif
