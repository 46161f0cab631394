/* times.h: what the parts of a sample take, for whoever asked to know: a trace. Off, a sample costs
 * one look at a pointer more.
 */
#ifndef HEADRACE_CORE_TIMES_H
#define HEADRACE_CORE_TIMES_H

#include <stdint.h>

#include "memory.h"

/* Nanoseconds of one sample, or of all images of a run. Decoding, ops and writing take turns, some
 * rows at a time; each is the sum of its turns, and ops are what is left of the call. */
typedef struct hrn_times {
  int64_t checksum, decode, write;
} hrn_times;

/* From here on (on) the calls of a context note what they take, or (off) no longer. */
void hrn_times_note(hrn_context *context, int32_t on);

/* The context's, which every call begins anew; NULL where nobody asked. */
hrn_times *hrn_times_of(hrn_context *context);

/* Nanoseconds of CLOCK_MONOTONIC. */
int64_t hrn_now(void);

#endif
