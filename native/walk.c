/* walk.c: goes through a plan's ops for one image: draws each, folds geometry into stages, and puts
 * ops on pixels behind the stage that stands open.
 *
 * Ops are one flat list; a group is an op that says how many of those after it are its own. A
 * draw belongs to an op's place in that list, so what a group decides changes no draw inside it.
 */
#include "plan.h"

typedef struct walk {
  const hrn_plan *plan;
  const hrn_key *key;
  hrn_program *program;
} walk;

static int walk_ops(const walk *w, int32_t first, int32_t end, hrn_status *status);

/* All ops of one APPLY group, or none. */
static int walk_apply(const walk *w, int32_t index, hrn_status *status) {
  const hrn_op *op = &w->plan->ops[index];
  hrn_draws draws = hrn_draws_of(w->key, index);
  if (!(hrn_uniform(hrn_draw_word(&draws)) < op->p[0])) return HRN_OK;
  return walk_ops(w, index + 1, index + 1 + op->i[0], status);
}

/* The members of a CHOICE or an ORDER. */
static int32_t members(const walk *w, int32_t index, int32_t member[HRN_MAX_OPS]) {
  const hrn_op *ops = w->plan->ops;
  const int32_t end = index + 1 + ops[index].i[0];
  int32_t count = 0;
  for (int32_t at = index + 1; at < end; at += hrn_op_span(&ops[at])) member[count++] = at;
  return count;
}

static int walk_choice(const walk *w, int32_t index, hrn_status *status) {
  int32_t member[HRN_MAX_OPS];
  const int32_t count = members(w, index, member);
  if (count == 0) return HRN_OK;
  double sum = 0;
  for (int32_t k = 0; k < count; k++) sum += w->plan->ops[member[k]].p[1];
  hrn_draws draws = hrn_draws_of(w->key, index);
  double rest = hrn_draw_between(&draws, 0, sum);
  int32_t chosen = 0;
  /* The last one takes what rounding leaves, unless its weight is 0. */
  for (int32_t k = 0; k < count; k++) {
    const double weight = w->plan->ops[member[k]].p[1];
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

static int walk_op(const walk *w, int32_t index, hrn_status *status) {
  const hrn_op *op = &w->plan->ops[index];
  switch (op->kind) {
    case HRN_OP_APPLY:
      return walk_apply(w, index, status);
    case HRN_OP_CHOICE:
      return walk_choice(w, index, status);
    case HRN_OP_ORDER:
      return walk_order(w, index, status);
    default:
      break;
  }
  hrn_program *program = w->program;
  if (hrn_is_geometric(op)) return hrn_geometry_add(program, op, index, w->key, status);
  if (op->kind == HRN_OP_ERASING) return hrn_erase_draw(program, op, index, w->key, status);
  hrn_stage *stage = &program->stages[program->count - 1];
  if (hrn_recipe(op, index, w->key, stage->x.length, stage->y.length, &program->pixels, status) !=
      HRN_OK) {
    return status->code;
  }
  stage->pixel_end = program->pixels.count;
  return HRN_OK;
}

static int walk_ops(const walk *w, int32_t first, int32_t end, hrn_status *status) {
  for (int32_t at = first; at < end; at += hrn_op_span(&w->plan->ops[at])) {
    if (walk_op(w, at, status) != HRN_OK) return status->code;
  }
  return HRN_OK;
}

int hrn_fold(const hrn_plan *plan, const hrn_key *key, int32_t width, int32_t height,
             hrn_program *program, hrn_status *status) {
  const walk w = {plan, key, program};
  hrn_geometry_begin(program, width, height);
  return walk_ops(&w, 0, plan->count, status);
}
