/* sizes.c: the size of an image after an op, and which sizes are allowed. */
#include <math.h>

#include "plan.h"

int hrn_check_sides(uint32_t width, uint32_t height, hrn_status *status) {
  if (width == 0 || height == 0) { /* no decoder lets such an image through */
    return hrn_fail(status, HRN_ARGUMENT, -1, "image size %ux%u", width, height);
  }
  if (width > HRN_MAX_LENGTH || height > HRN_MAX_LENGTH) {
    return hrn_fail(status, HRN_LIMIT, -1, "image of %ux%u pixels; a side is at most %d", width,
                    height, HRN_MAX_LENGTH);
  }
  return HRN_OK;
}

/* torchvision's center_crop: if the side is too small, the padding rounds down on the left; if it
 * is too large, the offset rounds half to even. */
int32_t hrn_centre(int32_t length, int32_t crop) {
  if (crop > length) return -((crop - length) / 2);
  return (int32_t)rint((length - crop) / 2.0);
}

/* torchvision computes int(size * long / short) in Python, with a true division. If that exceeds
 * max_size, it then computes int(max_size * new_short / new_long). */
static int shorter(const hrn_op_shorter *s, int32_t *width, int32_t *height, hrn_status *status) {
  const int32_t wide = *width > *height;
  const int32_t shorter = wide ? *height : *width, longer = wide ? *width : *height;
  double new_short = s->size;
  double new_long = floor((double)((int64_t)s->size * longer) / shorter);
  if (s->size == 0) { /* Resize(None, max_size): int(max_size * short / long) */
    new_short = floor((double)((int64_t)s->max_size * shorter) / longer);
    new_long = s->max_size;
  } else if (s->max_size != 0 && new_long > s->max_size) {
    new_short = floor(s->max_size * new_short / new_long);
    new_long = s->max_size;
  }
  if (new_short < 1 || new_long > HRN_MAX_LENGTH) {
    return hrn_fail(status, new_short < 1 ? HRN_NO_PIXELS : HRN_LIMIT, -1,
                    "resize of %dx%d to %s side %d gives %.0fx%.0f; sides are 1 to %d", *width,
                    *height, s->size ? "shorter" : "longer", s->size ? s->size : s->max_size,
                    wide ? new_long : new_short, wide ? new_short : new_long, HRN_MAX_LENGTH);
  }
  *width = (int32_t)(wide ? new_long : new_short);
  *height = (int32_t)(wide ? new_short : new_long);
  return HRN_OK;
}

static int padded(const hrn_op_padding *p, int32_t *width, int32_t *height, hrn_status *status) {
  *width += p->left + p->right;
  *height += p->top + p->bottom;
  if (*width <= HRN_MAX_LENGTH && *height <= HRN_MAX_LENGTH) return HRN_OK;
  return hrn_fail(status, HRN_LIMIT, -1, "padding to %dx%d; a side is at most %d", *width, *height,
                  HRN_MAX_LENGTH);
}

int hrn_op_size_after(const hrn_op *op, int32_t *width, int32_t *height, hrn_status *status) {
  hrn_op_size size = {*height, *width};
  switch (op->kind) {
    case HRN_OP_CROP:
      size = (hrn_op_size){op->box.height, op->box.width};
      break;
    case HRN_OP_RESIZE:
    case HRN_OP_CENTER_CROP:
      size = op->size;
      break;
    case HRN_OP_RESIZE_BOX:
      size = op->resize_box.size;
      break;
    case HRN_OP_REDUCE:
      size.height = hrn_divide_up(*height, op->reduce.down);
      size.width = hrn_divide_up(*width, op->reduce.across);
      break;
    case HRN_OP_RANDOM_RESIZED_CROP:
      size = op->resized_crop.size;
      break;
    case HRN_OP_RANDOM_CROP:
      size = op->random_crop.size;
      break;
    case HRN_OP_RESIZE_SHORTER:
      return shorter(&op->shorter, width, height, status);
    case HRN_OP_PAD:
      return padded(&op->padding, width, height, status);
    default: /* flips and ops on pixels */
      break;
  }
  *height = size.height;
  *width = size.width;
  return HRN_OK;
}
