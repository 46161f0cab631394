/* check.c: what the parameters of groups and of ops on pixels must be. Arguments are checked
 * by name before (internal/transform); here nothing may get past that a kernel could not bear.
 */
#include <math.h>

#include "recipe.h"

/* A kernel's side: what torchvision takes for images of this size, and more. */
enum { MAX_KERNEL = 1023 };

int hrn_within(int32_t index, const char *what, double value, double low, double high,
               hrn_status *status) {
  if (value >= low && value <= high) return 1; /* also refuses NaN */
  hrn_fail(status, HRN_ARGUMENT, -1, "op %d: %s is %.9g, must be %.9g to %.9g", index, what, value,
           low, high);
  return 0;
}

static int interval(const hrn_op *op, int32_t index, const char *what, int32_t at, double low,
                    double high, hrn_status *status) {
  return hrn_within(index, what, op->p[at], low, high, status) &&
         hrn_within(index, what, op->p[at + 1], op->p[at], high, status);
}

static int kernel(int32_t index, int32_t size, hrn_status *status) {
  if (!hrn_within(index, "kernel size", size, 1, MAX_KERNEL, status)) return 0;
  if (size % 2 == 1) return 1;
  hrn_fail(status, HRN_ARGUMENT, -1, "op %d: kernel size %d must be odd", index, size);
  return 0;
}

static int warp(const hrn_op *op, int32_t index, hrn_status *status) {
  for (int c = 5; c < 8; c++) {
    if (!hrn_within(index, "fill", op->i[c], 0, 255, status)) return 0;
  }
  if (op->filter == HRN_NEAREST || op->filter == HRN_BILINEAR || op->filter == HRN_BICUBIC)
    return 1;
  hrn_fail(status, HRN_ARGUMENT, -1, "op %d: a warp has no filter %d", index, op->filter);
  return 0;
}

/* With at most 5.8 deviations the noise fits in 16 bits. */
static int noise(const hrn_op *op, int32_t index, hrn_status *status) {
  return hrn_within(index, "mean", op->p[0], -10, 10, status) &&
         hrn_within(index, "standard deviation", op->p[1], 0, 10, status);
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
  hrn_op fixed = *op; /* drawn or fixed, a filter is one of a warp's */
  if (op->filter == HRN_FILTER_DRAWN) fixed.filter = HRN_BICUBIC;
  if (!hrn_within(index, "set", op->i[0], HRN_TIMM_RAND, HRN_TIMM_AUTO_3A, status)) return 0;
  if (op->i[0] == HRN_TIMM_AUGMIX) {
    if (!chains(index, op->i[1], op->i[3], op->p[4], status)) return 0;
  } else if (!hrn_within(index, "number of ops", op->i[1], 0, hrn_timm_choices(op->i[0]), status)) {
    return 0;
  }
  return hrn_within(index, "magnitude", op->i[2], 0, 1 << 20, status) &&
         hrn_within(index, "probability", op->p[0], 0, 1, status) &&
         hrn_within(index, "deviation", op->p[1], -1, 1e6, status) &&
         hrn_within(index, "greatest magnitude", op->p[2], 0, 1 << 20, status) &&
         hrn_within(index, "translation", op->p[3], 0, 1, status) && warp(&fixed, index, status);
}

static int erasing(const hrn_op *op, int32_t index, hrn_status *status) {
  for (int c = 5; c < 8; c++) {
    if (!hrn_within(index, "value", op->p[c], -1e30, 1e30, status)) return 0;
  }
  if (!hrn_within(index, "fill", op->i[0], HRN_ERASE_VALUE, HRN_ERASE_BOX, status) ||
      !hrn_within(index, "fewest boxes", op->i[1], 1, HRN_MAX_ERASINGS, status) ||
      !hrn_within(index, "most boxes", op->i[2], op->i[1], HRN_MAX_ERASINGS, status) ||
      !hrn_within(index, "probability", op->p[0], 0, 1, status)) {
    return 0;
  }
  if (op->kind == HRN_OP_CUTOUT) return hrn_within(index, "length", op->i[3], 1, 1 << 24, status);
  if (op->kind == HRN_OP_ERASING) {
    return interval(op, index, "scale", 1, 0, 1, status) &&
           interval(op, index, "ratio", 3, 1e-6, 1e6, status);
  }
  for (int k = 4; k < 8; k++) {
    if (!hrn_within(index, "side of the box", op->i[k], 0, 1 << 24, status)) return 0;
  }
  return 1;
}

