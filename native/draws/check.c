/* check.c: what the parameters of groups and of ops on pixels must be. Arguments are checked
 * by name before (internal/transform); here nothing may get past that a kernel could not bear.
 */
#include <math.h>

#include "recipe.h"

/* A kernel's side: what torchvision takes for images of this size, and more. */
enum { MAX_KERNEL = HRN_MAX_BLUR };
#define MAX_RADIUS 1000.0 /* of Pillow's blur, the same */

/* Beyond any number that an image has a use for. */
#define HUGE_ARGUMENT 1e9
#define TURN 1e6 /* degrees */

/* Of colours: a jitter of 1e9, the greatest one, reaches to 1 more. */
#define MAX_FACTOR (1e9 + 1)

int hrn_within(int32_t index, const char *what, double value, double low, double high,
               hrn_status *status) {
  if (value >= low && value <= high) return 1; /* also refuses NaN */
  hrn_fail_op(status, HRN_ARGUMENT, index, "%s is %.9g, must be %.9g to %.9g", what, value, low,
              high);
  return 0;
}

/* Checked of every padding and warp, though not all of them show it. */
int hrn_check_fill(const hrn_op *op, int32_t index, hrn_status *status) {
  for (int c = 0; c < 3; c++) {
    if (!hrn_within(index, "fill", op->fill[c], 0, 255, status)) return status->code;
    if (op->fill[c] != floor(op->fill[c])) {
      return hrn_fail_op(status, HRN_ARGUMENT, index, "fill is %g, must be a whole number",
                         op->fill[c]);
    }
  }
  return HRN_OK;
}

static int interval(int32_t index, const char *what, const double *bound, double low, double high,
                    hrn_status *status) {
  return hrn_within(index, what, bound[0], low, high, status) &&
         hrn_within(index, what, bound[1], bound[0], high, status);
}

static int kernel(int32_t index, int32_t size, hrn_status *status) {
  if (!hrn_within(index, "kernel size", size, 1, MAX_KERNEL, status)) return 0;
  if (size % 2 == 1) return 1;
  hrn_fail_op(status, HRN_ARGUMENT, index, "kernel size %d must be odd", size);
  return 0;
}

static int warp(const hrn_op *op, int32_t index, hrn_status *status) {
  if (hrn_check_fill(op, index, status) != HRN_OK) return 0;
  if (op->filter == HRN_NEAREST || op->filter == HRN_BILINEAR || op->filter == HRN_BICUBIC)
    return 1;
  hrn_fail_op(status, HRN_ARGUMENT, index, "a warp has no filter %d", op->filter);
  return 0;
}

static int centre(int32_t index, const double *at, hrn_status *status) {
  return hrn_within(index, "centre", at[0], -1e9, 1e9, status) &&
         hrn_within(index, "centre", at[1], -1e9, 1e9, status);
}

/* With at most 5.8 deviations the noise fits in 16 bits. */
static int noise(int32_t index, double mean, double deviation, hrn_status *status) {
  return hrn_within(index, "mean", mean, -10, 10, status) &&
         hrn_within(index, "standard deviation", deviation, 0, 10, status);
}

/* Displacements by their parameters, or as they are. torchvision refuses a blur along one axis. */
static int elastic(const hrn_op *op, int32_t index, const double *alpha, const double *sigma,
                   double filled, double version, hrn_status *status) {
  for (int k = 0; k < 2; k++) {
    if (!hrn_within(index, "alpha", alpha[k], -1e6, 1e6, status) ||
        !hrn_within(index, "sigma", sigma[k], 0, HRN_MAX_ELASTIC_SIGMA, status) ||
        (sigma[k] > 0 && !hrn_within(index, "other sigma", sigma[1 - k], 1e-6, 1e6, status))) {
      return 0;
    }
  }
  return hrn_within(index, "fill or none", filled, 0, 1, status) &&
         hrn_within(index, "version", version, 1, 2, status) &&
         hrn_within(index, "filter", op->filter == HRN_BICUBIC, 0, 0, status) &&
         warp(op, index, status);
}

/* Chains of at most `depth` ops, of which 0 stands for 3, must fit in one image's list. */
static int chains(int32_t index, int32_t count, int32_t depth, double alpha, hrn_status *status) {
  return hrn_within(index, "number of chains", count, 1, HRN_MAX_CHAINS, status) &&
         hrn_within(index, "length of a chain", depth, 0, HRN_MAX_PIXEL_OPS, status) &&
         hrn_within(index, "alpha", alpha, 1e-3, 1e3, status) &&
         hrn_within(index, "number of ops in all chains", count * ((depth ? depth : 3) + 1) + 2, 0,
                    HRN_MAX_PIXEL_OPS, status);
}

