/* timm.c: RandAugment, AutoAugment, 3-Augment and AugMix with timm 1.0's ops, magnitudes and draws.
 * They differ from torchvision's: a level from 0 to 10 instead of a bin, a normal deviation of it,
 * a probability of each op, and a filter that is drawn.
 *
 * Policies: v0 is that of EfficientNet's implementation for TPUs. "original" is AutoAugment's own
 * for ImageNet, which is in policies.c. 3-Augment: Touvron et al., "DeiT III", 2022.
 */
#include <math.h>

#include "policy.h"

/* How levels become arguments: whether a higher level does more, and which of three ways of
 * posterizing is meant. */
enum posterize { FEWER_FROM_0 = 0, FEWER_FROM_4, FEWER_FROM_8 };
typedef struct manner {
  int increasing;
  enum posterize posterize;
} manner;

typedef struct choice {
  enum op_name name;
  double weight;
} choice;

static const choice all[] = {{AUTO_CONTRAST, 1}, {EQUALIZE, 1},    {INVERT, 1},       {ROTATE, 1},
                             {POSTERIZE, 1},     {SOLARIZE, 1},    {SOLARIZE_ADD, 1}, {COLOR, 1},
                             {CONTRAST, 1},      {BRIGHTNESS, 1},  {SHARPNESS, 1},    {SHEAR_X, 1},
                             {SHEAR_Y, 1},       {TRANSLATE_X, 1}, {TRANSLATE_Y, 1}};
static const choice three[] = {{SOLARIZE, 1}, {DESATURATE, 1}, {BLUR, 1}};
static const choice weighted_three[] = {
    {SOLARIZE, 6}, {DESATURATE, 6}, {BLUR, 6},          {ROTATE, 3}, {SHEAR_X, 2},
    {SHEAR_Y, 2},  {POSTERIZE, 1},  {AUTO_CONTRAST, 1}, {COLOR, 1},  {SHARPNESS, 1},
    {CONTRAST, 1}, {BRIGHTNESS, 1}, {EQUALIZE, 1},      {INVERT, 1}};
static const choice weighted[] = {{ROTATE, 3},          {SHEAR_X, 2},          {SHEAR_Y, 2},
                                  {TRANSLATE_X, 1},     {TRANSLATE_Y, 1},      {COLOR, 0.25},
                                  {SHARPNESS, 0.25},    {AUTO_CONTRAST, 0.25}, {SOLARIZE, 0.05},
                                  {SOLARIZE_ADD, 0.05}, {CONTRAST, 0.05},      {BRIGHTNESS, 0.05},
                                  {EQUALIZE, 0.05},     {POSTERIZE, 0.05},     {INVERT, 0.05}};
static const choice mixed[] = {{AUTO_CONTRAST, 1}, {COLOR, 1},    {CONTRAST, 1}, {BRIGHTNESS, 1},
                               {SHARPNESS, 1},     {EQUALIZE, 1}, {ROTATE, 1},   {POSTERIZE, 1},
                               {SOLARIZE, 1},      {SHEAR_X, 1},  {SHEAR_Y, 1},  {TRANSLATE_X, 1},
                               {TRANSLATE_Y, 1}};

enum { MOST_CHOICES = sizeof all / sizeof all[0] };
#define SET(choices, one_by_one, does_more, way)                                          \
  {                                                                                       \
    (choices), sizeof(choices) / sizeof(choices)[0], (one_by_one), { (does_more), (way) } \
  }
static const struct set {
  const choice *choices;
  int32_t count;
  int unlike; /* no op twice for one image */
  manner manner;
} sets[] = {[HRN_TIMM_RAND] = SET(all, 0, 0, FEWER_FROM_0),
            [HRN_TIMM_RAND_INCREASING] = SET(all, 0, 1, FEWER_FROM_4),
            [HRN_TIMM_RAND_3A] = SET(three, 0, 1, FEWER_FROM_4),
            [HRN_TIMM_RAND_3A_WEIGHTED] = SET(weighted_three, 1, 1, FEWER_FROM_4),
            [HRN_TIMM_RAND_WEIGHTED] = SET(weighted, 1, 1, FEWER_FROM_4),
            [HRN_TIMM_AUGMIX] = SET(mixed, 0, 1, FEWER_FROM_4)};

