/* mix.h: samples that wait for each other, and what becomes of two of them. */
#ifndef HEADRACE_NATIVE_MIX_H
#define HEADRACE_NATIVE_MIX_H

#include "plan.h"

/* A sample as hrn_mix takes it, in one block of memory: this head, the RGBX pixels behind it, and,
 * where the plan erases, room for a finished sample of which only the erased boxes are written.
 * Bytes and not finished values: a quarter of the traffic of float32, and writing the values is the
 * work of the mixing anyway. */
typedef struct hrn_unmixed {
  int32_t erasings;
  hrn_box erased[HRN_MAX_ERASINGS];
} hrn_unmixed;

/* Where the pixels begin: whole cache lines. */
enum { HRN_UNMIXED_HEAD = (sizeof(hrn_unmixed) + 63) / 64 * 64 };

static inline uint8_t *hrn_unmixed_pixels(const void *unmixed) {
  return (uint8_t *)(uintptr_t)unmixed + HRN_UNMIXED_HEAD;
}

/* The image that the last stage of a sample is to write into. */
hrn_image hrn_unmixed_image(const hrn_plan *plan, void *unmixed);

/* Notes a program's erasings, and fills their boxes. */
void hrn_unmixed_erase(const hrn_program *program, const hrn_plan *plan, const hrn_key *key,
                       void *unmixed);

#endif
