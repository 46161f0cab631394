/* geometry.c: folds a sequence of ops into as few stages as give the same pixels.
 *
 * A stage is box, resize, padding, window, flip, in that order. An op folds into the last stage if
 * it commutes with what is there already. If it does not, a new stage begins on the finished pixels
 * of the one before. That is so for a resize after a resize, or after a flip, whose mirrored
 * coefficients round differently. Nothing is approximated: folding only leaves out pixels that
 * nobody looks at.
 */
#include <math.h>
#include <string.h>

#include "plan.h"

static void axis_begin(hrn_axis *axis, int32_t length) {
  memset(axis, 0, sizeof *axis);
  axis->box_length = axis->resized = axis->length = length;
  axis->to = length;
  axis->step = 1;
}

static void stage_begin(hrn_stage *stage, int32_t width, int32_t height) {
  memset(stage, 0, sizeof *stage);
  stage->bits = HRN_COEFFICIENT_BITS;
  stage->denominator = 1;
  axis_begin(&stage->x, width);
  axis_begin(&stage->y, height);
}

typedef hrn_program fold;

static hrn_stage *open_stage(fold *f) { return &f->stages[f->count - 1]; }

static hrn_stage *next_stage(fold *f) {
  const hrn_stage *last = open_stage(f);
  hrn_stage *next = &f->stages[f->count];
  stage_begin(next, last->x.length, last->y.length);
  next->pixel_end = last->pixel_end;
  f->count++;
  return next;
}

/* Ops on pixels must stay between the geometry before them and after them, so geometry behind them
 * needs a new stage. */
static int has_pixel_ops(const fold *f) {
  const int32_t before = f->count > 1 ? f->stages[f->count - 2].pixel_end : 0;
  return f->stages[f->count - 1].pixel_end > before;
}

/* If a stage so far only crops, its window can become the box of a later step. */
static int only_crops(const hrn_stage *s) {
  return !s->resizes && !s->pads && s->x.step == 1 && s->y.step == 1;
}

static void window_to_box(hrn_axis *axis) {
  axis->box_start += axis->origin;
  axis->box_length = axis->resized = axis->length;
  axis->to = axis->length;
  axis->origin = 0;
}

/* The open stage, or a new one, whose output is a plain box of its input. */
static hrn_stage *plain_stage(fold *f) {
  hrn_stage *stage = only_crops(open_stage(f)) ? open_stage(f) : next_stage(f);
  window_to_box(&stage->x);
  window_to_box(&stage->y);
  return stage;
}

static int shows_all(const hrn_axis *axis) {
  return axis->step == 1 && axis->origin == 0 && axis->length == axis->resized;
}

/* Padding goes around the resized image, so that image must be what the stage shows. */
static hrn_stage *paddable_stage(fold *f) {
  hrn_stage *stage = open_stage(f);
  if (!stage->pads && shows_all(&stage->x) && shows_all(&stage->y)) return stage;
  return plain_stage(f);
}

static void axis_crop(hrn_axis *axis, int32_t start, int32_t length) {
  axis->origin += axis->step * start;
  axis->length = length;
}

static void axis_flip(hrn_axis *axis) {
  axis->origin += axis->step * (axis->length - 1);
  axis->step = -axis->step;
}

static void axis_pad(hrn_axis *axis, int32_t before, int32_t after, int32_t missing) {
  axis->padding = (hrn_padding){before, after, missing};
  axis->length += before + after + 2 * missing;
}

/* Folds a crop by a box that may lie partly or wholly outside. Pillow's crop fills that part with
 * black. */
static void fold_crop(fold *f, int32_t top, int32_t left, int32_t height, int32_t width) {
  hrn_stage *stage = open_stage(f);
  const int32_t before_x = left < 0 ? -left : 0, before_y = top < 0 ? -top : 0;
  const int32_t over_x = left + width - stage->x.length, over_y = top + height - stage->y.length;
  const int32_t after_x = over_x > 0 ? over_x : 0, after_y = over_y > 0 ? over_y : 0;
  if (before_x || before_y || after_x || after_y) {
    stage = paddable_stage(f);
    stage->pads = 1;
    stage->padding_mode = HRN_PAD_CONSTANT;
    memset(stage->fill, 0, sizeof stage->fill);
    axis_pad(&stage->x, before_x, after_x, 0);
    axis_pad(&stage->y, before_y, after_y, 0);
  }
  axis_crop(&stage->x, left + before_x, width);
  axis_crop(&stage->y, top + before_y, height);
}

static void fold_resize(fold *f, int filter, int32_t height, int32_t width) {
  const hrn_stage *last = open_stage(f);
  if (last->x.length == width && last->y.length == height) return; /* Pillow copies */
  hrn_stage *stage = plain_stage(f);
  stage->resizes = 1;
  stage->filter = filter;
  stage->x.resized = stage->x.length = width;
  stage->y.resized = stage->y.length = height;
}

/* The resize's weights reach beyond the box, as far as the image does. */
static int fold_resize_box(fold *f, const hrn_op *op, int32_t index, hrn_status *status) {
  const float *box = op->resize_box.box;
  const hrn_op_size *size = &op->resize_box.size;
  const hrn_stage *last = open_stage(f);
  if (box[2] > (float)last->x.length || box[3] > (float)last->y.length) {
    return hrn_fail_op(status, HRN_ARGUMENT, index, "a box that ends at (%g, %g) in %dx%d pixels",
                       (double)box[2], (double)box[3], last->x.length, last->y.length);
  }
  const int whole = box[0] == floorf(box[0]) && box[1] == floorf(box[1]);
  if (whole && box[2] - box[0] == (float)size->width && box[3] - box[1] == (float)size->height) {
    fold_crop(f, (int32_t)box[1], (int32_t)box[0], size->height, size->width);
    return HRN_OK;
  }
  hrn_stage *stage = plain_stage(f);
  stage->resizes = 1;
  stage->filter = op->filter;
  stage->x.from = (double)box[0];
  stage->y.from = (double)box[1];
  stage->x.to = (double)box[2];
  stage->y.to = (double)box[3];
  stage->x.resized = stage->x.length = size->width;
  stage->y.resized = stage->y.length = size->height;
  return HRN_OK;
}

