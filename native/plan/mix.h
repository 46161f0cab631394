/* mix.h: samples that wait for each other, and mixing two of them. */
#ifndef HEADRACE_PLAN_MIX_H
#define HEADRACE_PLAN_MIX_H

#include "plan.h"

/* MixUp and CutMix make a sample of two samples of a batch. With CutMix, or without mixing, each
 * value comes from one of the two, and hrn_sample writes it where it belongs. MixUp needs both
 * samples first. A plan whose output says `unmixed` therefore makes a sample that is not finished
 * yet, and hrn_mix finishes it. The caller chooses the two samples and makes the draws for them. */

/* Bytes of a sample of such a plan, as hrn_sample writes it and hrn_mix takes it, aligned to 64; 0
 * if samples differ in size. */
uint64_t hrn_unmixed_bytes(const hrn_plan *plan);

/* Finishes a sample by MixUp. `lambda` is the share of `own`. Writes hrn_plan_size's bytes to
 * `destination`. */
void hrn_mix(const hrn_plan *plan, const void *own, const void *other, double lambda,
             void *destination);

/* Makes the label of such a sample, with `classes` shares: `lambda` of one smoothed one-hot vector
 * and the rest of another. Both labels are below `classes`. */
void hrn_mix_labels(double smoothing, int64_t own, int64_t other, double lambda, int64_t classes,
                    float *to);

/* A sample as hrn_mix takes it, in one block of memory: this head, the RGBX pixels behind it, and,
 * if the plan erases, room for a finished sample of which only the erased boxes are written. It
 * holds bytes and not finished values, because that is a quarter of the traffic of float32, and the
 * mixing writes the finished values anyway. */
typedef struct hrn_unmixed {
  int32_t erasings;
  hrn_box erased[HRN_MAX_ERASINGS];
} hrn_unmixed;

/* Where the pixels begin: behind a whole number of cache lines. */
enum { HRN_UNMIXED_HEAD = (sizeof(hrn_unmixed) + 63) / 64 * 64 };

static inline uint8_t *hrn_unmixed_pixels(const void *unmixed) {
  return (uint8_t *)(uintptr_t)unmixed + HRN_UNMIXED_HEAD;
}

/* The image that the last stage of a sample must write into. */
hrn_image hrn_unmixed_image(const hrn_plan *plan, void *unmixed);

/* Notes a program's erasings and fills their boxes. It is called before the stages, because rows
 * may be mixed while they are made. */
void hrn_unmixed_erase(const hrn_program *program, const hrn_plan *plan, const hrn_key *key,
                       void *unmixed);

/* Puts the erased values into a patch whose pixels are already written. */
void hrn_patch_erase(const hrn_plan *plan, const void *unmixed, const hrn_patch *patch);

/* One of two samples that are mixed. */
typedef struct hrn_source {
  hrn_unmixed head;
  const uint8_t *pixels, *erased;
} hrn_source;

/* Two samples that are mixed, and where the result goes. */
struct hrn_mixer {
  const hrn_plan *plan;
  hrn_source own, other;
  float share[2];
  uint8_t *destination;
};

/* Mixes two samples row by row. Both heads must be there at the start, and the pixels of a row
 * before hrn_mixer_row is called for it. */
hrn_mixer hrn_mixer_of(const hrn_plan *plan, const void *own, const void *other, double lambda,
                       void *destination);
void hrn_mixer_row(const hrn_mixer *mixer, int32_t y);

#endif
