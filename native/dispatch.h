/* dispatch.h: what dispatch.c, the only file that asks the CPU, tells the others. */
#ifndef HEADRACE_NATIVE_DISPATCH_H
#define HEADRACE_NATIVE_DISPATCH_H

#include "pixel_kernels.h"
#include "planes.h"
#include "resize.h"
#include "spread.h"
#include "weigh.h"
#include "write.h"

/* The kernels of one instruction set. All sets give the same bytes. */
typedef struct hrn_kernels {
  const char *name;
  hrn_arrange_kernel arrange;
  hrn_horizontal_kernel horizontal;
  hrn_vertical_kernel vertical;
  hrn_write_kernel write;
  hrn_reverse_kernel reverse;
  hrn_spread_kernel spread;
  const hrn_pixel_kernels *pixels;
  const hrn_plane_kernels *planes; /* NULL: libjpeg makes the pixels */
  hrn_weigh_kernel weigh;
  hrn_mix_kernel mix; /* NULL: two rows are written, then weighed */
} hrn_kernels;

const hrn_kernels *hrn_kernels_chosen(void);

/* By name ("scalar", "avx2", "avx512"), for tests that compare; NULL where this CPU cannot run it.
 */
const hrn_kernels *hrn_kernels_named(const char *name);

/* SSE4.2's crc32 instruction. 0 under HEADRACE_SIMD=scalar. */
int hrn_cpu_has_sse42(void);

/* Shifts that leave the flags alone. 0 under HEADRACE_SIMD=scalar. */
int hrn_cpu_has_bmi2(void);

#endif
