/* memory.h: the memory of one decoding thread, and its limits. */
#ifndef HEADRACE_CORE_MEMORY_H
#define HEADRACE_CORE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

typedef struct hrn_limits {
  uint64_t max_pixels;        /* default    89478485: Pillow's MAX_IMAGE_PIXELS */
  uint64_t max_decoder_bytes; /* default   536870912: what decoder and scratch may hold */
  uint64_t max_record_bytes;  /* default   268435456: encoded size of one record */
  uint64_t max_scan_blocks;   /* default    67108864: blocks that all scans of a JPEG together go
                                 through; for arithmetic-coded scans, coefficients */
  uint32_t max_scans;         /* default         100: progressive scans */
} hrn_limits;

/* Returns the defaults above. memory.c is the only place that has them. */
hrn_limits hrn_default_limits(void);

typedef struct hrn_context hrn_context;

/* Every internal buffer of pixel rows has this many readable (and ignored) bytes after its last
 * byte, so SIMD loads may run over the end of the last row. */
#define HRN_ROW_PADDING 64

/* Scratch memory: a few named buffers that a context owns. Each grows and is used again from sample
 * to sample, is aligned to 64 bytes, and has HRN_ROW_PADDING bytes beyond the size that was asked
 * for. They count against max_decoder_bytes. NULL with HRN_LIMIT or HRN_MEMORY in status. The
 * content is not kept. */
enum hrn_scratch_name {
  HRN_SCRATCH_DECODE = 0,
  HRN_SCRATCH_MIDDLE,
  HRN_SCRATCH_IMAGE_A,
  HRN_SCRATCH_IMAGE_B,
  HRN_SCRATCH_COEFFICIENTS,
  HRN_SCRATCH_ROWS,
  HRN_SCRATCH_REGION,
  HRN_SCRATCH_MAPS,
  HRN_SCRATCH_BLOCKS,
  HRN_SCRATCH_UNSTUFFED,
  HRN_SCRATCH_PLANES,
  HRN_SCRATCH_SEEK,
  HRN_SCRATCH_POINTS,
  HRN_SCRATCH_FILTER,
  HRN_SCRATCH_PIXELS_A,
  HRN_SCRATCH_PIXELS_B,
  HRN_SCRATCH_MIX,
  HRN_SCRATCH_FIELD,
  HRN_SCRATCH_COUNT
};
void *hrn_scratch(hrn_context *context, enum hrn_scratch_name name, size_t bytes,
                  hrn_status *status);

/* Call after a sample. Frees buffers that are too large to be kept unused. */
void hrn_scratch_end(hrn_context *context);

#endif
