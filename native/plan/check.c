/* check.c: checks the parameters of geometric ops. Texts name a field as op.h documents it. The
 * parser (internal/transform) deals with the names that Python has. */
#include "../draws/check.h"
#include "plan.h"

/* Sides are at most 2^24: Pillow holds a box in float32, which is exact up to there, and a few such
 * sides still add up inside int32. */
static int check_size(int32_t index, const hrn_op_size *size, hrn_status *status) {
  return hrn_within(index, "height", size->height, 1, HRN_MAX_LENGTH, status) &&
         hrn_within(index, "width", size->width, 1, HRN_MAX_LENGTH, status);
}

static int check_filter(int32_t index, const hrn_op *op, hrn_status *status) {
  return hrn_within(index, "filter", op->filter, HRN_NEAREST, HRN_TENSOR_BICUBIC, status);
}

/* torchvision only warns of bounds in the wrong order, and fails at the first image. Here the plan
 * is refused. */
static int check_positive(int32_t index, const char *what, const double bound[2],
                          hrn_status *status) {
  return hrn_interval(index, what, bound, HRN_ABOVE_0, DBL_MAX, status);
}

static int check_mode(int32_t index, int32_t mode, hrn_status *status) {
  return hrn_within(index, "padding mode", mode, HRN_PAD_CONSTANT, HRN_PAD_SYMMETRIC, status);
}

static int check_padding(int32_t index, const hrn_op *op, const hrn_op_padding *padding,
                         hrn_status *status) {
  const int32_t sides[4] = {padding->left, padding->top, padding->right, padding->bottom};
  /* Negative padding is refused. In torchvision it crops, by rules that differ from mode to
   * mode. */
  for (int k = 0; k < 4; k++) {
    if (!hrn_within(index, "padding", sides[k], 0, HRN_MAX_LENGTH, status)) return 0;
  }
  return check_mode(index, padding->mode, status) && hrn_is_fill(index, op, status);
}

static int check_shorter(int32_t index, const hrn_op *op, hrn_status *status) {
  const hrn_op_shorter *s = &op->shorter;
  if (!hrn_within(index, "size", s->size, 0, HRN_MAX_LENGTH, status) ||
      !hrn_within(index, "max_size", s->max_size, s->size ? 0 : 1, HRN_MAX_LENGTH, status)) {
    return 0;
  }
  if (s->max_size != 0 && s->max_size <= s->size) {
    hrn_fail_op(status, HRN_ARGUMENT, index, "max_size %d must exceed size %d", s->max_size,
                s->size);
    return 0;
  }
  return check_filter(index, op, status);
}

static int check_shortest(int32_t index, const hrn_op *op, hrn_status *status) {
  const hrn_op_shortest *s = &op->shortest;
  if (!hrn_within(index, "max_size", s->max_size, 0, HRN_MAX_LENGTH, status) ||
      !hrn_within(index, "number of sizes", s->count, 1, HRN_MAX_SIZES, status)) {
    return 0;
  }
  for (int32_t k = 0; k < s->count; k++) {
    if (!hrn_within(index, "size", s->size[k], 1, HRN_MAX_LENGTH, status)) return 0;
  }
  return check_filter(index, op, status);
}

/* Whether the box ends inside the image is checked when there is an image. */
static int check_resize_box(int32_t index, const hrn_op *op, hrn_status *status) {
  const float *box = op->resize_box.box;
  const int ordered = box[0] >= 0 && box[1] >= 0 && box[0] < box[2] && box[1] < box[3];
  if (!ordered || !(box[2] <= HRN_MAX_LENGTH && box[3] <= HRN_MAX_LENGTH)) {
    hrn_fail_op(status, HRN_ARGUMENT, index, "box (%g, %g, %g, %g) must be inside and not empty",
                (double)box[0], (double)box[1], (double)box[2], (double)box[3]);
    return 0;
  }
  return check_filter(index, op, status) && check_size(index, &op->resize_box.size, status);
}

static int check_reduce(int32_t index, const hrn_op_reduce *reduce, hrn_status *status) {
  const int32_t across = reduce->across;
  if (reduce->draft == HRN_DRAFT_NONE) {
    return hrn_within(index, "factor", across, 1, HRN_MAX_FACTOR, status) &&
           hrn_within(index, "factor", reduce->down, 1, HRN_MAX_FACTOR, status);
  }
  if (!hrn_within(index, "draft", reduce->draft, HRN_DRAFT_NONE, HRN_DRAFT_GREY, status)) return 0;
  if (index != 0) {
    hrn_fail_op(status, HRN_ARGUMENT, index, "a draft is the first op");
    return 0;
  }
  if (reduce->down != across || (across != 1 && across != 2 && across != 4 && across != 8)) {
    hrn_fail_op(status, HRN_ARGUMENT, index, "factor %d x %d must be 1, 2, 4 or 8 of both sides",
                across, reduce->down);
    return 0;
  }
  return 1;
}

