/* check.c: what the parameters of geometric ops must be. Text names the field as op.h documents it;
 * the Python-shaped names are the parser's business (internal/transform).
 */
#include <math.h>

#include "plan.h"

/* Sides end at 2^24: Pillow holds a box in float32, which is exact up to there, and a few of
 * them still add up inside int32. */
static int check_size(hrn_status *status, int32_t index, int32_t height, int32_t width) {
  if (!hrn_within(index, "height", height, 1, HRN_MAX_LENGTH, status)) return 0;
  return hrn_within(index, "width", width, 1, HRN_MAX_LENGTH, status);
}

/* torchvision only warns of bounds in the wrong order and fails at the first image; here the plan
 * is refused. Zero is no bound: a ratio has a logarithm. */
static int check_interval(hrn_status *status, int32_t index, const char *what,
                          const double *bound) {
  if (isfinite(bound[0]) && isfinite(bound[1]) && bound[0] > 0 && bound[0] <= bound[1]) {
    return 1;
  }
  hrn_fail(status, HRN_ARGUMENT, -1, "op %d: %s (%g, %g) must be positive and ordered", index, what,
           bound[0], bound[1]);
  return 0;
}

/* Bytes of a fill, from doubles: padding keeps them there. */
static int check_fill(hrn_status *status, int32_t index, const double *fill) {
  for (int c = 0; c < 3; c++) {
    if (!hrn_within(index, "fill", fill[c], 0, 255, status)) return 0;
    if (fill[c] != floor(fill[c])) {
      hrn_fail(status, HRN_ARGUMENT, -1, "op %d: fill is %g, must be a whole number", index,
               fill[c]);
      return 0;
    }
  }
  return 1;
}

static int check_padding(hrn_status *status, int32_t index, const hrn_op *op) {
  /* Negative padding crops in torchvision, by rules that differ from mode to mode: refused. */
  for (int k = 2; k < 6; k++) {
    if (!hrn_within(index, "padding", op->i[k], 0, HRN_MAX_LENGTH, status)) return 0;
  }
  if (!hrn_within(index, "padding mode", op->i[7], HRN_PAD_CONSTANT, HRN_PAD_SYMMETRIC, status)) {
    return 0;
  }
  /* Checked in every mode, though only constant padding shows it. */
  return check_fill(status, index, op->p);
}

static int check_random_crop(hrn_status *status, int32_t index, const hrn_op *op) {
  if (!check_size(status, index, op->i[0], op->i[1])) return 0;
  if (!hrn_within(index, "pad_if_needed", op->i[6], 0, 1, status)) return 0;
  return check_padding(status, index, op);
}

static int check_drawn_size(hrn_status *status, int32_t index, const hrn_op *op) {
  const int32_t *i = op->i;
  const double most = sizeof op->p / sizeof op->p[0];
  switch (op->kind) {
    case HRN_OP_ZOOM_OUT:
      if (!check_padding(status, index, op) ||
          !hrn_within(index, "side", op->p[3], 1, HRN_MAX_LENGTH, status)) {
        return 0;
      }
      return hrn_within(index, "side", op->p[4], op->p[3], HRN_MAX_LENGTH, status);
    case HRN_OP_RANDOM_SHORTEST_SIZE:
      if (!hrn_within(index, "max_size", i[0], 0, HRN_MAX_LENGTH, status) ||
          !hrn_within(index, "number of sizes", i[1], 1, most, status)) {
        return 0;
      }
      for (int32_t k = 0; k < i[1]; k++) {
        if (!hrn_within(index, "size", op->p[k], 1, HRN_MAX_LENGTH, status)) return 0;
      }
      break;
    case HRN_OP_RANDOM_RESIZE:
      if (!hrn_within(index, "size", i[0], 1, HRN_MAX_LENGTH, status) ||
          !hrn_within(index, "greatest size", i[1], i[0] + 1, HRN_MAX_LENGTH, status)) {
        return 0;
      }
      break;
    default:
      if (!check_size(status, index, i[1], i[0]) ||
          !check_interval(status, index, "scale", op->p)) {
        return 0;
      }
      break;
  }
  return hrn_within(index, "filter", op->filter, HRN_NEAREST, HRN_HAMMING, status);
}

static int check(hrn_status *status, int32_t index, const hrn_op *op) {
  const int32_t *i = op->i;
  switch (op->kind) {
    case HRN_OP_CROP:
      if (!hrn_within(index, "top", i[0], -HRN_MAX_LENGTH, HRN_MAX_LENGTH, status) ||
          !hrn_within(index, "left", i[1], -HRN_MAX_LENGTH, HRN_MAX_LENGTH, status)) {
        return 0;
      }
      return check_size(status, index, i[2], i[3]);
    case HRN_OP_RESIZE_SHORTER:
      if (!hrn_within(index, "size", i[0], 0, HRN_MAX_LENGTH, status) ||
          !hrn_within(index, "max_size", i[1], i[0] ? 0 : 1, HRN_MAX_LENGTH, status)) {
        return 0;
      }
      if (i[1] != 0 && i[1] <= i[0]) {
        hrn_fail(status, HRN_ARGUMENT, -1, "op %d: max_size %d must exceed size %d", index, i[1],
                 i[0]);
        return 0;
      }
      return hrn_within(index, "filter", op->filter, HRN_NEAREST, HRN_HAMMING, status);
    case HRN_OP_RANDOM_RESIZED_CROP:
      if (!check_interval(status, index, "scale", op->p) ||
          !check_interval(status, index, "ratio", op->p + 2)) {
        return 0;
      }
      /* fallthrough */
    case HRN_OP_RESIZE:
      if (!hrn_within(index, "filter", op->filter, HRN_NEAREST, HRN_HAMMING, status)) {
        return 0;
      }
      return check_size(status, index, i[0], i[1]);
    case HRN_OP_FIVE_CROP:
      if (!hrn_within(index, "ten", i[2], 0, 1, status) ||
          !hrn_within(index, "vertical", i[3], 0, 1, status)) {
        return 0;
      }
      /* fallthrough */
    case HRN_OP_CENTER_CROP:
      return check_size(status, index, i[0], i[1]);
    case HRN_OP_RANDOM_CROP:
      return check_random_crop(status, index, op);
    case HRN_OP_HORIZONTAL_FLIP:
    case HRN_OP_VERTICAL_FLIP:
      return hrn_within(index, "probability", op->p[0], 0, 1, status);
    case HRN_OP_PAD:
      return check_padding(status, index, op);
    case HRN_OP_RANDOM_SHORTEST_SIZE:
    case HRN_OP_RANDOM_RESIZE:
    case HRN_OP_SCALE_JITTER:
    case HRN_OP_ZOOM_OUT:
      return check_drawn_size(status, index, op);
    default:
      return hrn_check_recipe(op, index, status) == HRN_OK;
  }
}

int hrn_check_op(const hrn_op *op, int32_t index, hrn_status *status) {
  return check(status, index, op) ? HRN_OK : status->code;
}
