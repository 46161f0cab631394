/* checkpixel.c: checks the arguments of a fixed op on pixels. */
#include "check.h"

/* Larger than any number that makes sense for an image. */
#define HUGE_ARGUMENT 1e9

int hrn_check_kernel(int32_t index, int32_t side, hrn_status *status) {
  if (!hrn_within(index, "kernel size", side, 1, HRN_MAX_BLUR, status)) return 0;
  if (side % 2 == 1) return 1;
  hrn_fail_op(status, HRN_ARGUMENT, index, "kernel size %d must be odd", side);
  return 0;
}

int hrn_check_warp(const hrn_op *op, int32_t index, hrn_status *status) {
  if (!hrn_is_fill(index, op, status)) return 0;
  if (op->filter == HRN_NEAREST || op->filter == HRN_BILINEAR || op->filter == HRN_BICUBIC)
    return 1;
  hrn_fail_op(status, HRN_ARGUMENT, index, "a warp has no filter %d", op->filter);
  return 0;
}

int hrn_check_tensor_warp(const hrn_op *op, int32_t index, hrn_status *status) {
  return hrn_within(index, "filter", op->filter == HRN_BICUBIC, 0, 0, status) &&
         hrn_check_warp(op, index, status);
}

/* A normal value is at most 5.8 deviations, so with these bounds the noise fits in 16 bits. */
int hrn_check_noise(int32_t index, double mean, double deviation, hrn_status *status) {
  return hrn_within(index, "mean", mean, -10, 10, status) &&
         hrn_within(index, "standard deviation", deviation, 0, 10, status);
}

static int outside_is_known(int32_t index, const hrn_outside *outside, hrn_status *status) {
  return hrn_within(index, "fill or none", outside->filled, 0, 1, status) &&
         hrn_within(index, "version", outside->version, 1, 2, status);
}

/* torchvision refuses a blur along one axis. */
int hrn_check_elastic(const hrn_op *op, int32_t index, const double alpha[2], const double sigma[2],
                      const hrn_outside *outside, hrn_status *status) {
  for (int k = 0; k < 2; k++) {
    if (!hrn_within(index, "alpha", alpha[k], -1e6, 1e6, status) ||
        !hrn_within(index, "sigma", sigma[k], 0, HRN_MAX_ELASTIC_SIGMA, status) ||
        (sigma[k] > 0 && !hrn_within(index, "other sigma", sigma[1 - k], 1e-6, 1e6, status))) {
      return 0;
    }
  }
  return outside_is_known(index, outside, status) && hrn_check_tensor_warp(op, index, status);
}

static int displaced(const hrn_op *op, int32_t index, hrn_status *status) {
  const hrn_pixel_displaced *d = &op->pixel.args.displaced;
  return hrn_within(index, "displacements given", d->field != 0, 1, 1, status) &&
         outside_is_known(index, &d->outside, status) && hrn_check_tensor_warp(op, index, status);
}

static int coefficients(int32_t index, const double *p, int count, hrn_status *status) {
  for (int k = 0; k < count; k++) {
    if (!hrn_within(index, "coefficient", p[k], -HUGE_ARGUMENT, HUGE_ARGUMENT, status)) return 0;
  }
  return 1;
}

static int affine(const hrn_op *op, int32_t index, hrn_status *status) {
  const hrn_pixel_affine *a = &op->pixel.args.affine;
  return hrn_within(index, "width", a->size[0], 0, HRN_MAX_LENGTH, status) &&
         hrn_within(index, "height", a->size[1], a->size[0] > 0, HRN_MAX_LENGTH, status) &&
         coefficients(index, a->coefficients, 6, status) && hrn_check_warp(op, index, status);
}

static int tensor_affine(const hrn_op *op, int32_t index, hrn_status *status) {
  const hrn_pixel_tensor_affine *a = &op->pixel.args.tensor_affine;
  return coefficients(index, a->coefficients, 6, status) &&
         hrn_within(index, "fill or none", a->filled, 0, 1, status) &&
         hrn_check_tensor_warp(op, index, status);
}

static int channels(const hrn_op *op, int32_t index, hrn_status *status) {
  for (int c = 0; c < 3; c++) {
    if (!hrn_within(index, "channel", op->pixel.args.channels[c], 0, 2, status)) return 0;
  }
  return 1;
}