/* Ops that draw the size of their result. */
static int check_drawn_size(int32_t index, const hrn_op *op, hrn_status *status) {
  const hrn_op_resize_between *between = &op->resize_between;
  switch (op->kind) {
    case HRN_OP_ZOOM_OUT:
      return check_mode(index, op->zoom.mode, status) && hrn_is_fill(index, op, status) &&
             hrn_within(index, "side", op->zoom.side[0], 1, HRN_MAX_LENGTH, status) &&
             hrn_within(index, "side", op->zoom.side[1], op->zoom.side[0], HRN_MAX_LENGTH, status);
    case HRN_OP_RANDOM_SHORTEST_SIZE:
      return check_shortest(index, op, status);
    case HRN_OP_RANDOM_RESIZE:
      return hrn_within(index, "size", between->least, 1, HRN_MAX_LENGTH, status) &&
             hrn_within(index, "greatest size", between->end, between->least + 1, HRN_MAX_LENGTH,
                        status) &&
             check_filter(index, op, status);
    default:
      return check_size(index, &op->jitter.target, status) &&
             check_positive(index, "scale", op->jitter.scale, status) &&
             check_filter(index, op, status);
  }
}

static int check_iou_crop(int32_t index, const hrn_op_iou_crop *crop, hrn_status *status) {
  if (!hrn_within(index, "scale", crop->scale[0], 0, 1, status) ||
      !hrn_within(index, "greatest scale", crop->scale[1], crop->scale[0], 1, status) ||
      !hrn_within(index, "aspect ratio", crop->aspect[0], 0, HRN_MAX_LENGTH, status) ||
      !hrn_within(index, "greatest aspect ratio", crop->aspect[1], crop->aspect[0], HRN_MAX_LENGTH,
                  status) ||
      !hrn_within(index, "trials", crop->trials, 1, HRN_MAX_TRIALS, status) ||
      !hrn_within(index, "number of overlaps", crop->count, 1, HRN_MAX_OVERLAPS, status)) {
    return 0;
  }
  for (int32_t k = 0; k < crop->count; k++) {
    if (!hrn_within(index, "overlap", crop->overlap[k], 0, HRN_MAX_LENGTH, status)) return 0;
  }
  return 1;
}

static int check(int32_t index, const hrn_op *op, hrn_status *status) {
  switch (op->kind) {
    case HRN_OP_CROP: {
      const hrn_op_size size = {op->box.height, op->box.width};
      return hrn_within(index, "top", op->box.top, -HRN_MAX_LENGTH, HRN_MAX_LENGTH, status) &&
             hrn_within(index, "left", op->box.left, -HRN_MAX_LENGTH, HRN_MAX_LENGTH, status) &&
             check_size(index, &size, status);
    }
    case HRN_OP_RESIZE_SHORTER:
      return check_shorter(index, op, status);
    case HRN_OP_RANDOM_RESIZED_CROP:
      return check_positive(index, "scale", op->resized_crop.scale, status) &&
             check_positive(index, "ratio", op->resized_crop.ratio, status) &&
             check_filter(index, op, status) && check_size(index, &op->resized_crop.size, status);
    case HRN_OP_RESIZE:
      return check_filter(index, op, status) && check_size(index, &op->size, status);
    case HRN_OP_RESIZE_BOX:
      return check_resize_box(index, op, status);
    case HRN_OP_REDUCE:
      return check_reduce(index, &op->reduce, status);
    case HRN_OP_IOU_CROP:
      return check_iou_crop(index, &op->iou_crop, status);
    case HRN_OP_FIVE_CROP:
      return hrn_within(index, "ten", op->crops.ten, 0, 1, status) &&
             hrn_within(index, "vertical", op->crops.vertical, 0, 1, status) &&
             check_size(index, &op->crops.size, status);
    case HRN_OP_CENTER_CROP:
      return check_size(index, &op->size, status);
    case HRN_OP_RANDOM_CROP:
      return check_size(index, &op->random_crop.size, status) &&
             hrn_within(index, "pad_if_needed", op->random_crop.if_needed, 0, 1, status) &&
             check_padding(index, op, &op->random_crop.padding, status);
    case HRN_OP_HORIZONTAL_FLIP:
    case HRN_OP_VERTICAL_FLIP:
      return hrn_within(index, "probability", op->probability, 0, 1, status);
    case HRN_OP_PAD:
      return check_padding(index, op, &op->padding, status);
    case HRN_OP_RANDOM_SHORTEST_SIZE:
    case HRN_OP_RANDOM_RESIZE:
    case HRN_OP_SCALE_JITTER:
    case HRN_OP_ZOOM_OUT:
      return check_drawn_size(index, op, status);
    default:
      return hrn_check_augmentation(op, index, status);
  }
}

int hrn_check_op(const hrn_op *op, int32_t index, hrn_status *status) {
  return check(index, op, status) ? HRN_OK : status->code;
}
