/* bmp.h: reads a BMP, or a window of it. */
#ifndef HEADRACE_BMP_BMP_H
#define HEADRACE_BMP_BMP_H

#include <stdbool.h>

#include "../core/context.h"
#include "../core/facts.h"
#include "../core/image.h"

/* One BMP: what its header and palette say. */
typedef struct hrn_bmp {
  uint32_t width, height;
  uint8_t bits;             /* bits of a pixel, as stored */
  bool rle, rle4;           /* coded as run lengths, of 8 or 4 bits */
  bool top_down, grey;      /* grey: each index is the grey that the palette has for it */
  bool six_green;           /* for 16 bits: 5, 6 and 5 instead of 5, 5 and 5 */
  uint8_t red, green, blue; /* for 24 and 32 bits: the bytes of a pixel that hold them */
  uint32_t colours;         /* of the palette */
  size_t palette, entry;    /* where it begins, and bytes of an entry: blue, green, red */
  size_t data;              /* where the pixels begin */
} hrn_bmp;

/* The size of the record that is in the context, its pixels, and its facts. The first function
 * fills `bmp`. */
int hrn_bmp_header(hrn_context *context, hrn_bmp *bmp, uint32_t *width, uint32_t *height,
                   hrn_status *status);
int hrn_bmp_window(hrn_context *context, const hrn_bmp *bmp, const hrn_box *box, hrn_image *image,
                   hrn_status *status);
int hrn_bmp_inspect(hrn_context *context, hrn_bmp *bmp, int depth, hrn_facts *facts,
                    hrn_status *status);

/* rle.c: expands run lengths to an index for each pixel, in the order of the file. */
int hrn_bmp_expand(const hrn_context *context, const hrn_bmp *bmp, uint8_t *indices,
                   hrn_status *status);

#endif
