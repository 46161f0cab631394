/* check.h: checks the parameters of ops. A user's arguments are checked by name before
 * (internal/transform). Here nothing may pass that a kernel could not handle.
 *
 * Each function returns 1, or 0 with HRN_ARGUMENT and a sentence about op number `index` in
 * status. */
#ifndef HEADRACE_DRAWS_CHECK_H
#define HEADRACE_DRAWS_CHECK_H

#include <float.h>

#include "op.h"

/* The least number of an interval that leaves 0 out, because a ratio must have a logarithm. */
#define HRN_ABOVE_0 DBL_MIN

/* range.c: a value in [low, high], never NaN; two bounds in that range, the lower one first; and a
 * fill of integers from 0 to 255. The fill is checked for every padding and warp, even if it is not
 * shown. */
int hrn_within(int32_t index, const char *what, double value, double low, double high,
               hrn_status *status);
int hrn_interval(int32_t index, const char *what, const double bound[2], double low, double high,
                 hrn_status *status);
int hrn_is_fill(int32_t index, const hrn_op *op, hrn_status *status);

/* checkpixel.c: a fixed op on pixels, and parts of it that random ops have as well: a filter and a
 * fill for warps, the side of a kernel, noise, and displacements. */
int hrn_check_pixel(const hrn_op *op, int32_t index, hrn_status *status);
int hrn_check_warp(const hrn_op *op, int32_t index, hrn_status *status);
int hrn_check_tensor_warp(const hrn_op *op, int32_t index, hrn_status *status);
int hrn_check_kernel(int32_t index, int32_t side, hrn_status *status);
int hrn_check_noise(int32_t index, double mean, double deviation, hrn_status *status);
int hrn_check_elastic(const hrn_op *op, int32_t index, const double alpha[2], const double sigma[2],
                      const hrn_outside *outside, hrn_status *status);

/* check.c: groups, ops on pixels and erasings. */
int hrn_check_augmentation(const hrn_op *op, int32_t index, hrn_status *status);

/* The greatest radius of Pillow's blur: more than images of this size need. */
#define HRN_MAX_RADIUS 1000.0

#endif
