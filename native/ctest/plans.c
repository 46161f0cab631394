/* plans.c: draws valid ops and plans at random. A Go test checks that others are refused. */
#include "plans.h"

#include <stdio.h>
#include <stdlib.h>

/* A third of the sides are 5 at most, where edges and supports meet. */
int32_t some_side(random_state *r) {
  static const uint64_t most[] = {5, 40, 150};
  return 1 + (int32_t)random_below(r, most[random_below(r, 3)]);
}

static hrn_op_size some_size(random_state *r) {
  const int32_t height = some_side(r);
  return (hrn_op_size){height, some_side(r)};
}

static int32_t some_margin(random_state *r) {
  return random_below(r, 2) ? (int32_t)random_below(r, 30) : 0;
}

/* Boxes may begin outside the image, and paddings may exceed it: those cases matter most. */
hrn_op some_op(random_state *r) {
  hrn_op op = {.kind = 1 + (int32_t)random_below(r, 8),
               .filter = (int32_t)random_below(r, HRN_TENSOR_BICUBIC + 1)};
  const hrn_op_size size = some_size(r);
  switch (op.kind) {
    case HRN_OP_CROP:
      op.box = (hrn_op_box){.height = size.height, .width = size.width};
      op.box.top = (int32_t)random_below(r, 60) - 20;
      op.box.left = (int32_t)random_below(r, 60) - 20;
      break;
    case HRN_OP_RESIZE_SHORTER:
      op.shorter.size = size.height % 60 + 1;
      if (random_below(r, 2)) {
        op.shorter.max_size = op.shorter.size + 1 + (int32_t)random_below(r, 60);
      }
      break;
    case HRN_OP_RANDOM_RESIZED_CROP:
      op.resized_crop = (hrn_op_resized_crop){size, {0.08, 1}, {0.75, 4.0 / 3}};
      break;
    case HRN_OP_RANDOM_CROP:
      op.random_crop = (hrn_op_random_crop){.size = size, .if_needed = 1};
      op.random_crop.padding.left = some_margin(r);
      op.random_crop.padding.top = some_margin(r);
      op.random_crop.padding.right = some_margin(r);
      op.random_crop.padding.bottom = some_margin(r);
      op.random_crop.padding.mode = (int32_t)random_below(r, 4);
      for (int c = 0; c < 3; c++) op.fill[c] = (double)random_below(r, 256);
      break;
    case HRN_OP_HORIZONTAL_FLIP:
    case HRN_OP_VERTICAL_FLIP:
      op.probability = 0.5;
      break;
    default:
      op.size = size;
      break;
  }
  return op;
}

/* Ops are valid by construction, so a refusal is a failure. A Go test checks that impossible ones
 * are refused. A plan may also have no op. */
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
