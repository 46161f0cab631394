/* check.c: checks the parameters of groups, of random ops on pixels and of erasings. */
#include "check.h"
#include "pixel_draw.h"

#define TURN 1e6 /* degrees */

/* The greatest factor of colours. The greatest jitter, 1e9, reaches 1 more than itself. */
#define MAX_FACTOR (1e9 + 1)

static int centre(int32_t index, const double *at, hrn_status *status) {
  return hrn_within(index, "centre", at[0], -1e9, 1e9, status) &&
         hrn_within(index, "centre", at[1], -1e9, 1e9, status);
}

/* Chains of at most `depth` ops (0 stands for 3) must fit in one image's list. */
static int chains(int32_t index, int32_t count, int32_t depth, double alpha, hrn_status *status) {
  return hrn_within(index, "number of chains", count, 1, HRN_MAX_CHAINS, status) &&
         hrn_within(index, "length of a chain", depth, 0, HRN_MAX_PIXEL_OPS, status) &&
         hrn_within(index, "alpha", alpha, 1e-3, 1e3, status) &&
         hrn_within(index, "number of ops in all chains", count * ((depth ? depth : 3) + 1) + 2, 0,
                    HRN_MAX_PIXEL_OPS, status);
}

static int timm(const hrn_op *op, int32_t index, hrn_status *status) {
  const hrn_op_timm *t = &op->timm;
  hrn_op fixed = *op; /* drawn or fixed, the filter is one of a warp's */
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
         hrn_check_warp(&fixed, index, status);
}

static int aug_mix(const hrn_op *op, int32_t index, hrn_status *status) {
  const hrn_op_aug_mix *m = &op->aug_mix;
  return hrn_within(index, "severity", m->severity, 1, 10, status) &&
         hrn_within(index, "all ops", m->all_ops, 0, 1, status) &&
         hrn_within(index, "fill or none", m->fills, 0, 1, status) &&
         chains(index, m->chains, m->depth, m->alpha, status) &&
         hrn_check_tensor_warp(op, index, status);
}

static int augment(const hrn_op *op, int32_t index, hrn_status *status) {
  const hrn_op_augment *a = &op->augment;
  if (op->kind == HRN_OP_AUTO_AUGMENT) {
    return hrn_within(index, "policy", a->policy, HRN_POLICY_IMAGENET, HRN_POLICY_SVHN, status) &&
           hrn_check_warp(op, index, status);
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
  return hrn_check_warp(op, index, status);
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
    return hrn_interval(index, "scale", e->scale, 0, 1, status) &&
           hrn_interval(index, "ratio", e->ratio, 1e-6, 1e6, status);
  }
  const int32_t sides[4] = {e->box.top, e->box.left, e->box.height, e->box.width};
  for (int k = 0; k < 4; k++) {
    if (!hrn_within(index, "side of the box", sides[k], 0, HRN_MAX_LENGTH, status)) return 0;
  }
  return 1;
}

static int affine(const hrn_op *op, int32_t index, hrn_status *status) {
  const hrn_op_affine *a = &op->affine;
  return hrn_interval(index, "degrees", a->degrees, -TURN, TURN, status) &&
         hrn_within(index, "translate", a->translate[0], 0, 1, status) &&
         hrn_within(index, "translate", a->translate[1], 0, 1, status) &&
         hrn_interval(index, "scale", a->scale, 1e-6, 1e6, status) &&
         hrn_interval(index, "shear", a->shear_x, -TURN, TURN, status) &&
         hrn_interval(index, "shear", a->shear_y, -TURN, TURN, status) &&
         centre(index, a->centre, status) && hrn_check_warp(op, index, status);
}

static int fixed_affine(const hrn_op *op, int32_t index, hrn_status *status) {
  const hrn_op_fixed_affine *a = &op->fixed_affine;
  for (int k = 0; k < 2; k++) {
    if (!hrn_within(index, "translate", a->translate[k], -1e9, 1e9, status) ||
        !hrn_within(index, "shear", a->shear[k], -1e9, 1e9, status)) {
      return 0;
    }
  }
  return hrn_within(index, "angle", a->angle, -1e9, 1e9, status) &&
         hrn_within(index, "scale", a->scale, 1e-6, 1e6, status) &&
         centre(index, a->centre, status) && hrn_check_warp(op, index, status);
}

int hrn_check_augmentation(const hrn_op *op, int32_t index, hrn_status *status) {
  switch (op->kind) {
    case HRN_OP_APPLY:
      return hrn_within(index, "probability", op->group.probability, 0, 1, status) &&
             hrn_within(index, "weight", op->group.weight, 0, 1e9, status);
    case HRN_OP_CHOICE:
    case HRN_OP_ORDER:
    case HRN_OP_CHANNEL_PERMUTATION:
      return 1;
    case HRN_OP_PIXEL:
      return hrn_check_pixel(op, index, status);
    case HRN_OP_FIXED_AFFINE:
      return fixed_affine(op, index, status);
    case HRN_OP_FIXED_ROTATION:
      return hrn_within(index, "expand", op->fixed_rotation.expand, 0, 1, status) &&
             hrn_within(index, "angle", op->fixed_rotation.angle, -1e9, 1e9, status) &&
             centre(index, op->fixed_rotation.centre, status) && hrn_check_warp(op, index, status);
    case HRN_OP_COLOR_JITTER:
      return hrn_interval(index, "brightness", op->colour.factor[0], 0, MAX_FACTOR, status) &&
             hrn_interval(index, "contrast", op->colour.factor[1], 0, MAX_FACTOR, status) &&
             hrn_interval(index, "saturation", op->colour.factor[2], 0, MAX_FACTOR, status) &&
             hrn_interval(index, "hue", op->colour.factor[3], -0.5, 0.5, status);
    case HRN_OP_GAUSSIAN_BLUR:
      return hrn_check_kernel(index, op->blur.kernel[0], status) &&
             hrn_check_kernel(index, op->blur.kernel[1], status) &&
             hrn_interval(index, "sigma", op->blur.sigma, 1e-6, 1e9, status);
    case HRN_OP_JPEG:
      return hrn_within(index, "quality", op->quality[0], 1, 100, status) &&
             hrn_within(index, "greatest quality", op->quality[1], op->quality[0], 100, status);
    case HRN_OP_PILLOW_BLUR:
      return hrn_interval(index, "radius", op->radius, 0, HRN_MAX_RADIUS, status);
    case HRN_OP_GAUSSIAN_NOISE:
      return hrn_check_noise(index, op->noise.mean, op->noise.deviation, status);
    case HRN_OP_ELASTIC:
      return hrn_check_elastic(op, index, op->elastic.alpha, op->elastic.sigma,
                               &op->elastic.outside, status);
    case HRN_OP_ROTATION:
      return hrn_interval(index, "degrees", op->rotation.degrees, -TURN, TURN, status) &&
             centre(index, op->rotation.centre, status) && hrn_check_warp(op, index, status);
    case HRN_OP_AFFINE:
      return affine(op, index, status);
    case HRN_OP_PERSPECTIVE:
      return hrn_within(index, "distortion scale", op->distortion, 0, 1, status) &&
             hrn_check_warp(op, index, status);
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
