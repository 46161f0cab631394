/* plans.c: ops and plans drawn at random, valid ones; what refuses the others is Go's test. */
#include "plans.h"

#include <stdio.h>
#include <stdlib.h>

/* A third of the sides are 5 at most, where edges and supports meet. */
int32_t some_side(random_state *r) {
  static const uint64_t most[] = {5, 40, 150};
  return 1 + (int32_t)random_below(r, most[random_below(r, 3)]);
}

/* Boxes may begin outside of the image and paddings exceed it: those are the cases to get right. */
hrn_op some_op(random_state *r) {
  hrn_op op = {.kind = 1 + (int32_t)random_below(r, 8), .filter = (int32_t)random_below(r, 6)};
  op.i[0] = some_side(r);
  op.i[1] = some_side(r);
  switch (op.kind) {
    case HRN_OP_CROP:
      for (int k = 0; k < 2; k++) {
        op.i[2 + k] = op.i[k];
        op.i[k] = (int32_t)random_below(r, 60) - 20;
      }
      break;
    case HRN_OP_RESIZE_SHORTER:
      op.i[0] = op.i[0] % 60 + 1;
      op.i[1] = random_below(r, 2) ? op.i[0] + 1 + (int32_t)random_below(r, 60) : 0;
      break;
    case HRN_OP_RANDOM_RESIZED_CROP:
      op.p[0] = 0.08, op.p[1] = 1, op.p[2] = 0.75, op.p[3] = 4.0 / 3;
      break;
    case HRN_OP_RANDOM_CROP:
      for (int k = 2; k < 6; k++) {
        op.i[k] = random_below(r, 2) ? (int32_t)random_below(r, 30) : 0;
      }
      op.i[6] = 1;
      op.i[7] = (int32_t)random_below(r, 4);
      for (int c = 0; c < 3; c++) op.p[c] = (double)random_below(r, 256);
      break;
    case HRN_OP_HORIZONTAL_FLIP:
    case HRN_OP_VERTICAL_FLIP:
      op.p[0] = 0.5;
      break;
    default:
      break;
  }
  return op;
}

/* Ops are valid by construction, so a refusal is a failure; that impossible ones are refused is
 * tested from Go. No op at all is a plan, too. */
hrn_plan *some_plan(random_state *r) {
  hrn_op ops[3];
  hrn_status status;
  const int32_t count = (int32_t)random_below(r, 4);
  for (int32_t i = 0; i < count; i++) ops[i] = some_op(r);
  const hrn_output output = {.dtype = (int32_t)random_below(r, 4),
                             .layout = (int32_t)random_below(r, 2),
                             .scale = (int32_t)random_below(r, 2),
                             .mode = (int32_t)random_below(r, 2),
                             .normalize = (int32_t)random_below(r, 2),
                             .mean = {0.485f, 0.456f, 0.406f},
                             .std = {0.229f, 0.224f, 0.225f}};
  hrn_plan *plan = hrn_plan_new(ops, count, &output, &status);
  if (plan == NULL) { /* uint8 is not normalised */
    const hrn_output bytes = {.dtype = HRN_UINT8, .layout = output.layout, .mode = output.mode};
    plan = hrn_plan_new(ops, count, &bytes, &status);
  }
  if (plan == NULL) {
    fprintf(stderr, "a plan was refused: %s\n", status.text);
    abort();
  }
  return plan;
}
