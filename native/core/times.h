/* times.h: the times that the parts of a sample take, for a trace. If nobody asked for them, a
 * sample costs only one more look at a pointer. */
#ifndef HEADRACE_CORE_TIMES_H
#define HEADRACE_CORE_TIMES_H

#include <stdint.h>

#include "memory.h"

/* Nanoseconds of one sample, or of all images of a run. Decoding, ops and writing take turns, some
 * rows at a time. Each time is the sum of its turns; ops take what is left of the call. */
typedef struct hrn_times {
  int64_t checksum, decode, write;
} hrn_times;

/* With `on`, the calls of a context measure their times from now on; otherwise they no longer
 * do. */
void hrn_times_note(hrn_context *context, int32_t on);

/* The context's times, which every call begins anew. NULL if nobody asked for them. */
hrn_times *hrn_times_of(hrn_context *context);

/* Nanoseconds of CLOCK_MONOTONIC. */
int64_t hrn_now(void);

#endif