static const hrn_policy_step policy_v0[HRN_POLICY_LINES][2] = {
    {{EQUALIZE, 0.8, 1}, {SHEAR_Y, 0.8, 4}},
    {{COLOR, 0.4, 9}, {EQUALIZE, 0.6, 3}},
    {{COLOR, 0.4, 1}, {ROTATE, 0.6, 8}},
    {{SOLARIZE, 0.8, 3}, {EQUALIZE, 0.4, 7}},
    {{SOLARIZE, 0.4, 2}, {SOLARIZE, 0.6, 2}},
    {{COLOR, 0.2, 0}, {EQUALIZE, 0.8, 8}},
    {{EQUALIZE, 0.4, 8}, {SOLARIZE_ADD, 0.8, 3}},
    {{SHEAR_X, 0.2, 9}, {ROTATE, 0.6, 8}},
    {{COLOR, 0.6, 1}, {EQUALIZE, 1.0, 2}},
    {{INVERT, 0.4, 9}, {ROTATE, 0.6, 0}},
    {{EQUALIZE, 1.0, 9}, {SHEAR_Y, 0.6, 3}},
    {{COLOR, 0.4, 7}, {EQUALIZE, 0.6, 0}},
    {{POSTERIZE, 0.4, 6}, {AUTO_CONTRAST, 0.4, 7}},
    {{SOLARIZE, 0.6, 8}, {COLOR, 0.6, 9}},
    {{SOLARIZE, 0.2, 4}, {ROTATE, 0.8, 9}},
    {{ROTATE, 1.0, 7}, {TRANSLATE_Y, 0.8, 9}},
    {{SHEAR_X, 0.0, 0}, {SOLARIZE, 0.8, 4}},
    {{SHEAR_Y, 0.8, 0}, {COLOR, 0.6, 4}},
    {{COLOR, 1.0, 0}, {ROTATE, 0.6, 2}},
    {{EQUALIZE, 0.8, 4}, {EQUALIZE, 0.0, 8}},
    {{EQUALIZE, 1.0, 4}, {AUTO_CONTRAST, 0.6, 2}},
    {{SHEAR_Y, 0.4, 7}, {SOLARIZE_ADD, 0.6, 7}},
    {{POSTERIZE, 0.8, 2}, {SOLARIZE, 0.6, 10}},
    {{SOLARIZE, 0.6, 8}, {EQUALIZE, 0.6, 1}},
    {{COLOR, 0.8, 6}, {ROTATE, 0.4, 5}}};
static const hrn_policy_step policy_3a[] = {
    {SOLARIZE, 1, 5}, {DESATURATE, 1, 10}, {BLUR_UP_TO, 1, 10}};

/* The words of one op. All are taken, whether they are needed or not. */
typedef struct words {
  double chance, deviation, share; /* of the magnitude: normal and uniform */
  int negative;
  int32_t filter;
  double blur;
} words;

static words take(hrn_draws *draws) {
  words w;
  w.chance = hrn_uniform(hrn_draw_word(draws));
  const uint64_t first = hrn_draw_word(draws);
  double pair[2];
  hrn_normal_pair(first, hrn_draw_word(draws), pair);
  w.deviation = pair[0];
  w.share = hrn_uniform(first);
  w.negative = hrn_uniform(hrn_draw_word(draws)) > 0.5;
  w.filter = hrn_draw_below(draws, 2) ? HRN_BICUBIC : HRN_BILINEAR;
  w.blur = hrn_uniform(hrn_draw_word(draws));
  return w;
}

/* A tenth of a magnitude as it is for one image. */
static double level(const hrn_op *op, double magnitude, const words *w) {
  if (op->timm.deviation < 0) {
    magnitude *= w->share;
  } else if (op->timm.deviation > 0) {
    magnitude += w->deviation * op->timm.deviation;
  }
  return fmax(0, fmin(magnitude, op->timm.most)) / 10;
}

