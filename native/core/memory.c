/* memory.c: the memory of one decoding thread, and its limits. */
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "context.h"

/* A cache line, and the size of the widest vector. */
#define HRN_ALIGNMENT 64

/* A crop of half a million pixels, which is more than most photographs of a training set have. A
 * larger buffer is freed at once. Otherwise a thread would keep for ever what the largest crop of
 * the largest photograph took. It is kept if the last samples were all large, because then the next
 * one will be large as well. */
#define LARGE_BYTES ((size_t)2 << 20)
#define LARGE_SAMPLES 4

/* From this size on a buffer is a mapping of its own. Buffers of growing size would leave holes in
 * a thread's heap that nothing fits into: 10 MB a thread after some thousand photographs. */
#define MAPPED_BYTES ((size_t)64 << 10)

hrn_limits hrn_default_limits(void) {
  hrn_limits limits = {
      .max_pixels = 89478485,            /* Pillow's MAX_IMAGE_PIXELS */
      .max_decoder_bytes = 512ull << 20, /* a progressive 4:4:4 file of 89 million pixels */
      .max_record_bytes = 256ull << 20,  /* one encoded file */
      .max_scan_blocks =
          64ull << 20,  /* 16 times each block of such a file; real ones have 5 to 8 */
      .max_scans = 100, /* real files have about 10 */
  };
  return limits;
}

/* The memory that a buffer of that capacity takes, with padding and rounding. */
static size_t scratch_size(size_t capacity) {
  size_t size = capacity + HRN_ROW_PADDING + HRN_ALIGNMENT;
  return size - size % HRN_ALIGNMENT; /* aligned_alloc needs a multiple of the alignment */
}

/* mmap64 is another name of mmap. What the library calls by the name mmap is Go's memory, for which
 * address space is kept (internal/headroom/space.c). */
static void *scratch_allocate(size_t capacity) {
  size_t size = scratch_size(capacity);
  if (size < capacity) return NULL;
  if (capacity < MAPPED_BYTES) return aligned_alloc(HRN_ALIGNMENT, size);
  void *base = mmap64(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return base != MAP_FAILED ? base : NULL;
}

/* A buffer is always freed: its content is never moved to a larger one. */
static void scratch_free(hrn_context *context, int name) {
  size_t capacity = context->scratch[name].capacity;
  if (capacity >= MAPPED_BYTES) {
    munmap(context->scratch[name].base, scratch_size(capacity));
  } else {
    free(context->scratch[name].base);
  }
  context->scratch[name].base = NULL;
  context->scratch[name].capacity = 0;
}

void hrn_scratch_free(hrn_context *context) {
  for (int name = 0; name < HRN_SCRATCH_COUNT; name++) scratch_free(context, name);
}

/* The memory of all buffers, in use or not. */
static uint64_t scratch_held(const hrn_context *context) {
  uint64_t sum = 0;
  for (int name = 0; name < HRN_SCRATCH_COUNT; name++) sum += context->scratch[name].capacity;
  return sum;
}

/* The part of it that the sample in progress asked for. */
static uint64_t scratch_asked(const hrn_context *context) {
  uint64_t sum = 0;
  for (int name = 0; name < HRN_SCRATCH_COUNT; name++) sum += context->scratch[name].asked;
  return sum;
}

/* Starts a sample. Nothing of the last one is in use any more. If the buffers together hold more
 * than half of the limit, they are freed, so that one huge image does not stay in memory. */
void hrn_scratch_begin(hrn_context *context) {
  bool crowded = scratch_held(context) > context->limits.max_decoder_bytes / 2;
  for (int name = 0; name < HRN_SCRATCH_COUNT; name++) {
    context->scratch[name].asked = 0;
    const bool large_points =
        name == HRN_SCRATCH_SEEK && context->scratch[name].capacity > LARGE_BYTES;
    if (crowded || large_points) scratch_free(context, name);
  }
}

/* Ends a sample whose pixels nobody needs any more. Seek points that were learned from it stay
 * until the next sample begins, because whoever asked for them looks at them now. */
void hrn_scratch_end(hrn_context *context) {
  for (int name = 0; name < HRN_SCRATCH_COUNT; name++) {
    if (name == HRN_SCRATCH_SEEK) continue;
    bool large = context->scratch[name].asked > LARGE_BYTES;
    context->scratch[name].large_samples = large ? context->scratch[name].large_samples + 1 : 0;
    if (context->scratch[name].capacity > LARGE_BYTES &&
        context->scratch[name].large_samples < LARGE_SAMPLES) {
      scratch_free(context, name);
    }
  }
}

/* How large the decoder's own memory may become beside the scratch memory in use. */
uint64_t hrn_memory_left(const hrn_context *context) {
  uint64_t asked = scratch_asked(context);
  uint64_t limit = context->limits.max_decoder_bytes;
  return asked < limit ? limit - asked : 0;
}

/* The verdict depends only on what this sample asked for, never on what earlier ones left behind.
 * So the same image gives the same answer in a fresh context and in an old one. */
void *hrn_scratch(hrn_context *context, enum hrn_scratch_name name, size_t bytes,
                  hrn_status *status) {
  size_t before = context->scratch[name].asked;
  if (bytes > before) context->scratch[name].asked = bytes;
  uint64_t asked = scratch_asked(context) + context->held;
  uint64_t limit = context->limits.max_decoder_bytes;
  if (bytes > limit || asked > limit) {
    context->scratch[name].asked = before;
    hrn_fail(status, HRN_LIMIT, -1,
             "the image needs %llu bytes of memory, max_decoder_bytes is %llu",
             (unsigned long long)(asked > bytes ? asked : bytes), (unsigned long long)limit);
    return NULL;
  }
  if (context->scratch[name].base != NULL && context->scratch[name].capacity >= bytes) {
    return context->scratch[name].base;
  }

  scratch_free(context, name);
  if (scratch_held(context) + context->held + bytes > limit) {
    /* Buffers that this sample has not used hold memory that it needs. */
    for (int other = 0; other < HRN_SCRATCH_COUNT; other++) {
      if (context->scratch[other].asked == 0) scratch_free(context, other);
    }
  }
  /* A buffer gets a quarter more than was asked for, so that slowly growing images do not allocate
   * each time. Near the limit it gets exactly what was asked for. */
  size_t capacity = bytes;
  if (capacity <= limit / 16) capacity += capacity / 4;
  if (bytes <= LARGE_BYTES && capacity > LARGE_BYTES) capacity = LARGE_BYTES;
  if (capacity > SIZE_MAX - HRN_ROW_PADDING - HRN_ALIGNMENT) capacity = bytes;
  void *base = scratch_allocate(capacity);
  if (base == NULL) {
    hrn_fail(status, HRN_MEMORY, -1, "could not allocate %zu bytes for pixels",
             scratch_size(capacity));
    return NULL;
  }
  context->scratch[name].base = base;
  context->scratch[name].capacity = capacity;
  return base;
}

/* This comes before any allocation, because a header of 125 bytes may claim 65,535 x 65,535. */
int hrn_check_pixels(const hrn_context *context, uint64_t width, uint64_t height,
                     hrn_status *status) {
  uint64_t limit = context->limits.max_pixels;
  /* A division, because the product of two 64-bit sides may wrap. */
  if (width != 0 && height > limit / width) {
    return hrn_fail(status, HRN_LIMIT, -1, "the image is %llu x %llu pixels, max_pixels is %llu",
                    (unsigned long long)width, (unsigned long long)height,
                    (unsigned long long)limit);
  }
  return HRN_OK;
}
