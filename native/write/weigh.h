/* weigh.h: weighted sums of finished values, rounded as torch rounds them. */
#ifndef HEADRACE_WRITE_WEIGH_H
#define HEADRACE_WRITE_WEIGH_H

#include <stddef.h>
#include <stdint.h>

/* out[k] = own[k] * own_share + other[k] * other_share for `count` values of a float dtype. The two
 * products and the sum are each rounded to the dtype, as by mul_ and add_ on a tensor of that
 * dtype: there is no fused multiply-add. `out` overlaps neither input. */
typedef void (*hrn_weigh_kernel)(int32_t dtype, const void *own, const void *other, float own_share,
                                 float other_share, size_t count, void *out);

void hrn_weigh_scalar(int32_t, const void *, const void *, float, float, size_t, void *);
#if defined(__x86_64__)
void hrn_weigh_avx2(int32_t, const void *, const void *, float, float, size_t, void *);
#endif

#endif
