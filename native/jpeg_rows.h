/* jpeg_rows.h: the pixels of a window made here, from our coefficients, for the samplings that
 * nearly all files have. */
#ifndef HEADRACE_NATIVE_JPEG_ROWS_H
#define HEADRACE_NATIVE_JPEG_ROWS_H

#include "jpeg_hook.h"

/* Whether this scan, which hrn_hook_accepts has accepted, is one for us: whole size, grey or YCbCr
 * with chroma as large as luma or halved (4:4:4, 4:2:2, 4:2:0), on a CPU that there are kernels
 * for. */
bool hrn_rows_accepts(const hrn_context *context);

/* The box's pixels; false where there is no memory for the way there, with nothing done yet. Of no
 * use if hrn_hook_irregular says so then. */
bool hrn_rows_window(hrn_context *context, const hrn_box *box, hrn_image *image,
                     hrn_status *status);

/* jpeg_hook_check.c: whether the libjpeg that is linked makes other pixels than we. Tried once. */
bool hrn_rows_refused(void);

#endif
