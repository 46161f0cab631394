/* sizes.c: what size an op makes of an image's, and which there may be. */
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

/* torchvision's center_crop: the padding of a too small side rounds down on the left, the offset
 * in a too large one rounds half to even. */
int32_t hrn_centre(int32_t length, int32_t crop) {
  if (crop > length) return -((crop - length) / 2);
  return (int32_t)rint((length - crop) / 2.0);
}

int hrn_op_size(const hrn_op *op, int32_t *width, int32_t *height, hrn_status *status) {
  switch (op->kind) {
    case HRN_OP_CROP:
      *height = op->i[2];
      *width = op->i[3];
      break;
    case HRN_OP_RESIZE:
    case HRN_OP_CENTER_CROP:
    case HRN_OP_RANDOM_RESIZED_CROP:
    case HRN_OP_RANDOM_CROP:
      *height = op->i[0];
      *width = op->i[1];
      break;
    case HRN_OP_RESIZE_SHORTER: {
      /* torchvision: int(size * long / short) in Python, a true division; then, where that
       * exceeds max_size, int(max_size * new_short / new_long). */
      const int32_t wide = *width > *height;
      const int32_t shorter = wide ? *height : *width, longer = wide ? *width : *height;
      double new_short = op->i[0];
      double new_long = floor((double)((int64_t)op->i[0] * longer) / shorter);
      if (op->i[0] == 0) { /* Resize(None, max_size): int(max_size * short / long) */
        new_short = floor((double)((int64_t)op->i[1] * shorter) / longer);
        new_long = op->i[1];
      } else if (op->i[1] != 0 && new_long > op->i[1]) {
        new_short = floor(op->i[1] * new_short / new_long);
        new_long = op->i[1];
      }
      if (new_short < 1 || new_long > HRN_MAX_LENGTH) {
        return hrn_fail(status, HRN_LIMIT, -1,
                        "resize of %dx%d to %s side %d gives %.0fx%.0f; sides are 1 to %d", *width,
                        *height, op->i[0] ? "shorter" : "longer", op->i[op->i[0] ? 0 : 1],
                        wide ? new_long : new_short, wide ? new_short : new_long, HRN_MAX_LENGTH);
      }
      *width = (int32_t)(wide ? new_long : new_short);
      *height = (int32_t)(wide ? new_short : new_long);
      break;
    }
    case HRN_OP_PAD:
      *width += op->i[2] + op->i[4];
      *height += op->i[3] + op->i[5];
      if (*width > HRN_MAX_LENGTH || *height > HRN_MAX_LENGTH) {
        return hrn_fail(status, HRN_LIMIT, -1, "padding to %dx%d; a side is at most %d", *width,
                        *height, HRN_MAX_LENGTH);
      }
      break;
    default: /* flips and ops on pixels */
      break;
  }
  return HRN_OK;
}