static int timm(const hrn_op *op, int32_t index, hrn_status *status) {
  const hrn_op_timm *t = &op->timm;
  hrn_op fixed = *op; /* drawn or fixed, a filter is one of a warp's */
  if (op->filter == HRN_FILTER_DRAWN) fixed.filter = HRN_BICUBIC;
  if (!hrn_within(index, "set", t->set, HRN_TIMM_RAND, HRN_TIMM_AUTO_3A, status)) return 0;
  if (t->set == HRN_TIMM_AUGMIX) {
    if (!chains(index, t->layers, t->depth, t->alpha, status)) return 0;
  } else if (!hrn_within(index, "number of ops", t->layers, 0, hrn_timm_choices(t->set), status)) {
    return 0;
  }
  return hrn_within(index, "magnitude", t->magnitude, 0, 1 << 20, status) &&
         hrn_within(index, "probability", t->probability, 0, 1, status) &&
         hrn_within(index, "deviation", t->deviation, -1, 1e6, status) &&
         hrn_within(index, "greatest magnitude", t->most, 0, 1 << 20, status) &&
         hrn_within(index, "translation", t->translation, 0, 1, status) &&
         warp(&fixed, index, status);
}

static int aug_mix(const hrn_op *op, int32_t index, hrn_status *status) {
  const hrn_op_aug_mix *m = &op->aug_mix;
  return hrn_within(index, "severity", m->severity, 1, 10, status) &&
         hrn_within(index, "all ops", m->all_ops, 0, 1, status) &&
         hrn_within(index, "fill or none", m->fills, 0, 1, status) &&
         hrn_within(index, "filter", op->filter == HRN_BICUBIC, 0, 0, status) &&
         chains(index, m->chains, m->depth, m->alpha, status) && warp(op, index, status);
}

static int augment(const hrn_op *op, int32_t index, hrn_status *status) {
  const hrn_op_augment *a = &op->augment;
  if (op->kind == HRN_OP_AUTO_AUGMENT) {
    return hrn_within(index, "policy", a->policy, HRN_POLICY_IMAGENET, HRN_POLICY_SVHN, status) &&
           warp(op, index, status);
  }
  if (op->kind == HRN_OP_RAND_AUGMENT &&
      !hrn_within(index, "number of ops", a->ops, 0, HRN_MAX_PIXEL_OPS, status)) {
    return 0;
  }
  if (!hrn_within(index, "bins", a->bins, 1, 1 << 20, status)) return 0;
  if (op->kind == HRN_OP_RAND_AUGMENT &&
      !hrn_within(index, "magnitude", a->magnitude, 0, a->bins - 1, status)) {
    return 0;
  }
  return warp(op, index, status);
}

static int erasing(const hrn_op *op, int32_t index, hrn_status *status) {
  const hrn_op_erasing *e = &op->erasing;
  for (int c = 0; c < 3; c++) {
    if (!hrn_within(index, "value", e->value[c], -1e30, 1e30, status)) return 0;
  }
  if (!hrn_within(index, "fill", e->fill, HRN_ERASE_VALUE, HRN_ERASE_BOX, status) ||
      !hrn_within(index, "fewest boxes", e->boxes[0], 1, HRN_MAX_ERASINGS, status) ||
      !hrn_within(index, "most boxes", e->boxes[1], e->boxes[0], HRN_MAX_ERASINGS, status) ||
      !hrn_within(index, "probability", e->probability, 0, 1, status)) {
    return 0;
  }
  if (op->kind == HRN_OP_CUTOUT) {
    return hrn_within(index, "length", e->side, 1, HRN_MAX_LENGTH, status);
  }
  if (op->kind == HRN_OP_ERASING) {
    return interval(index, "scale", e->scale, 0, 1, status) &&
           interval(index, "ratio", e->ratio, 1e-6, 1e6, status);
  }
  const int32_t sides[4] = {e->box.top, e->box.left, e->box.height, e->box.width};
  for (int k = 0; k < 4; k++) {
    if (!hrn_within(index, "side of the box", sides[k], 0, HRN_MAX_LENGTH, status)) return 0;
  }
  return 1;
}

