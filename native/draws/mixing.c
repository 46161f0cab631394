/* mixing.c: what MixUp and CutMix draw, distributed as by torchvision 0.29 and timm 1.0.31.
 *
 * The counter is (block, op, begin, place): where the step begins that all ranks take together, and
 * which of its places is meant (0 if one draw is for the whole batch). As in draw.c, the words that
 * are taken are a promise, which golden vectors check. Block 0 has a word for whether anything is
 * done, one for which of the two, and two for lambda. Block 1 has the words of the box.
 */
#include <math.h>
#include <string.h>

#include "mixing.h"
#include "op.h"

#if defined(__clang__) /* gcc contracts nothing under -std=c11; clang has to be told */
#pragma STDC FP_CONTRACT OFF
#endif

/* Beta(alpha, alpha) from two uniform words, exactly, for every alpha. Bailey's polar method
 * (Mathematics of Computation 62, 1994) gives Student's t with 2 alpha degrees of freedom, and a
 * symmetric beta is a function of that (Devroye, Non-Uniform Random Variate Generation, 1986,
 * IX.4). No attempt is ever refused, so there is no loop that needs a bound. */
static double symmetric_beta(double alpha, uint64_t first, uint64_t second) {
  const double u = 1.0 - hrn_uniform(first); /* never 0 */
  const double cosine = cos(2 * 3.14159265358979323846 * hrn_uniform(second));
  const double e = 1.0 / (expm1((0.0 - log(u)) / alpha) * cosine * cosine);
  if (!(e < 1e300)) return 0.5;
  /* (1 - 1 / sqrt(1 + e)) / 2, without the cancellation. */
  const double root = sqrt(1.0 + e), tail = e / (2.0 * root * (root + 1.0));
  return cosine < 0 ? tail : 1.0 - tail;
}

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
static int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

/* The part of [from, to) that lies in [0, length): where it begins and how long it is. */
static void clip(int32_t from, int32_t to, int32_t length, int32_t *begin, int32_t *count) {
  const int32_t low = most(from, 0), high = least(to, length);
  *begin = low;
  *count = high - low;
}

static double uncovered(const hrn_mixing *m, int32_t width, int32_t height) {
  return 1.0 - (double)((int64_t)m->width * m->height) / (double)((int64_t)width * height);
}

/* torchvision's box: half sides are rounded down, around a pixel of the image. */
static void box_of_torchvision(const hrn_philox_block *words, int32_t width, int32_t height,
                               hrn_mixing *m) {
  const int32_t x = (int32_t)hrn_below(words->word[0], (uint64_t)width);
  const int32_t y = (int32_t)hrn_below(words->word[1], (uint64_t)height);
  const double r = 0.5 * sqrt(1.0 - m->drawn);
  const int32_t half_width = (int32_t)(r * width), half_height = (int32_t)(r * height);
  clip(x - half_width, x + half_width, width, &m->left, &m->width);
  clip(y - half_height, y + half_height, height, &m->top, &m->height);
  m->lambda = uncovered(m, width, height);
}

/* timm's box: whole sides are rounded down. If NumPy has lambda as a float32, its products are
 * float32 as well. */
static void box_of_timm(const hrn_mix_op *op, const hrn_philox_block *words, int32_t width,
                        int32_t height, hrn_mixing *m) {
  const int32_t y = (int32_t)hrn_below(words->word[0], (uint64_t)height);
  const int32_t x = (int32_t)hrn_below(words->word[1], (uint64_t)width);
  int32_t cut_height, cut_width;
  if (op->unit == HRN_MIX_BATCH) {
    const double ratio = sqrt(1.0 - m->drawn);
    cut_height = (int32_t)((double)height * ratio);
    cut_width = (int32_t)((double)width * ratio);
  } else {
    const float ratio = sqrtf(1.0f - (float)m->drawn);
    const float down = (float)height * ratio, across = (float)width * ratio;
    cut_height = (int32_t)down;
    cut_width = (int32_t)across;
  }
  clip(y - cut_height / 2, y + (cut_height + 1) / 2, height, &m->top, &m->height);
  clip(x - cut_width / 2, x + (cut_width + 1) / 2, width, &m->left, &m->width);
  if (op->correct) m->lambda = uncovered(m, width, height);
}

/* cutmix_minmax: sides between two shares of the image's sides, at a place inside the image. */
static void box_of_shares(const hrn_mix_op *op, const hrn_philox_block *words, int32_t width,
                          int32_t height, hrn_mixing *m) {
  int32_t low = (int32_t)(height * op->shares[0]), high = (int32_t)(height * op->shares[1]);
  m->height = low + (int32_t)hrn_below(words->word[0], (uint64_t)(high - low));
  low = (int32_t)(width * op->shares[0]);
  high = (int32_t)(width * op->shares[1]);
  m->width = low + (int32_t)hrn_below(words->word[1], (uint64_t)(high - low));
  m->top = (int32_t)hrn_below(words->word[2], (uint64_t)(height - m->height) + 1);
  m->left = (int32_t)hrn_below(words->word[3], (uint64_t)(width - m->width) + 1);
  m->lambda = uncovered(m, width, height);
}

