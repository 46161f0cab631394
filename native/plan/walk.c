/* walk.c: goes through a plan's ops for one image. It draws each op, folds geometry into stages,
 * and adds ops on pixels to the current stage.
 *
 * Ops are one flat list. A group is an op that says how many of the ops behind it belong to it. A
 * draw is keyed by the op's number in that list, so a group's decision changes no draw inside
 * it. */
#include <string.h>

#include "plan.h"

typedef struct walk {
  const hrn_plan *plan;
  const hrn_key *key;
  hrn_program *program;
  /* Where the drawn ops are noted, for a replay. NULL: nowhere. */
  hrn_drawn *drawn;
  int32_t capacity, *count;
} walk;

static int walk_ops(const walk *w, int32_t first, int32_t end, hrn_status *status);

/* Does all ops of one APPLY group, or none. */
static int walk_apply(const walk *w, int32_t index, hrn_status *status) {
  const hrn_op *op = &w->plan->ops[index];
  hrn_draws draws = hrn_draws_of(w->key, index);
  if (!(hrn_uniform(hrn_draw_word(&draws)) < op->group.probability)) return HRN_OK;
  return walk_ops(w, index + 1, index + hrn_op_span(op), status);
}

/* Finds the members of a CHOICE or an ORDER. */
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

/* Adds an entry to the drawn ops: op `index` on the image as it is now, with its arguments as they
 * are in the plan. */
static hrn_drawn *next_drawn(const walk *w, int32_t index, hrn_status *status) {
  if (*w->count == w->capacity) {
    hrn_fail(status, HRN_LIMIT, -1, "more than %d ops were drawn", w->capacity);
    return NULL;
  }
  const hrn_stage *stage = &w->program->stages[w->program->count - 1];
  hrn_drawn *drawn = &w->drawn[(*w->count)++];
  memset(drawn, 0, sizeof *drawn);
  drawn->number = index;
  drawn->width = stage->x.length;
  drawn->height = stage->y.length;
  drawn->op = w->plan->ops[index];
  return drawn;
}

/* `op` must not draw a size any more. */
static int record_geometry(const walk *w, const hrn_op *op, int32_t index, hrn_status *status) {
  hrn_drawn *drawn = next_drawn(w, index, status);
  if (drawn == NULL) return status->code;
  drawn->op = *op;
  hrn_draw draw;
  if (hrn_draw_op(op, index, w->key, drawn->width, drawn->height, &draw, status) != HRN_OK) {
    return status->code;
  }
  if (op->kind == HRN_OP_RANDOM_RESIZED_CROP || op->kind == HRN_OP_RANDOM_CROP) {
    drawn->box = (hrn_op_box){draw.value[0], draw.value[1], draw.value[2], draw.value[3]};
  }
  if (op->kind == HRN_OP_HORIZONTAL_FLIP || op->kind == HRN_OP_VERTICAL_FLIP) {
    drawn->op.probability = 1;
    if (!draw.value[0]) (*w->count)--;
  }
  return HRN_OK;
}

static int record_pixels(const walk *w, int32_t index, int32_t first, hrn_status *status) {
  for (int32_t k = first; k < w->program->pixels.count; k++) {
    const hrn_pixel_op *pixel = &w->program->pixels.op[k];
    hrn_drawn *drawn = next_drawn(w, index, status);
    if (drawn == NULL) return status->code;
    drawn->op = (hrn_op){.kind = HRN_OP_PIXEL,
                         .filter = pixel->filter,
                         .fill = {pixel->fill[0], pixel->fill[1], pixel->fill[2]},
                         .pixel = {pixel->kind, pixel->args}};
  }
  return HRN_OK;
}

static int record_erasings(const walk *w, int32_t index, int32_t first, hrn_status *status) {
  for (int32_t k = first; k < w->program->erasings; k++) {
    const hrn_erasing *erasing = &w->program->erasing[k];
    hrn_drawn *drawn = next_drawn(w, index, status);
    if (drawn == NULL) return status->code;
    const hrn_box *box = &erasing->box;
    const float *value = erasing->value;
    drawn->op =
        (hrn_op){.kind = HRN_OP_ERASE,
                 .erasing = {.fill = erasing->normal ? HRN_ERASE_PIXELS : HRN_ERASE_VALUE,
                             .boxes = {1, 1},
                             .probability = 1,
                             .value = {(double)value[0], (double)value[1], (double)value[2]},
                             .box = {box->top, box->left, box->height, box->width}}};
  }
  return HRN_OK;
}

