/* walk.c: goes through a plan's ops for one image: draws each, folds geometry into stages, and adds
 * ops on pixels to the current stage.
 *
 * Ops are one flat list; a group is an op that says how many of those after it are its own. A
 * draw is keyed by the op's number in that list, so a group's decision changes no draw inside it.
 */
#include <string.h>

#include "plan.h"

typedef struct walk {
  const hrn_plan *plan;
  const hrn_key *key;
  hrn_program *program;
  /* Where what was drawn is written down, NULL for no such wish. */
  hrn_drawn *steps;
  int32_t capacity, *count;
} walk;

static int walk_ops(const walk *w, int32_t first, int32_t end, hrn_status *status);

/* All ops of one APPLY group, or none. */
static int walk_apply(const walk *w, int32_t index, hrn_status *status) {
  const hrn_op *op = &w->plan->ops[index];
  hrn_draws draws = hrn_draws_of(w->key, index);
  if (!(hrn_uniform(hrn_draw_word(&draws)) < op->group.probability)) return HRN_OK;
  return walk_ops(w, index + 1, index + hrn_op_span(op), status);
}

/* The members of a CHOICE or an ORDER. */
static int32_t members(const walk *w, int32_t index, int32_t member[HRN_MAX_OPS]) {
  const hrn_op *ops = w->plan->ops;
  const int32_t end = index + hrn_op_span(&ops[index]);
  int32_t count = 0;
  for (int32_t at = index + 1; at < end; at += hrn_op_span(&ops[at])) member[count++] = at;
  return count;
}

static int walk_choice(const walk *w, int32_t index, hrn_status *status) {
  int32_t member[HRN_MAX_OPS];
  const int32_t count = members(w, index, member);
  if (count == 0) return HRN_OK;
  double sum = 0;
  for (int32_t k = 0; k < count; k++) sum += w->plan->ops[member[k]].group.weight;
  hrn_draws draws = hrn_draws_of(w->key, index);
  double rest = hrn_draw_between(&draws, 0, sum);
  int32_t chosen = 0;
  /* The last one takes what rounding leaves, unless its weight is 0. */
  for (int32_t k = 0; k < count; k++) {
    const double weight = w->plan->ops[member[k]].group.weight;
    if (weight == 0) continue;
    chosen = k;
    if (rest < weight) break;
    rest -= weight;
  }
  return walk_apply(w, member[chosen], status);
}

static int walk_order(const walk *w, int32_t index, hrn_status *status) {
  int32_t member[HRN_MAX_OPS];
  const int32_t count = members(w, index, member);
  hrn_draws draws = hrn_draws_of(w->key, index);
  for (int32_t k = 0; k < count; k++) {
    const int32_t other = k + hrn_draw_below(&draws, count - k);
    const int32_t next = member[other];
    member[other] = member[k];
    if (walk_apply(w, next, status) != HRN_OK) return status->code;
  }
  return HRN_OK;
}

/* The next step of a replay, for op `index` on the image as it is now. */
static hrn_drawn *step_of(const walk *w, int32_t index, hrn_status *status) {
  if (*w->count == w->capacity) {
    hrn_fail(status, HRN_LIMIT, -1, "more than %d steps", w->capacity);
    return NULL;
  }
  const hrn_stage *stage = &w->program->stages[w->program->count - 1];
  hrn_drawn *step = &w->steps[(*w->count)++];
  memset(step, 0, sizeof *step);
  step->op = index;
  step->kind = w->plan->ops[index].kind;
  step->filter = w->plan->ops[index].filter;
  step->width = stage->x.length;
  step->height = stage->y.length;
  return step;
}

static void write_size(const hrn_op_size *size, hrn_drawn *step) {
  step->i[0] = size->height;
  step->i[1] = size->width;
}

static void write_padding(const hrn_op *op, const hrn_op_padding *padding, hrn_drawn *step) {
  const int32_t sides[4] = {padding->left, padding->top, padding->right, padding->bottom};
  memcpy(step->i + 2, sides, sizeof sides);
  step->i[7] = padding->mode;
  memcpy(step->p, op->fill, sizeof op->fill);
}

/* The arguments of a geometric op, as hrn_drawn has them. */
static void write_down(const hrn_op *op, hrn_drawn *step) {
  switch (op->kind) {
    case HRN_OP_CROP: {
      const int32_t box[4] = {op->box.top, op->box.left, op->box.height, op->box.width};
      memcpy(step->i, box, sizeof box);
      break;
    }
    case HRN_OP_RESIZE:
    case HRN_OP_CENTER_CROP:
      write_size(&op->size, step);
      break;
    case HRN_OP_RESIZE_BOX:
      write_size(&op->resize_box.size, step);
      for (int k = 0; k < 4; k++) step->p[k] = (double)op->resize_box.box[k];
      break;
    case HRN_OP_REDUCE:
      step->i[0] = op->reduce.across;
      step->i[1] = op->reduce.down;
      step->i[2] = op->reduce.draft;
      break;
    case HRN_OP_RANDOM_RESIZED_CROP:
      write_size(&op->resized_crop.size, step);
      break;
    case HRN_OP_RESIZE_SHORTER:
      step->i[0] = op->shorter.size;
      step->i[1] = op->shorter.max_size;
      break;
    case HRN_OP_RANDOM_CROP:
      write_size(&op->random_crop.size, step);
      write_padding(op, &op->random_crop.padding, step);
      step->i[6] = op->random_crop.if_needed;
      break;
    case HRN_OP_PAD:
      write_padding(op, &op->padding, step);
      break;
    case HRN_OP_FIVE_CROP:
      write_size(&op->crops.size, step);
      step->i[2] = op->crops.ten;
      step->i[3] = op->crops.vertical;
      break;
    default: /* flips have nothing that is not in the step already */
      break;
  }
}