static int pixel(const hrn_op *op, int32_t index, hrn_status *status) {
  const double huge = 1e9;
  switch (op->i[0]) {
    case HRN_PIXEL_POSTERIZE:
      return hrn_within(index, "bits", op->i[1], 0, 8, status);
    case HRN_PIXEL_SOLARIZE:
      return hrn_within(index, "threshold", op->p[0], -huge, huge, status);
    case HRN_PIXEL_BRIGHTNESS:
    case HRN_PIXEL_CONTRAST:
    case HRN_PIXEL_SATURATION:
    case HRN_PIXEL_SHARPNESS:
    case HRN_PIXEL_TENSOR_BRIGHTNESS:
    case HRN_PIXEL_TENSOR_CONTRAST:
    case HRN_PIXEL_TENSOR_SATURATION:
    case HRN_PIXEL_TENSOR_SHARPNESS:
      return hrn_within(index, "factor", op->p[0], 0, huge, status);
    case HRN_PIXEL_TENSOR_AUTOCONTRAST:
      return 1;
    case HRN_PIXEL_TENSOR_AFFINE:
      for (int k = 0; k < 6; k++) {
        if (!hrn_within(index, "coefficient", op->p[k], -huge, huge, status)) return 0;
      }
      return hrn_within(index, "fill or none", op->i[1], 0, 1, status) &&
             hrn_within(index, "filter", op->filter == HRN_BICUBIC, 0, 0, status) &&
             warp(op, index, status);
    case HRN_PIXEL_HUE:
      return hrn_within(index, "factor", op->p[0], -0.5, 0.5, status);
    case HRN_PIXEL_GAMMA:
      return hrn_within(index, "gamma", op->p[0], 0, huge, status) &&
             hrn_within(index, "gain", op->p[1], -huge, huge, status);
    case HRN_PIXEL_CHANNELS:
      for (int c = 1; c < 4; c++) {
        if (!hrn_within(index, "channel", op->i[c], 0, 2, status)) return 0;
      }
      return 1;
    case HRN_PIXEL_BLUR:
      return kernel(index, op->i[1], status) && kernel(index, op->i[2], status) &&
             hrn_within(index, "sigma", op->p[0], 1e-6, huge, status) &&
             hrn_within(index, "sigma", op->p[1], 1e-6, huge, status);
    case HRN_PIXEL_AFFINE:
      if (!hrn_within(index, "map", op->i[1], HRN_MAP_COEFFICIENTS, HRN_MAP_ROTATION, status))
        return 0;
      /* A size, or whether to expand. */
      if (!hrn_within(index, "width", op->i[3], 0, 1 << 24, status) ||
          !hrn_within(index, "height", op->i[4], op->i[1] == HRN_MAP_COEFFICIENTS && op->i[3] > 0,
                      1 << 24, status)) {
        return 0;
      }
      if (op->i[1] == HRN_MAP_AFFINE && !hrn_within(index, "scale", op->p[3], 1e-6, 1e6, status)) {
        return 0;
      }
      /* fallthrough */
    case HRN_PIXEL_PERSPECTIVE:
      for (int k = 0; k < 8; k++) {
        if (!hrn_within(index, "coefficient", op->p[k], -huge, huge, status)) return 0;
      }
      return warp(op, index, status);
    case HRN_PIXEL_SOLARIZE_ADD:
      return hrn_within(index, "addition", op->i[1], 0, 255, status) &&
             hrn_within(index, "threshold", op->i[2], 0, 256, status);
    case HRN_PIXEL_USER:
      return hrn_within(index, "function given", op->i[1] != 0 || op->i[2] != 0, 1, 1, status);
    case HRN_PIXEL_NOISE:
      return noise(op, index, status);
    case HRN_PIXEL_PILLOW_BLUR:
      return hrn_within(index, "radius", op->p[0], 0, 1000, status);
    default:
      return hrn_within(index, "pixel op", op->i[0], HRN_PIXEL_NOTHING, HRN_PIXEL_PILLOW_BLUR,
                        status);
  }
}

