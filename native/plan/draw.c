/* draw.c: what random geometric ops draw, distributed as by torchvision 0.29's get_params.
 *
 * Each attempt of an op takes one block of four words. That is a promise, and so is what a block is
 * (draws.c). Golden vectors in the tests check both.
 */
#include <math.h>
#include <string.h>

#include "plan.h"

/* get_params falls back to this: the largest central crop with an allowed aspect ratio. */
static void central_crop(const double ratio[2], int32_t width, int32_t height, int32_t box[4]) {
  const double in_ratio = (double)width / (double)height;
  double w = width, h = height;
  /* Each division rounds to no more than the side that is cut. It rounds to less than one only for
   * extreme ratios, for which torchvision would ask Pillow for an empty crop. */
  if (in_ratio < ratio[0]) {
    h = fmin(fmax(rint(width / ratio[0]), 1.0), height);
  } else if (in_ratio > ratio[1]) {
    w = fmin(fmax(rint(height * ratio[1]), 1.0), width);
  }
  box[2] = (int32_t)h;
  box[3] = (int32_t)w;
  box[0] = (height - box[2]) / 2;
  box[1] = (width - box[3]) / 2;
}

static void resized_crop(const hrn_op *op, int32_t index, const hrn_key *key, int32_t width,
                         int32_t height, int32_t box[4]) {
  const double *scale = op->resized_crop.scale, *ratio = op->resized_crop.ratio;
  const double area = (double)width * (double)height;
  const double log_low = log(ratio[0]), log_high = log(ratio[1]);
  /* Each attempt takes one block, even if its last two words are not used, so its draws never
   * depend on how the attempts before it ended. */
  for (uint64_t attempt = 0; attempt < 10; attempt++) {
    const hrn_philox_block block = hrn_draw_block(key, index, attempt);
    const double target = area * (scale[0] + (scale[1] - scale[0]) * hrn_uniform(block.word[0]));
    const double aspect = exp(log_low + (log_high - log_low) * hrn_uniform(block.word[1]));
    /* rint rounds half to even, as Python's round does. */
    const double w = rint(sqrt(target * aspect)), h = rint(sqrt(target / aspect));
    /* They are compared as doubles, because an extreme ratio may exceed every integer. */
    if (!(w > 0 && w <= width && h > 0 && h <= height)) continue;
    box[2] = (int32_t)h;
    box[3] = (int32_t)w;
    box[0] = (int32_t)hrn_below(block.word[2], (uint64_t)(height - box[2]) + 1);
    box[1] = (int32_t)hrn_below(block.word[3], (uint64_t)(width - box[3]) + 1);
    return;
  }
  central_crop(ratio, width, height, box);
}

/* The length after RandomCrop's two paddings. The second one is done only if a crop would not
 * fit. */
static int32_t padded_length(int32_t length, int32_t before, int32_t after, int32_t if_needed,
                             int32_t crop) {
  length += before + after;
  return if_needed && length < crop ? length + 2 * (crop - length) : length;
}

static int crop(const hrn_op *op, int32_t index, const hrn_key *key, int32_t width, int32_t height,
                int32_t box[4], hrn_status *status) {
  const hrn_op_random_crop *c = &op->random_crop;
  const hrn_op_padding *p = &c->padding;
  const int32_t down = c->size.height, across = c->size.width;
  const int32_t padded_height = padded_length(height, p->top, p->bottom, c->if_needed, down);
  const int32_t padded_width = padded_length(width, p->left, p->right, c->if_needed, across);
  if (padded_height < down || padded_width < across) {
    hrn_fail_op(status, HRN_ARGUMENT, index,
                "required crop size %dx%d (height x width) is larger than the image "
                "with its padding, %dx%d",
                down, across, padded_height, padded_width);
    status->sides[0] = down;
    status->sides[1] = across;
    status->sides[2] = padded_height;
    status->sides[3] = padded_width;
    return status->code;
  }
  const hrn_philox_block block = hrn_draw_block(key, index, 0);
  box[0] = (int32_t)hrn_below(block.word[0], (uint64_t)(padded_height - down) + 1);
  box[1] = (int32_t)hrn_below(block.word[1], (uint64_t)(padded_width - across) + 1);
  box[2] = down;
  box[3] = across;
  return HRN_OK;
}

/* Scales both sides by one factor, truncated as by Python's int. */
static int scaled(double factor, int32_t index, int32_t width, int32_t height, hrn_draw *draw,
                  hrn_status *status) {
  const double w = floor(width * factor), h = floor(height * factor);
  if (!(w >= 1 && h >= 1 && w <= HRN_MAX_LENGTH && h <= HRN_MAX_LENGTH)) {
    return hrn_fail_op(status, w < 1 || h < 1 ? HRN_NO_PIXELS : HRN_LIMIT, index,
                       "resize of %dx%d by %.9g gives %.0fx%.0f; sides are 1 to %d", width, height,
                       factor, w, h, HRN_MAX_LENGTH);
  }
  draw->value[0] = (int32_t)h;
  draw->value[1] = (int32_t)w;
  return HRN_OK;
}