static int coefficients(int32_t index, const double *p, int count, hrn_status *status) {
  for (int k = 0; k < count; k++) {
    if (!hrn_within(index, "coefficient", p[k], -HUGE_ARGUMENT, HUGE_ARGUMENT, status)) return 0;
  }
  return 1;
}

/* A map of pixels.h, its size or whether it expands, and its numbers. */
static int map(const hrn_op_pixel *pixel, int32_t index, hrn_status *status) {
  const int32_t kind = pixel->i[0], width = pixel->i[2], height = pixel->i[3];
  const int sized = kind == HRN_MAP_COEFFICIENTS && width > 0;
  const int scales = kind == HRN_MAP_AFFINE || kind == HRN_MAP_AFFINE_OF_V2;
  return hrn_within(index, "map", kind, HRN_MAP_COEFFICIENTS, HRN_MAP_ROTATION, status) &&
         hrn_within(index, "width", width, 0, HRN_MAX_LENGTH, status) &&
         hrn_within(index, "height", height, sized, HRN_MAX_LENGTH, status) &&
         (!scales || hrn_within(index, "scale", pixel->p[3], 1e-6, 1e6, status));
}

static int pixel(const hrn_op *op, int32_t index, hrn_status *status) {
  const double huge = HUGE_ARGUMENT, *p = op->pixel.p;
  const int32_t *i = op->pixel.i;
  switch (op->pixel.kind) {
    case HRN_PIXEL_POSTERIZE:
      return hrn_within(index, "bits", i[0], 0, 8, status);
    case HRN_PIXEL_SOLARIZE:
      return hrn_within(index, "threshold", p[0], -huge, huge, status);
    case HRN_PIXEL_BRIGHTNESS:
    case HRN_PIXEL_CONTRAST:
    case HRN_PIXEL_SATURATION:
    case HRN_PIXEL_SHARPNESS:
    case HRN_PIXEL_TENSOR_BRIGHTNESS:
    case HRN_PIXEL_TENSOR_CONTRAST:
    case HRN_PIXEL_TENSOR_SATURATION:
    case HRN_PIXEL_TENSOR_SHARPNESS:
      return hrn_within(index, "factor", p[0], 0, huge, status);
    case HRN_PIXEL_TENSOR_AUTOCONTRAST:
      return 1;
    case HRN_PIXEL_TENSOR_AFFINE:
      return coefficients(index, p, 6, status) &&
             hrn_within(index, "fill or none", i[0], 0, 1, status) &&
             hrn_within(index, "filter", op->filter == HRN_BICUBIC, 0, 0, status) &&
             warp(op, index, status);
    case HRN_PIXEL_HUE:
      return hrn_within(index, "factor", p[0], -0.5, 0.5, status);
    case HRN_PIXEL_GAMMA:
      return hrn_within(index, "gamma", p[0], 0, huge, status) &&
             hrn_within(index, "gain", p[1], -huge, huge, status);
    case HRN_PIXEL_CHANNELS:
      for (int c = 0; c < 3; c++) {
        if (!hrn_within(index, "channel", i[c], 0, 2, status)) return 0;
      }
      return 1;
    case HRN_PIXEL_BLUR:
      return kernel(index, i[0], status) && kernel(index, i[1], status) &&
             hrn_within(index, "sigma", p[0], 1e-6, huge, status) &&
             hrn_within(index, "sigma", p[1], 1e-6, huge, status);
    case HRN_PIXEL_AFFINE:
      return map(&op->pixel, index, status) && coefficients(index, p, 8, status) &&
             warp(op, index, status);
    case HRN_PIXEL_PERSPECTIVE:
      return coefficients(index, p, 8, status) && warp(op, index, status);
    case HRN_PIXEL_SOLARIZE_ADD:
      return hrn_within(index, "addition", i[0], 0, 255, status) &&
             hrn_within(index, "threshold", i[1], 0, 256, status);
    case HRN_PIXEL_USER:
      return hrn_within(index, "function given", i[0] != 0 || i[1] != 0, 1, 1, status);
    case HRN_PIXEL_NOISE:
      return noise(index, p[0], p[1], status);
    case HRN_PIXEL_ELASTIC:
      return elastic(op, index, p, p + 2, p[4], p[5], status);
    case HRN_PIXEL_DISPLACED: {
      const double none[2] = {0, 0};
      return hrn_within(index, "displacements given", i[0] != 0 || i[1] != 0, 1, 1, status) &&
             elastic(op, index, none, none, p[4], p[5], status);
    }
    case HRN_PIXEL_PILLOW_BLUR:
      return hrn_within(index, "radius", p[0], 0, MAX_RADIUS, status) &&
             hrn_within(index, "radius", p[1], 0, MAX_RADIUS, status);
    default:
      return hrn_within(index, "pixel op", op->pixel.kind, HRN_PIXEL_NOTHING, HRN_PIXEL_PILLOW_BLUR,
                        status);
  }
}

