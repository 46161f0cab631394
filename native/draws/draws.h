/* draws.h: what random ops draw from. */
#ifndef HEADRACE_DRAWS_DRAWS_H
#define HEADRACE_DRAWS_DRAWS_H

#include <stdint.h>

#include "../core/philox.h"

/* What an op that looks at a sample's boxes has come to; a height of 0: the image stays as it is.
 */
typedef struct hrn_settled_crop {
  int32_t top, left, height, width;
} hrn_settled_crop;
#define HRN_MAX_IOU_CROPS 4 /* of a plan */

/* What a random op draws is a pure function of these and of the op's place in the plan:
 * Philox 4x64-10 with key (seed, epoch) and counter (block, view << 32 | op, draw, sample). `view`
 * tells several views of one sample apart: 0 of the only one.
 *
 * crop[0..settled) is what the first HRN_OP_IOU_CROPs that a walk of the plan meets have drawn
 * (hrn_plan_iou_crop). That depends on the sample's boxes, which nothing here knows. */
typedef struct hrn_key {
  uint64_t seed, epoch, sample, draw;
  uint32_t view;
  int32_t settled;
  hrn_settled_crop crop[HRN_MAX_IOU_CROPS];
} hrn_key;

/* Four words of an op of one sample. */
hrn_philox_block hrn_draw_block(const hrn_key *key, int32_t op, uint64_t block);

/* A stream of words for one op of one sample: block after block of the counter (block, op, draw,
 * sample). */
typedef struct hrn_draws {
  const hrn_key *key;
  int32_t op;
  uint64_t taken; /* words */
  hrn_philox_block block;
} hrn_draws;

hrn_draws hrn_draws_of(const hrn_key *key, int32_t op);
uint64_t hrn_draw_word(hrn_draws *draws);
double hrn_draw_between(hrn_draws *draws, double low, double high);
int32_t hrn_draw_below(hrn_draws *draws, int32_t n); /* n > 0 */

/* distributions.c: two standard normal values from two words, by Box and Muller; one; and `count`
 * shares of a symmetric Dirichlet distribution, which for two is a beta distribution. The last
 * takes as many words as chance wants. */
void hrn_normal_pair(uint64_t first, uint64_t second, double pair[2]);
double hrn_draw_normal(hrn_draws *draws);
void hrn_draw_dirichlet(hrn_draws *draws, double alpha, int32_t count, double *share);

#endif