static int draw_size(const hrn_op *op, int32_t index, const hrn_key *key, int32_t width,
                     int32_t height, hrn_draw *draw, hrn_status *status) {
  const hrn_philox_block block = hrn_draw_block(key, index, 0);
  const double shorter = width < height ? width : height, longer = width < height ? height : width;
  if (op->kind == HRN_OP_RANDOM_SHORTEST_SIZE) {
    const hrn_op_shortest *s = &op->shortest;
    double factor = s->size[hrn_below(block.word[0], (uint64_t)s->count)] / shorter;
    if (s->max_size != 0) factor = fmin(factor, s->max_size / longer);
    return scaled(factor, index, width, height, draw, status);
  }
  if (op->kind == HRN_OP_SCALE_JITTER) {
    const hrn_op_jitter *j = &op->jitter;
    const double scale = j->scale[0] + (j->scale[1] - j->scale[0]) * hrn_uniform(block.word[0]);
    const double fits = fmin(j->target.width / (double)width, j->target.height / (double)height);
    return scaled(fits * scale, index, width, height, draw, status);
  }
  hrn_op resize = {.kind = HRN_OP_RESIZE_SHORTER};
  const hrn_op_resize_between *between = &op->resize_between;
  resize.shorter.size =
      between->least + (int32_t)hrn_below(block.word[0], (uint64_t)(between->end - between->least));
  draw->value[0] = height;
  draw->value[1] = width;
  return hrn_op_size_after(&resize, &draw->value[1], &draw->value[0], status);
}

/* Draws where the image lies on its canvas, as the padding around it. */
static int zoom_out(const hrn_op *op, int32_t index, const hrn_key *key, int32_t width,
                    int32_t height, hrn_draw *draw, hrn_status *status) {
  const hrn_philox_block block = hrn_draw_block(key, index, 0);
  const double *bound = op->zoom.side;
  const double side = bound[0] + (bound[1] - bound[0]) * hrn_uniform(block.word[0]);
  const double w = floor(width * side), h = floor(height * side);
  if (w > HRN_MAX_LENGTH || h > HRN_MAX_LENGTH) {
    return hrn_fail_op(status, HRN_LIMIT, index, "a canvas of %.0fx%.0f; a side is at most %d", w,
                       h, HRN_MAX_LENGTH);
  }
  draw->value[0] = (int32_t)((w - width) * hrn_uniform(block.word[1]));
  draw->value[1] = (int32_t)((h - height) * hrn_uniform(block.word[2]));
  draw->value[2] = (int32_t)w - width - draw->value[0];
  draw->value[3] = (int32_t)h - height - draw->value[1];
  return HRN_OK;
}

int hrn_settle(const hrn_op *op, int32_t index, const hrn_key *key, int32_t width, int32_t height,
               hrn_op *settled, hrn_status *status) {
  *settled = *op;
  if (!hrn_draws_size(op)) return HRN_OK;
  hrn_draw draw;
  if (hrn_draw_op(op, index, key, width, height, &draw, status) != HRN_OK) return status->code;
  if (op->kind == HRN_OP_ZOOM_OUT) {
    settled->kind = HRN_OP_PAD;
    settled->padding =
        (hrn_op_padding){draw.value[0], draw.value[1], draw.value[2], draw.value[3], op->zoom.mode};
    return HRN_OK;
  }
  settled->kind = HRN_OP_RESIZE;
  settled->size = (hrn_op_size){draw.value[0], draw.value[1]};
  return HRN_OK;
}

int hrn_draw_op(const hrn_op *op, int32_t index, const hrn_key *key, int32_t width, int32_t height,
                hrn_draw *draw, hrn_status *status) {
  memset(draw, 0, sizeof *draw);
  switch (op->kind) {
    case HRN_OP_RANDOM_RESIZED_CROP:
      resized_crop(op, index, key, width, height, draw->value);
      break;
    case HRN_OP_RANDOM_CROP:
      return crop(op, index, key, width, height, draw->value, status);
    case HRN_OP_RANDOM_SHORTEST_SIZE:
    case HRN_OP_RANDOM_RESIZE:
    case HRN_OP_SCALE_JITTER:
      return draw_size(op, index, key, width, height, draw, status);
    case HRN_OP_ZOOM_OUT:
      return zoom_out(op, index, key, width, height, draw, status);
    case HRN_OP_HORIZONTAL_FLIP:
    case HRN_OP_VERTICAL_FLIP:
      draw->value[0] = hrn_uniform(hrn_draw_block(key, index, 0).word[0]) < op->probability;
      break;
    default:
      break;
  }
  return HRN_OK;
}