static int blur(const hrn_op *op, int32_t index, hrn_status *status) {
  const hrn_pixel_blur *b = &op->pixel.args.blur;
  return hrn_check_kernel(index, b->kernel[0], status) &&
         hrn_check_kernel(index, b->kernel[1], status) &&
         hrn_within(index, "sigma", b->sigma[0], 1e-6, HUGE_ARGUMENT, status) &&
         hrn_within(index, "sigma", b->sigma[1], 1e-6, HUGE_ARGUMENT, status);
}

int hrn_check_pixel(const hrn_op *op, int32_t index, hrn_status *status) {
  const double huge = HUGE_ARGUMENT;
  const hrn_pixel_args *args = &op->pixel.args;
  switch (op->pixel.kind) {
    case HRN_PIXEL_NOTHING:
    case HRN_PIXEL_INVERT:
    case HRN_PIXEL_AUTOCONTRAST:
    case HRN_PIXEL_EQUALIZE:
    case HRN_PIXEL_GREY:
    case HRN_PIXEL_TENSOR_AUTOCONTRAST:
      return 1;
    case HRN_PIXEL_POSTERIZE:
      return hrn_within(index, "bits", args->bits, 0, 8, status);
    case HRN_PIXEL_SOLARIZE:
      return hrn_within(index, "threshold", args->threshold, -huge, huge, status);
    case HRN_PIXEL_BRIGHTNESS:
    case HRN_PIXEL_CONTRAST:
    case HRN_PIXEL_SATURATION:
    case HRN_PIXEL_SHARPNESS:
    case HRN_PIXEL_TENSOR_BRIGHTNESS:
    case HRN_PIXEL_TENSOR_CONTRAST:
    case HRN_PIXEL_TENSOR_SATURATION:
    case HRN_PIXEL_TENSOR_SHARPNESS:
      return hrn_within(index, "factor", args->factor, 0, huge, status);
    case HRN_PIXEL_TENSOR_AFFINE:
      return tensor_affine(op, index, status);
    case HRN_PIXEL_HUE:
      return hrn_within(index, "factor", args->factor, -0.5, 0.5, status);
    case HRN_PIXEL_GAMMA:
      return hrn_within(index, "gamma", args->gamma.gamma, 0, huge, status) &&
             hrn_within(index, "gain", args->gamma.gain, -huge, huge, status);
    case HRN_PIXEL_CHANNELS:
      return channels(op, index, status);
    case HRN_PIXEL_BLUR:
      return blur(op, index, status);
    case HRN_PIXEL_AFFINE:
      return affine(op, index, status);
    case HRN_PIXEL_PERSPECTIVE:
      return coefficients(index, args->perspective, 8, status) && hrn_check_warp(op, index, status);
    case HRN_PIXEL_SOLARIZE_ADD:
      return hrn_within(index, "addition", args->solarize_add.add, 0, 255, status) &&
             hrn_within(index, "threshold", args->solarize_add.threshold, 0, 256, status);
    case HRN_PIXEL_USER:
      return hrn_within(index, "function given", args->user.function != 0, 1, 1, status);
    case HRN_PIXEL_NOISE:
      return hrn_check_noise(index, args->noise.mean, args->noise.deviation, status);
    case HRN_PIXEL_ELASTIC:
      return hrn_check_elastic(op, index, args->elastic.alpha, args->elastic.sigma,
                               &args->elastic.outside, status);
    case HRN_PIXEL_DISPLACED:
      return displaced(op, index, status);
    case HRN_PIXEL_PILLOW_BLUR:
      return hrn_within(index, "radius", args->radius[0], 0, HRN_MAX_RADIUS, status) &&
             hrn_within(index, "radius", args->radius[1], 0, HRN_MAX_RADIUS, status);
    case HRN_PIXEL_JPEG:
      return hrn_within(index, "quality", args->quality, 1, 100, status);
    case HRN_PIXEL_MIX_BEGIN:
    case HRN_PIXEL_MIX_CHAIN:
    case HRN_PIXEL_MIX_END:
      hrn_fail_op(status, HRN_ARGUMENT, index, "chains are mixed by ops that are drawn, not by %d",
                  op->pixel.kind);
      return 0;
    default:
      hrn_fail_op(status, HRN_ARGUMENT, index, "unknown op on pixels %d", op->pixel.kind);
      return 0;
  }
}