static int affine(const hrn_op *op, int32_t index, hrn_status *status) {
  const hrn_op_affine *a = &op->affine;
  return interval(index, "degrees", a->degrees, -TURN, TURN, status) &&
         hrn_within(index, "translate", a->translate[0], 0, 1, status) &&
         hrn_within(index, "translate", a->translate[1], 0, 1, status) &&
         interval(index, "scale", a->scale, 1e-6, 1e6, status) &&
         interval(index, "shear", a->shear_x, -TURN, TURN, status) &&
         interval(index, "shear", a->shear_y, -TURN, TURN, status) &&
         centre(index, a->centre, status) && warp(op, index, status);
}

static int check(const hrn_op *op, int32_t index, hrn_status *status) {
  switch (op->kind) {
    case HRN_OP_APPLY:
      return hrn_within(index, "probability", op->group.probability, 0, 1, status) &&
             hrn_within(index, "weight", op->group.weight, 0, 1e9, status);
    case HRN_OP_CHOICE:
    case HRN_OP_ORDER:
    case HRN_OP_CHANNEL_PERMUTATION:
      return 1;
    case HRN_OP_PIXEL:
      return pixel(op, index, status);
    case HRN_OP_COLOR_JITTER:
      return interval(index, "brightness", op->colour.factor[0], 0, MAX_FACTOR, status) &&
             interval(index, "contrast", op->colour.factor[1], 0, MAX_FACTOR, status) &&
             interval(index, "saturation", op->colour.factor[2], 0, MAX_FACTOR, status) &&
             interval(index, "hue", op->colour.factor[3], -0.5, 0.5, status);
    case HRN_OP_GAUSSIAN_BLUR:
      return kernel(index, op->blur.kernel[0], status) &&
             kernel(index, op->blur.kernel[1], status) &&
             interval(index, "sigma", op->blur.sigma, 1e-6, 1e9, status);
    case HRN_OP_JPEG:
      return hrn_within(index, "quality", op->quality[0], 1, 100, status) &&
             hrn_within(index, "greatest quality", op->quality[1], op->quality[0], 100, status);
    case HRN_OP_PILLOW_BLUR:
      return interval(index, "radius", op->radius, 0, MAX_RADIUS, status);
    case HRN_OP_GAUSSIAN_NOISE:
      return noise(index, op->noise.mean, op->noise.deviation, status);
    case HRN_OP_ELASTIC:
      return elastic(op, index, op->elastic.alpha, op->elastic.sigma, op->elastic.filled,
                     op->elastic.version, status);
    case HRN_OP_ROTATION:
      return interval(index, "degrees", op->rotation.degrees, -TURN, TURN, status) &&
             centre(index, op->rotation.centre, status) && warp(op, index, status);
    case HRN_OP_AFFINE:
      return affine(op, index, status);
    case HRN_OP_PERSPECTIVE:
      return hrn_within(index, "distortion scale", op->distortion, 0, 1, status) &&
             warp(op, index, status);
    case HRN_OP_RAND_AUGMENT:
    case HRN_OP_TRIVIAL_AUGMENT:
    case HRN_OP_AUTO_AUGMENT:
      return augment(op, index, status);
    case HRN_OP_TIMM:
      return timm(op, index, status);
    case HRN_OP_AUG_MIX:
      return aug_mix(op, index, status);
    case HRN_OP_ERASING:
    case HRN_OP_CUTOUT:
    case HRN_OP_ERASE:
      return erasing(op, index, status);
    default:
      hrn_fail_op(status, HRN_ARGUMENT, index, "unknown kind %d", op->kind);
      return 0;
  }
}

int hrn_check_recipe(const hrn_op *op, int32_t index, hrn_status *status) {
  return check(op, index, status) ? HRN_OK : status->code;
}
