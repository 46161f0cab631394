/* check.h: what the parameters of ops must be. Arguments of a user are checked by name before
 * (internal/transform); here nothing may get past that a kernel could not bear.
 *
 * Each answers 1, or 0 with HRN_ARGUMENT and a sentence about op number `index` in status.
 */
#ifndef HEADRACE_DRAWS_CHECK_H
#define HEADRACE_DRAWS_CHECK_H

#include <float.h>

#include "op.h"

/* The least number of an open interval from 0: a ratio has a logarithm. */
#define HRN_ABOVE_0 DBL_MIN

/* range.c: a value in [low, high], never NaN; two bounds in there, of which the lower one stands
 * first; and a fill of whole numbers from 0 to 255, which is checked of every padding and warp,
 * though not all of them show it. */
int hrn_within(int32_t index, const char *what, double value, double low, double high,
               hrn_status *status);
int hrn_interval(int32_t index, const char *what, const double bound[2], double low, double high,
                 hrn_status *status);
int hrn_is_fill(int32_t index, const hrn_op *op, hrn_status *status);

/* checkpixel.c: a fixed op on pixels; parts of it that random ops have, too: a filter and a fill
 * that warps take, the side of a kernel, noise, and displacements. */
int hrn_check_pixel(const hrn_op *op, int32_t index, hrn_status *status);
int hrn_check_warp(const hrn_op *op, int32_t index, hrn_status *status);
int hrn_check_tensor_warp(const hrn_op *op, int32_t index, hrn_status *status);
int hrn_check_kernel(int32_t index, int32_t side, hrn_status *status);
int hrn_check_noise(int32_t index, double mean, double deviation, hrn_status *status);
int hrn_check_elastic(const hrn_op *op, int32_t index, const double alpha[2], const double sigma[2],
                      const hrn_outside *outside, hrn_status *status);

/* check.c: groups, ops on pixels and erasings. */
int hrn_check_augmentation(const hrn_op *op, int32_t index, hrn_status *status);

/* Of Pillow's blur: what images of this size have a use for, and more. */
#define HRN_MAX_RADIUS 1000.0

#endif