/* The argument of an op at a level. */
static double argument(const hrn_op *op, const manner *how, enum op_name name, double level,
                       const words *w) {
  const double sign = w->negative ? -1 : 1;
  switch (name) {
    case ROTATE:
      return sign * (level * 30);
    case SHEAR_X:
    case SHEAR_Y:
      return sign * (level * 0.3);
    case TRANSLATE_X:
    case TRANSLATE_Y:
      return sign * (level * op->timm.translation);
    case COLOR:
    case CONTRAST:
    case BRIGHTNESS:
    case SHARPNESS:
      return how->increasing ? fmax(0.1, 1 + sign * (level * 0.9)) : level * 1.8 + 0.1;
    case POSTERIZE: {
      const double bits = trunc(level * 4);
      if (how->posterize == FEWER_FROM_4) return 4 - bits;
      return how->posterize == FEWER_FROM_8 ? bits + 4 : bits;
    }
    case SOLARIZE: {
      const double threshold = fmin(256, trunc(level * 256));
      return how->increasing ? 256 - threshold : threshold;
    }
    case SOLARIZE_ADD:
      return fmin(128, trunc(level * 110));
    case DESATURATE:
      return fmin(1, fmax(0, 1 - fmax(0.5, fmin(1, 0.5 + 0.5 * level))));
    case BLUR:
      return fmax(0.1, fmin(2, 0.1 + (2 - 0.1) * level));
    case BLUR_UP_TO:
      return 0.1 + (2 * fmax(0, fmin(1, level)) - 0.1) * w->blur;
    default:
      return 0;
  }
}

static void map(double *to, double a, double b, double c, double d, double e, double f) {
  const double values[6] = {a, b, c, d, e, f};
  for (int k = 0; k < 6; k++) to[k] = values[k];
}

/* Appends one op for one image, if its chance is drawn. */
static int augment(const hrn_op *op, const manner *how, const hrn_policy_step *step,
                   hrn_draws *draws, int32_t width, int32_t height, hrn_pixel_list *list,
                   hrn_status *status) {
  const words w = take(draws);
  if (step->probability < 1 && w.chance > step->probability) return HRN_OK;
  hrn_pixel_op *pixel = hrn_pixel_append(list, hrn_policy_kind(step->name), status);
  if (pixel == NULL) return status->code;
  pixel->filter = op->filter == HRN_FILTER_DRAWN ? w.filter : op->filter;
  for (int c = 0; c < 3; c++) pixel->fill[c] = (uint8_t)op->fill[c];
  hrn_pixel_args *args = &pixel->args;
  hrn_pixel_affine *affine = &args->affine;
  const double found = argument(op, how, step->name, level(op, step->magnitude, &w), &w);
  switch (step->name) {
    case SHEAR_X:
      map(affine->coefficients, 1, found, 0, 0, 1, 0);
      break;
    case SHEAR_Y:
      map(affine->coefficients, 1, 0, 0, found, 1, 0);
      break;
    case TRANSLATE_X:
      map(affine->coefficients, 1, 0, found * width, 0, 1, 0);
      break;
    case TRANSLATE_Y:
      map(affine->coefficients, 1, 0, 0, 0, 1, found * height);
      break;
    case ROTATE:
      hrn_rotation_map(found, NULL, 0, width, height, affine->coefficients, &pixel->filter,
                       affine->size);
      break;
    case POSTERIZE:
      /* With no bits left the image is black. Pillow did that until it began to refuse it. */
      args->bits = (int32_t)fmax(0, fmin(8, found));
      break;
    case SOLARIZE_ADD:
      args->solarize_add = (hrn_pixel_solarize_add){(int32_t)found, 128};
      break;
    case BLUR:
    case BLUR_UP_TO:
      args->radius[0] = args->radius[1] = found;
      break;
    case SOLARIZE:
      args->threshold = found;
      break;
    default: /* the enhancers; the other ops have no arguments */
      args->factor = found;
      break;
  }
  return HRN_OK;
}

/* Chooses one of a set's ops that is not left out, by weight. */
static int32_t choose(const struct set *set, const uint8_t *out, double word) {
  double sum = 0;
  for (int32_t k = 0; k < set->count; k++) sum += out[k] ? 0 : set->choices[k].weight;
  double rest = word * sum;
  int32_t last = 0;
  for (int32_t k = 0; k < set->count; k++) {
    if (out[k]) continue;
    last = k;
    if (rest < set->choices[k].weight) break;
    rest -= set->choices[k].weight;
  }
  return last;
}