/* NaN fails every comparison, so it is refused. */
static int check_mix_op(const hrn_mix_op *op, uint32_t width, uint32_t height, hrn_status *status) {
  if (op->form < HRN_MIX_TORCHVISION || op->form > HRN_MIX_TIMM || op->unit < HRN_MIX_BATCH ||
      op->unit > HRN_MIX_ELEMENT) {
    return hrn_fail_op(status, HRN_ARGUMENT, op->op, "form %d, unit %d", op->form, op->unit);
  }
  const int positive = op->alpha[0] >= 0 && op->alpha[1] >= 0 && op->alpha[0] + op->alpha[1] > 0;
  if (!positive || !isfinite(op->alpha[0] + op->alpha[1])) {
    return hrn_fail_op(status, HRN_ARGUMENT, op->op, "alpha is %g and %g, must be positive",
                       op->alpha[0], op->alpha[1]);
  }
  if (!(op->weight >= 0 && isfinite(op->weight) && op->probability >= 0 && op->probability <= 1 &&
        op->switching >= 0 && op->switching <= 1)) {
    return hrn_fail_op(status, HRN_ARGUMENT, op->op, "a weight or probability is out of range");
  }
  const double *shares = op->shares;
  if (!(shares[0] >= 0 && shares[0] <= shares[1] && shares[1] <= 1)) {
    return hrn_fail_op(status, HRN_ARGUMENT, op->op, "shares of %g to %g", shares[0], shares[1]);
  }
  /* As in NumPy, the upper bound is never drawn, so a length must exist below it. */
  if (shares[1] > 0 && ((int32_t)(height * shares[0]) >= (int32_t)(height * shares[1]) ||
                        (int32_t)(width * shares[0]) >= (int32_t)(width * shares[1]))) {
    return hrn_fail_op(status, HRN_ARGUMENT, op->op,
                       "no length of %ux%u pixels lies between shares of %g and %g", width, height,
                       shares[0], shares[1]);
  }
  return HRN_OK;
}

int hrn_mix_check(const hrn_mix_list *list, uint32_t width, uint32_t height, hrn_status *status) {
  hrn_status_clear(status);
  if (list->count < 1 || list->count > HRN_MAX_MIX_OPS || width == 0 || height == 0 ||
      width > HRN_MAX_LENGTH || height > HRN_MAX_LENGTH) {
    return hrn_fail(status, HRN_ARGUMENT, -1, "%d ways of mixing samples of %ux%u", list->count,
                    width, height);
  }
  double sum = 0;
  for (int32_t k = 0; k < list->count; k++) {
    if (check_mix_op(&list->ops[k], width, height, status) != HRN_OK) return status->code;
    sum += list->ops[k].weight;
  }
  if (sum > 0 && isfinite(sum)) return HRN_OK;
  return hrn_fail(status, HRN_ARGUMENT, -1, "no weight is above 0");
}

/* torchvision's RandomChoice: chooses one of the ops by their weights. */
static const hrn_mix_op *choose(const hrn_mix_list *list, const hrn_key *key) {
  double sum = 0;
  for (int32_t k = 0; k < list->count; k++) sum += list->ops[k].weight;
  double at = sum * hrn_uniform(hrn_draw_block(key, list->choice, 0).word[0]);
  const hrn_mix_op *chosen = &list->ops[0];
  for (int32_t k = 0; k < list->count; k++) {
    if (list->ops[k].weight <= 0) continue;
    chosen = &list->ops[k];
    if (at < chosen->weight) break;
    at -= chosen->weight;
  }
  return chosen;
}

void hrn_mix_draw(const hrn_mix_list *list, const hrn_key *key, uint32_t width, uint32_t height,
                  hrn_mixing *mixing) {
  memset(mixing, 0, sizeof *mixing);
  mixing->drawn = mixing->lambda = 1.0;
  const hrn_mix_op *op = list->count > 1 ? choose(list, key) : &list->ops[0];
  const hrn_philox_block words = hrn_draw_block(key, op->op, 0);
  if (!(hrn_uniform(words.word[0]) < op->probability)) return;
  const int cuts =
      op->alpha[1] > 0 && (op->alpha[0] <= 0 || hrn_uniform(words.word[1]) < op->switching);
  double lambda = symmetric_beta(op->alpha[cuts], words.word[2], words.word[3]);
  /* torchvision's distribution, and timm's array of one lambda a sample, are float32. */
  const int single = op->form == HRN_MIX_TORCHVISION || op->unit != HRN_MIX_BATCH;
  if (single) lambda = (double)(float)lambda;
  mixing->drawn = mixing->lambda = lambda;
  if (lambda == 1.0 && op->form == HRN_MIX_TIMM) return;
  mixing->kind = HRN_MIX_MIXUP;
  if (!cuts) return;
  mixing->kind = HRN_MIX_CUTMIX;
  const hrn_philox_block box = hrn_draw_block(key, op->op, 1);
  const int32_t across = (int32_t)width, down = (int32_t)height;
  if (op->form == HRN_MIX_TORCHVISION) {
    box_of_torchvision(&box, across, down, mixing);
  } else if (op->shares[1] > 0) {
    box_of_shares(op, &box, across, down, mixing);
  } else {
    box_of_timm(op, &box, across, down, mixing);
  }
  if (op->form == HRN_MIX_TIMM && single) mixing->lambda = (double)(float)mixing->lambda;
}