/* The decoder makes a draft, so the image has that size from the beginning. */
static void fold_reduce(fold *f, const hrn_op_reduce *reduce, int32_t height, int32_t width) {
  if (reduce->draft != HRN_DRAFT_NONE) {
    axis_begin(&open_stage(f)->x, width);
    axis_begin(&open_stage(f)->y, height);
    return;
  }
  if (reduce->across == 1 && reduce->down == 1) return; /* Pillow copies */
  hrn_stage *stage = plain_stage(f);
  stage->resizes = 1;
  stage->filter = HRN_BOX;
  stage->across = reduce->across;
  stage->down = reduce->down;
  stage->x.resized = stage->x.length = width;
  stage->y.resized = stage->y.length = height;
}

/* Pads as the op says, and by what is missing on both sides. */
static void fold_padding(fold *f, const hrn_op *op, const hrn_op_padding *p, int32_t missing_x,
                         int32_t missing_y) {
  if (!(p->left || p->top || p->right || p->bottom || missing_x || missing_y)) return;
  hrn_stage *stage = paddable_stage(f);
  stage->pads = 1;
  stage->padding_mode = p->mode;
  for (int c = 0; c < 3; c++) stage->fill[c] = (uint8_t)op->fill[c];
  axis_pad(&stage->x, p->left, p->right, missing_x);
  axis_pad(&stage->y, p->top, p->bottom, missing_y);
}

static void fold_random_crop(fold *f, const hrn_op *op, const hrn_draw *draw) {
  const hrn_op_random_crop *c = &op->random_crop;
  const hrn_op_padding *p = &c->padding;
  const hrn_stage *stage = open_stage(f);
  const int32_t wide = stage->x.length + p->left + p->right;
  const int32_t high = stage->y.length + p->top + p->bottom;
  const int32_t missing_x = c->if_needed && wide < c->size.width ? c->size.width - wide : 0;
  const int32_t missing_y = c->if_needed && high < c->size.height ? c->size.height - high : 0;
  fold_padding(f, op, p, missing_x, missing_y);
  axis_crop(&open_stage(f)->x, draw->value[1], draw->value[3]);
  axis_crop(&open_stage(f)->y, draw->value[0], draw->value[2]);
}

void hrn_geometry_resume(hrn_program *program, int32_t width, int32_t height) {
  hrn_stage *next = next_stage(program);
  axis_begin(&next->x, width);
  axis_begin(&next->y, height);
}

void hrn_geometry_begin(hrn_program *program, int32_t width, int32_t height) {
  program->count = 1;
  program->pixels.count = 0;
  program->erasings = 0;
  program->crops.count = 0;
  program->settled = 0;
  stage_begin(&program->stages[0], width, height);
}

int hrn_geometry_add(hrn_program *f, const hrn_op *op, int32_t index, const hrn_key *key,
                     hrn_status *status) {
  int32_t w = open_stage(f)->x.length, h = open_stage(f)->y.length;
  hrn_draw draw;
  if (hrn_draw_op(op, index, key, w, h, &draw, status) != HRN_OK) return status->code;
  const int32_t old_w = w, old_h = h;
  if (hrn_op_size_after(op, &w, &h, status) != HRN_OK) return status->code;
  const int flips = op->kind == HRN_OP_HORIZONTAL_FLIP || op->kind == HRN_OP_VERTICAL_FLIP;
  if (flips && !draw.value[0]) return HRN_OK;
  if (has_pixel_ops(f)) next_stage(f);
  switch (op->kind) {
    case HRN_OP_CROP:
      fold_crop(f, op->box.top, op->box.left, h, w);
      break;
    case HRN_OP_CENTER_CROP:
      fold_crop(f, hrn_centre(old_h, h), hrn_centre(old_w, w), h, w);
      break;
    case HRN_OP_RESIZE:
    case HRN_OP_RESIZE_SHORTER:
      fold_resize(f, op->filter, h, w);
      break;
    case HRN_OP_RESIZE_BOX:
      return fold_resize_box(f, op, index, status);
    case HRN_OP_REDUCE:
      fold_reduce(f, &op->reduce, h, w);
      break;
    case HRN_OP_RANDOM_RESIZED_CROP:
      fold_crop(f, draw.value[0], draw.value[1], draw.value[2], draw.value[3]);
      fold_resize(f, op->filter, h, w);
      break;
    case HRN_OP_PAD:
      fold_padding(f, op, &op->padding, 0, 0);
      break;
    case HRN_OP_RANDOM_CROP:
      fold_random_crop(f, op, &draw);
      break;
    case HRN_OP_HORIZONTAL_FLIP:
      axis_flip(&open_stage(f)->x);
      break;
    case HRN_OP_VERTICAL_FLIP:
      axis_flip(&open_stage(f)->y);
      break;
    default:
      return hrn_fail(status, HRN_INTERNAL, -1, "op %d has kind %d", index, op->kind);
  }
  return HRN_OK;
}