static int record_geometry(const walk *w, const hrn_op *op, int32_t index, hrn_status *status) {
  hrn_drawn *step = step_of(w, index, status);
  if (step == NULL) return status->code;
  step->kind = op->kind;
  hrn_draw draw;
  if (hrn_draw_op(op, index, w->key, step->width, step->height, &draw, status) != HRN_OK) {
    return status->code;
  }
  write_down(op, step);
  const int crops = op->kind == HRN_OP_RANDOM_RESIZED_CROP || op->kind == HRN_OP_RANDOM_CROP;
  if (crops) memcpy(step->box, draw.value, sizeof step->box);
  const int flips = op->kind == HRN_OP_HORIZONTAL_FLIP || op->kind == HRN_OP_VERTICAL_FLIP;
  if (flips && !draw.value[0]) (*w->count)--;
  return HRN_OK;
}

static int record_pixels(const walk *w, int32_t index, int32_t first, hrn_status *status) {
  for (int32_t k = first; k < w->program->pixels.count; k++) {
    const hrn_pixel_op *pixel = &w->program->pixels.op[k];
    hrn_drawn *step = step_of(w, index, status);
    if (step == NULL) return status->code;
    step->kind = HRN_STEP_PIXEL + pixel->kind;
    step->filter = pixel->filter;
    memcpy(step->i, pixel->i, sizeof pixel->i);
    for (int c = 0; c < 3; c++) step->i[5 + c] = pixel->fill[c];
    memcpy(step->p, pixel->p, sizeof step->p);
  }
  return HRN_OK;
}

static int record_erasings(const walk *w, int32_t index, int32_t first, hrn_status *status) {
  for (int32_t k = first; k < w->program->erasings; k++) {
    const hrn_erasing *erasing = &w->program->erasing[k];
    hrn_drawn *step = step_of(w, index, status);
    if (step == NULL) return status->code;
    const hrn_box *box = &erasing->box;
    const int32_t found[4] = {box->top, box->left, box->height, box->width};
    memcpy(step->box, found, sizeof found);
    step->i[0] = erasing->normal;
    for (int c = 0; c < 3; c++) step->p[c] = (double)erasing->value[c];
  }
  return HRN_OK;
}

static int walk_crops(const walk *w, int32_t index, hrn_status *status) {
  const hrn_op *op = &w->plan->ops[index];
  if (w->steps != NULL) {
    hrn_drawn *step = step_of(w, index, status);
    if (step == NULL) return status->code;
    write_down(op, step);
  }
  return hrn_crops_add(w->program, op, status);
}

/* Behind a warp that has changed the image's size, geometry begins anew. */
static int resume(hrn_program *program, int32_t first, int32_t index, hrn_status *status) {
  if (program->pixels.count == first) return HRN_OK;
  const hrn_pixel_op *last = &program->pixels.op[program->pixels.count - 1];
  if (!hrn_sets_size(last)) return HRN_OK;
  if (last->i[2] > HRN_MAX_LENGTH || last->i[3] > HRN_MAX_LENGTH) {
    return hrn_fail_op(status, HRN_LIMIT, index, "a turned image of %dx%d; a side is at most %d",
                       last->i[2], last->i[3], HRN_MAX_LENGTH);
  }
  hrn_geometry_resume(program, last->i[2], last->i[3]);
  return HRN_OK;
}

/* A crop that was drawn by a sample's boxes; where it was not, the walk ends here. */
static int walk_iou_crop(const walk *w, int32_t index, hrn_status *status) {
  hrn_program *program = w->program;
  const hrn_stage *now = &program->stages[program->count - 1];
  if (program->settled == w->key->settled) {
    if (w->steps != NULL && step_of(w, index, status) == NULL) return status->code;
    return hrn_fail_op(status, HRN_ARGUMENT, index, "the boxes of the sample are not known");
  }
  const hrn_settled_crop *c = &w->key->crop[program->settled++];
  if (c->height == 0) return HRN_OK;
  const int inside = c->top >= 0 && c->left >= 0 && c->height > 0 && c->width > 0 &&
                     c->height <= now->y.length && c->top <= now->y.length - c->height &&
                     c->width <= now->x.length && c->left <= now->x.length - c->width;
  if (!inside) {
    return hrn_fail_op(status, HRN_ARGUMENT, index, "a crop of %dx%d at %d, %d of %dx%d pixels",
                       c->height, c->width, c->top, c->left, now->y.length, now->x.length);
  }
  const hrn_op crop = {.kind = HRN_OP_CROP, .box = {c->top, c->left, c->height, c->width}};
  if (w->steps != NULL) {
    if (record_geometry(w, &crop, index, status) != HRN_OK) return status->code;
    w->steps[*w->count - 1].i[4] = 1;
  }
  return hrn_geometry_add(program, &crop, index, w->key, status);
}

