/* context.h: what a context holds, for those that decode and encode. To all others it is the memory
 * that hrn_scratch gives out.
 */
#ifndef HEADRACE_CORE_CONTEXT_H
#define HEADRACE_CORE_CONTEXT_H

#include "memory.h"
#include "times.h"

struct hrn_context {
  hrn_limits limits;
  struct {
    void *base;
    size_t capacity;        /* bytes usable, padding not counted */
    size_t asked;           /* by the sample in progress; 0: not used by it */
    uint32_t large_samples; /* in a row, see memory.c */
  } scratch[HRN_SCRATCH_COUNT];
  uint64_t held; /* bytes that a decoder holds beside the scratch, for the record in progress */
  const uint8_t *bytes; /* of the record in progress */
  size_t length;
  /* What each decoder keeps from record to record is known to it alone. */
  struct hrn_jpeg *jpeg;
  struct hrn_png *png;
  struct hrn_record *record; /* decode's own */
  hrn_times times;           /* of the call in progress, where it is timed */
  int timed;
};

/* memory.c: starts a sample, for which no buffer is in use yet; gives all of them back. */
void hrn_scratch_begin(hrn_context *context);
void hrn_scratch_free(hrn_context *context);

/* What max_decoder_bytes leaves a decoder beside the scratch in use. */
uint64_t hrn_memory_left(const hrn_context *context);

/* HRN_LIMIT where an image has more than max_pixels. */
int hrn_check_pixels(const hrn_context *context, uint64_t width, uint64_t height,
                     hrn_status *status);

#endif
