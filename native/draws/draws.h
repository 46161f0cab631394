/* draws.h: the random words that ops draw from. */
#ifndef HEADRACE_DRAWS_DRAWS_H
#define HEADRACE_DRAWS_DRAWS_H

#include <stdint.h>

#include "../core/philox.h"

/* The crop that an op which looks at a sample's boxes has drawn. If its height is 0, the image
 * stays as it is. */
typedef struct hrn_settled_crop {
  int32_t top, left, height, width;
} hrn_settled_crop;
#define HRN_MAX_IOU_CROPS 4 /* of a plan */

/* What a random op draws is a pure function of these values and of the op's place in the plan:
 * Philox 4x64-10 with key (seed, epoch) and counter (block, view << 32 | op, draw, sample). `view`
 * distinguishes several views of one sample. A single view has 0.
 *
 * crop[0..settled) is what was drawn (hrn_plan_iou_crop) by the first HRN_OP_IOU_CROPs that a walk
 * of the plan meets. That depends on the sample's boxes, which are not known here. */
typedef struct hrn_key {
  uint64_t seed, epoch, sample, draw;
  uint32_t view;
  int32_t settled;
  hrn_settled_crop crop[HRN_MAX_IOU_CROPS];
} hrn_key;

/* Makes four words for an op of one sample. */
hrn_philox_block hrn_draw_block(const hrn_key *key, int32_t op, uint64_t block);

/* A stream of words for one op of one sample: block after block of the counter (block, op, draw,
 * sample). */
typedef struct hrn_draws {
  const hrn_key *key;
  int32_t op;
  uint64_t taken; /* words taken so far */
  hrn_philox_block block;
} hrn_draws;

hrn_draws hrn_draws_of(const hrn_key *key, int32_t op);
uint64_t hrn_draw_word(hrn_draws *draws);
double hrn_draw_between(hrn_draws *draws, double low, double high);
int32_t hrn_draw_below(hrn_draws *draws, int32_t n); /* n > 0 */

/* distributions.c: two standard normal values from two words, by the method of Box and Muller; one
 * such value; and `count` shares of a symmetric Dirichlet distribution, which for two shares is a
 * beta distribution. How many words the last one takes is random. */
void hrn_normal_pair(uint64_t first, uint64_t second, double pair[2]);
double hrn_draw_normal(hrn_draws *draws);
void hrn_draw_dirichlet(hrn_draws *draws, double alpha, int32_t count, double *share);

#endif