static int rand_augment(const hrn_op *op, hrn_draws *draws, int32_t width, int32_t height,
                        hrn_pixel_list *list, hrn_status *status) {
  const struct set *set = &sets[op->timm.set];
  uint8_t out[MOST_CHOICES] = {0};
  for (int32_t k = 0; k < op->timm.layers; k++) {
    const int32_t chosen = choose(set, out, hrn_uniform(hrn_draw_word(draws)));
    out[chosen] = (uint8_t)set->unlike;
    const hrn_policy_step step = {set->choices[chosen].name, op->timm.probability,
                                  op->timm.magnitude};
    if (augment(op, &set->manner, &step, draws, width, height, list, status) != HRN_OK) break;
  }
  return status->code;
}

static int augmix(const hrn_op *op, hrn_draws *draws, int32_t width, int32_t height,
                  hrn_pixel_list *list, hrn_status *status) {
  const struct set *set = &sets[HRN_TIMM_AUGMIX];
  const uint8_t out[MOST_CHOICES] = {0};
  double weights[HRN_MAX_CHAINS], blend[2];
  hrn_draw_dirichlet(draws, op->timm.alpha, op->timm.layers, weights);
  hrn_draw_dirichlet(draws, op->timm.alpha, 2, blend);
  if (hrn_mix_begin(list, 0, status) != HRN_OK) return status->code;
  for (int32_t chain = 0; chain < op->timm.layers; chain++) {
    const int32_t drawn = 1 + hrn_draw_below(draws, 3),
                  depth = op->timm.depth > 0 ? op->timm.depth : drawn;
    for (int32_t k = 0; k < depth; k++) {
      const int32_t chosen = choose(set, out, hrn_uniform(hrn_draw_word(draws)));
      const hrn_policy_step step = {set->choices[chosen].name, 1, op->timm.magnitude};
      if (augment(op, &set->manner, &step, draws, width, height, list, status) != HRN_OK) {
        return status->code;
      }
    }
    if (hrn_mix_chain(list, (double)(float)weights[chain], status) != HRN_OK) return status->code;
  }
  return hrn_mix_end(list, (double)(float)blend[0], status);
}

static int auto_augment(const hrn_op *op, hrn_draws *draws, int32_t width, int32_t height,
                        hrn_pixel_list *list, hrn_status *status) {
  if (op->timm.set == HRN_TIMM_AUTO_3A) {
    const hrn_policy_step *step = &policy_3a[hrn_draw_below(draws, 3)];
    const manner how = {0, FEWER_FROM_0};
    return augment(op, &how, step, draws, width, height, list, status);
  }
  const int original =
      op->timm.set == HRN_TIMM_AUTO_ORIGINAL || op->timm.set == HRN_TIMM_AUTO_ORIGINALR;
  const manner how = {0, op->timm.set == HRN_TIMM_AUTO_V0         ? FEWER_FROM_0
                         : op->timm.set == HRN_TIMM_AUTO_ORIGINAL ? FEWER_FROM_8
                                                                  : FEWER_FROM_4};
  const int32_t line = hrn_draw_below(draws, HRN_POLICY_LINES);
  for (int k = 0; k < 2; k++) {
    const hrn_policy_step *step =
        original ? &hrn_policies[HRN_POLICY_IMAGENET][line][k] : &policy_v0[line][k];
    if (augment(op, &how, step, draws, width, height, list, status) != HRN_OK) break;
  }
  return status->code;
}

int32_t hrn_timm_choices(int32_t set) {
  return set <= HRN_TIMM_AUGMIX && sets[set].unlike ? sets[set].count : HRN_MAX_PIXEL_OPS;
}

int hrn_timm_draw(const hrn_op *op, hrn_draws *draws, int32_t width, int32_t height,
                  hrn_pixel_list *list, hrn_status *status) {
  if (op->timm.set == HRN_TIMM_AUGMIX) return augmix(op, draws, width, height, list, status);
  if (op->timm.set < HRN_TIMM_AUGMIX) return rand_augment(op, draws, width, height, list, status);
  return auto_augment(op, draws, width, height, list, status);
}