static int walk_crops(const walk *w, int32_t index, hrn_status *status) {
  if (w->drawn != NULL && next_drawn(w, index, status) == NULL) return status->code;
  return hrn_crops_add(w->program, &w->plan->ops[index], status);
}

/* Geometry begins anew behind a warp that has changed the image's size. */
static int resume(hrn_program *program, int32_t first, int32_t index, hrn_status *status) {
  if (program->pixels.count == first) return HRN_OK;
  const hrn_pixel_op *last = &program->pixels.op[program->pixels.count - 1];
  if (!hrn_sets_size(last)) return HRN_OK;
  const int32_t width = last->args.affine.size[0], height = last->args.affine.size[1];
  if (width > HRN_MAX_LENGTH || height > HRN_MAX_LENGTH) {
    return hrn_fail_op(status, HRN_LIMIT, index, "a turned image of %dx%d; a side is at most %d",
                       width, height, HRN_MAX_LENGTH);
  }
  hrn_geometry_resume(program, width, height);
  return HRN_OK;
}

/* A crop that was drawn by a sample's boxes. If it was not drawn yet, the walk ends here. */
static int walk_iou_crop(const walk *w, int32_t index, hrn_status *status) {
  hrn_program *program = w->program;
  const hrn_stage *now = &program->stages[program->count - 1];
  if (program->settled == w->key->settled) {
    if (w->drawn != NULL && next_drawn(w, index, status) == NULL) return status->code;
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
  if (w->drawn != NULL) {
    if (record_geometry(w, &crop, index, status) != HRN_OK) return status->code;
    w->drawn[*w->count - 1].by_boxes = 1;
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
        (w->drawn != NULL && record_geometry(w, &settled, index, status) != HRN_OK)) {
      return status->code;
    }
    return hrn_geometry_add(program, &settled, index, w->key, status);
  }
  if (op->kind == HRN_OP_FIVE_CROP) return walk_crops(w, index, status);
  if (hrn_is_erasing(op)) {
    const int32_t before = program->erasings;
    if (hrn_erase_draw(program, op, index, w->key, status) != HRN_OK) return status->code;
    return w->drawn == NULL ? HRN_OK : record_erasings(w, index, before, status);
  }
  /* Grey of one channel is that channel, because Pillow's weights add up to 65536 and it adds one
   * half. */
  if (index == 0 && op->kind == HRN_OP_PIXEL && op->pixel.kind == HRN_PIXEL_GREY &&
      w->plan->output.source_grey && w->drawn == NULL) {
    return HRN_OK;
  }
  hrn_stage *stage = &program->stages[program->count - 1];
  const int32_t first = program->pixels.count;
  if (hrn_pixel_draw(op, index, w->key, stage->x.length, stage->y.length, &program->pixels,
                     status) != HRN_OK) {
    return status->code;
  }
  stage->pixel_end = program->pixels.count;
  if (w->drawn != NULL && record_pixels(w, index, first, status) != HRN_OK) return status->code;
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
  if (walk_ops(&w, 0, plan->count, status) != HRN_OK) return status->code;
  for (int32_t s = 0; s < program->count; s++) {
    program->stages[s].passes = plan->output.passes;
  }
  return HRN_OK;
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
                    hrn_drawn *drawn, int32_t capacity, int32_t *count, hrn_status *status) {
  hrn_status_clear(status);
  *count = 0;
  if (hrn_check_sides(width, height, status) != HRN_OK) return status->code;
  hrn_program program;
  const walk w = {plan, key, &program, drawn, capacity, count};
  hrn_geometry_begin(&program, (int32_t)width, (int32_t)height);
  walk_ops(&w, 0, plan->count, status);
  if (*count > 0 && drawn[*count - 1].op.kind == HRN_OP_IOU_CROP) hrn_status_clear(status);
  return status->code;
}