static int walk_op(const walk *w, int32_t index, hrn_status *status) {
  const hrn_op *op = &w->plan->ops[index];
  switch (op->kind) {
    case HRN_OP_APPLY:
      return walk_apply(w, index, status);
    case HRN_OP_CHOICE:
      return walk_choice(w, index, status);
    case HRN_OP_ORDER:
      return walk_order(w, index, status);
    case HRN_OP_IOU_CROP:
      return walk_iou_crop(w, index, status);
    default:
      break;
  }
  hrn_program *program = w->program;
  if (hrn_is_geometric(op)) {
    const hrn_stage *now = &program->stages[program->count - 1];
    hrn_op settled;
    if (hrn_settle(op, index, w->key, now->x.length, now->y.length, &settled, status) != HRN_OK ||
        (w->steps != NULL && record_geometry(w, &settled, index, status) != HRN_OK)) {
      return status->code;
    }
    return hrn_geometry_add(program, &settled, index, w->key, status);
  }
  if (op->kind == HRN_OP_FIVE_CROP) return walk_crops(w, index, status);
  if (hrn_is_erasing(op)) {
    const int32_t before = program->erasings;
    if (hrn_erase_draw(program, op, index, w->key, status) != HRN_OK) return status->code;
    return w->steps == NULL ? HRN_OK : record_erasings(w, index, before, status);
  }
  /* Grey of one channel is that channel: Pillow's weights are 65536 together, and half of one is
   * added. */
  if (index == 0 && op->kind == HRN_OP_PIXEL && op->pixel.kind == HRN_PIXEL_GREY &&
      w->plan->output.source_grey && w->steps == NULL) {
    return HRN_OK;
  }
  hrn_stage *stage = &program->stages[program->count - 1];
  const int32_t first = program->pixels.count;
  if (hrn_recipe(op, index, w->key, stage->x.length, stage->y.length, &program->pixels, status) !=
      HRN_OK) {
    return status->code;
  }
  stage->pixel_end = program->pixels.count;
  if (w->steps != NULL && record_pixels(w, index, first, status) != HRN_OK) return status->code;
  return resume(program, first, index, status);
}

static int walk_ops(const walk *w, int32_t first, int32_t end, hrn_status *status) {
  for (int32_t at = first; at < end; at += hrn_op_span(&w->plan->ops[at])) {
    if (walk_op(w, at, status) != HRN_OK) return status->code;
  }
  return HRN_OK;
}

int hrn_fold(const hrn_plan *plan, const hrn_key *key, int32_t width, int32_t height,
             hrn_program *program, hrn_status *status) {
  const walk w = {.plan = plan, .key = key, .program = program};
  hrn_geometry_begin(program, width, height);
  return walk_ops(&w, 0, plan->count, status);
}

hrn_size hrn_finished_size(const hrn_plan *plan, const hrn_program *program) {
  const hrn_stage *last = &program->stages[program->count - 1];
  const hrn_crops *crops = &program->crops;
  hrn_size size = {plan->size.fixed, (uint32_t)last->x.length, (uint32_t)last->y.length, 0, 0};
  if (crops->count > 0) {
    size.width = (uint32_t)crops->box->width;
    size.height = (uint32_t)crops->box->height;
    size.images = (uint32_t)crops->count;
  }
  size.bytes = (uint64_t)size.width * size.height * plan->format.channels * plan->format.element;
  if (size.images > 0) size.bytes *= size.images;
  return size;
}

int hrn_plan_drawn_size(const hrn_plan *plan, const hrn_key *key, uint32_t width, uint32_t height,
                        hrn_size *size, hrn_status *status) {
  hrn_status_clear(status);
  if (hrn_check_sides(width, height, status) != HRN_OK) return status->code;
  hrn_program program;
  if (hrn_fold(plan, key, (int32_t)width, (int32_t)height, &program, status) != HRN_OK) {
    return status->code;
  }
  *size = hrn_finished_size(plan, &program);
  return HRN_OK;
}

int hrn_plan_replay(const hrn_plan *plan, const hrn_key *key, uint32_t width, uint32_t height,
                    hrn_drawn *steps, int32_t capacity, int32_t *count, hrn_status *status) {
  hrn_status_clear(status);
  *count = 0;
  if (hrn_check_sides(width, height, status) != HRN_OK) return status->code;
  hrn_program program;
  const walk w = {plan, key, &program, steps, capacity, count};
  hrn_geometry_begin(&program, (int32_t)width, (int32_t)height);
  walk_ops(&w, 0, plan->count, status);
  if (*count > 0 && steps[*count - 1].kind == HRN_OP_IOU_CROP) hrn_status_clear(status);
  return status->code;
}
