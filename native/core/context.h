/* context.h: what a context holds, for the code that decodes and encodes. To all other code a
 * context is only the memory that hrn_scratch gives out. */
#ifndef HEADRACE_CORE_CONTEXT_H
#define HEADRACE_CORE_CONTEXT_H

#include "memory.h"
#include "times.h"

struct hrn_context {
  hrn_limits limits;
  struct {
    void *base;
    size_t capacity; /* usable bytes, without the padding */
    size_t asked;    /* bytes that the sample in progress asked for; 0: it does not use this */
    uint32_t large_samples; /* large samples in a row, see memory.c */
  } scratch[HRN_SCRATCH_COUNT];
  uint64_t held; /* bytes that a decoder holds beside the scratch, for the record in progress */
  const uint8_t *bytes; /* bytes of the record in progress */
  size_t length;
  /* What each decoder keeps from record to record. Only that decoder knows its contents. */
  struct hrn_jpeg *jpeg;
  struct hrn_png *png;
  struct hrn_record *record; /* of package decode */
  hrn_times times;           /* of the call in progress, if it is timed */
  int timed;
};

/* memory.c: starts a sample, which uses no buffer yet; frees all buffers. */
void hrn_scratch_begin(hrn_context *context);
void hrn_scratch_free(hrn_context *context);

/* What max_decoder_bytes leaves to a decoder beside the scratch memory in use. */
uint64_t hrn_memory_left(const hrn_context *context);

/* HRN_LIMIT if an image has more than max_pixels. */
int hrn_check_pixels(const hrn_context *context, uint64_t width, uint64_t height,
                     hrn_status *status);

#endif