static int check(const hrn_op *op, int32_t index, hrn_status *status) {
  const double turn = 1e6;
  switch (op->kind) {
    case HRN_OP_APPLY:
      return hrn_within(index, "probability", op->p[0], 0, 1, status) &&
             hrn_within(index, "weight", op->p[1], 0, 1e9, status);
    case HRN_OP_CHOICE:
    case HRN_OP_ORDER:
    case HRN_OP_CHANNEL_PERMUTATION:
      return 1;
    case HRN_OP_PIXEL:
      return pixel(op, index, status);
    case HRN_OP_COLOR_JITTER:
      return interval(op, index, "brightness", 0, 0, 1e9, status) &&
             interval(op, index, "contrast", 2, 0, 1e9, status) &&
             interval(op, index, "saturation", 4, 0, 1e9, status) &&
             interval(op, index, "hue", 6, -0.5, 0.5, status);
    case HRN_OP_GAUSSIAN_BLUR:
      return kernel(index, op->i[0], status) && kernel(index, op->i[1], status) &&
             interval(op, index, "sigma", 0, 1e-6, 1e9, status);
    case HRN_OP_JPEG:
      return hrn_within(index, "quality", op->i[0], 1, 100, status) &&
             hrn_within(index, "greatest quality", op->i[1], op->i[0], 100, status);
    case HRN_OP_GAUSSIAN_NOISE:
      return noise(op, index, status);
    case HRN_OP_ROTATION:
      return interval(op, index, "degrees", 0, -turn, turn, status) &&
             hrn_within(index, "centre", op->p[2], -1e9, 1e9, status) &&
             hrn_within(index, "centre", op->p[3], -1e9, 1e9, status) && warp(op, index, status);
    case HRN_OP_AFFINE:
      return interval(op, index, "degrees", 0, -turn, turn, status) &&
             hrn_within(index, "translate", op->p[2], 0, 1, status) &&
             hrn_within(index, "translate", op->p[3], 0, 1, status) &&
             interval(op, index, "scale", 4, 1e-6, 1e6, status) &&
             interval(op, index, "shear", 6, -turn, turn, status) &&
             interval(op, index, "shear", 8, -turn, turn, status) &&
             hrn_within(index, "centre", op->p[10], -1e9, 1e9, status) &&
             hrn_within(index, "centre", op->p[11], -1e9, 1e9, status) && warp(op, index, status);
    case HRN_OP_PERSPECTIVE:
      return hrn_within(index, "distortion scale", op->p[0], 0, 1, status) &&
             warp(op, index, status);
    case HRN_OP_RAND_AUGMENT:
      return hrn_within(index, "number of ops", op->i[0], 0, HRN_MAX_PIXEL_OPS, status) &&
             hrn_within(index, "bins", op->i[2], 1, 1 << 20, status) &&
             hrn_within(index, "magnitude", op->i[1], 0, op->i[2] - 1, status) &&
             warp(op, index, status);
    case HRN_OP_TRIVIAL_AUGMENT:
      return hrn_within(index, "bins", op->i[0], 1, 1 << 20, status) && warp(op, index, status);
    case HRN_OP_AUTO_AUGMENT:
      return hrn_within(index, "policy", op->i[0], HRN_POLICY_IMAGENET, HRN_POLICY_SVHN, status) &&
             warp(op, index, status);
    case HRN_OP_TIMM:
      return timm(op, index, status);
    case HRN_OP_AUG_MIX:
      return hrn_within(index, "severity", op->i[0], 1, 10, status) &&
             hrn_within(index, "all ops", op->i[3], 0, 1, status) &&
             hrn_within(index, "fill or none", op->i[4], 0, 1, status) &&
             hrn_within(index, "filter", op->filter == HRN_BICUBIC, 0, 0, status) &&
             chains(index, op->i[1], op->i[2], op->p[0], status) && warp(op, index, status);
    case HRN_OP_ERASING:
    case HRN_OP_CUTOUT:
    case HRN_OP_ERASE:
      return erasing(op, index, status);
    default:
      hrn_fail(status, HRN_ARGUMENT, -1, "op %d: unknown kind %d", index, op->kind);
      return 0;
  }
}

int hrn_check_recipe(const hrn_op *op, int32_t index, hrn_status *status) {
  return check(op, index, status) ? HRN_OK : status->code;
}
