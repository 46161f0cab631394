/* mix.h: samples that wait for each other, and what becomes of two of them. */
#ifndef HEADRACE_PLAN_MIX_H
#define HEADRACE_PLAN_MIX_H

#include "plan.h"

/* MixUp and CutMix make a sample of two of a batch. What is mixed by CutMix, or not at all, has
 * each of its values from one of the two: hrn_sample writes them where they belong, of a plan whose
 * output says `unmixed`. For MixUp both have to be there first: such a plan makes a sample that is
 * not finished yet, and hrn_mix finishes it. Which two is the caller's business; what is drawn for
 * them is not. */

/* Bytes of a sample of such a plan, as hrn_sample writes it and hrn_mix takes it, aligned to 64; 0
 * where samples differ in size. */
uint64_t hrn_unmixed_bytes(const hrn_plan *plan);

/* Finishes a sample by MixUp, the share of `own` being `lambda`: hrn_plan_size's bytes at
 * `destination`. */
void hrn_mix(const hrn_plan *plan, const void *own, const void *other, double lambda,
             void *destination);

/* A label of `classes` shares that belongs to it: `lambda` of one smoothed one-hot vector and the
 * rest of another. Both labels are below `classes`. */
void hrn_mix_labels(double smoothing, int64_t own, int64_t other, double lambda, int64_t classes,
                    float *to);

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

/* Notes a program's erasings, and fills their boxes: before the stages, for what is mixed on the
 * way. */
void hrn_unmixed_erase(const hrn_program *program, const hrn_plan *plan, const hrn_key *key,
                       void *unmixed);

/* Puts what was erased into a patch, whose pixels are there. */
void hrn_patch_erase(const hrn_plan *plan, const void *unmixed, const hrn_patch *patch);

/* One of two samples that are weighed. */
typedef struct hrn_source {
  hrn_unmixed head;
  const uint8_t *pixels, *erased;
} hrn_source;

/* Two samples that are weighed, and where the result goes. */
struct hrn_mixer {
  const hrn_plan *plan;
  hrn_source own, other;
  float share[2];
  uint8_t *destination;
};

/* The heads of both are there, and of each row the pixels before it is asked for. */
hrn_mixer hrn_mixer_of(const hrn_plan *plan, const void *own, const void *other, double lambda,
                       void *destination);
void hrn_mixer_row(const hrn_mixer *mixer, int32_t y);

#endif
