/* plan.c: refuses impossible ops before any image is read, and compiles the rest. */
#include "../draws/check.h"
#include "plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Enumerators come from another language as plain numbers, so all of them are checked. */
static int check_output(hrn_status *status, const hrn_output *output) {
  if (output->dtype < HRN_UINT8 || output->dtype > HRN_FLOAT32) {
    return hrn_fail(status, HRN_ARGUMENT, -1, "unknown dtype %d", output->dtype);
  }
  if (output->layout != HRN_NCHW && output->layout != HRN_NHWC) {
    return hrn_fail(status, HRN_ARGUMENT, -1, "unknown layout %d", output->layout);
  }
  if (output->scale != HRN_SCALE_DIV && output->scale != HRN_SCALE_MUL) {
    return hrn_fail(status, HRN_ARGUMENT, -1, "unknown scale %d", output->scale);
  }
  if (output->mode != HRN_EXACT && output->mode != HRN_FAST) {
    return hrn_fail(status, HRN_ARGUMENT, -1, "unknown mode %d", output->mode);
  }
  if (output->passes < HRN_PASSES_CHEAPER || output->passes > HRN_PASSES_HORIZONTAL) {
    return hrn_fail(status, HRN_ARGUMENT, -1, "unknown passes %d", output->passes);
  }
  if (output->unmixed < 0 || output->unmixed > 1) {
    return hrn_fail(status, HRN_ARGUMENT, -1, "unmixed is %d, must be 0 or 1", output->unmixed);
  }
  if (output->source_width < 0 || output->source_height < 0 ||
      (output->source_width > 0) != (output->source_height > 0) ||
      output->source_width > HRN_MAX_LENGTH || output->source_height > HRN_MAX_LENGTH) {
    return hrn_fail(status, HRN_ARGUMENT, -1, "a source of %d x %d pixels", output->source_width,
                    output->source_height);
  }
  if (output->source_grey < 0 || output->source_grey > 1) {
    return hrn_fail(status, HRN_ARGUMENT, -1, "source_grey is %d, must be 0 or 1",
                    output->source_grey);
  }
  if (output->grey < 0 || output->grey > 1) {
    return hrn_fail(status, HRN_ARGUMENT, -1, "grey is %d, must be 0 or 1", output->grey);
  }
  if (!output->normalize) return HRN_OK;
  if (output->dtype == HRN_UINT8) {
    return hrn_fail(status, HRN_ARGUMENT, -1, "normalize needs a float dtype, not uint8");
  }
  for (int c = 0; c < 3; c++) {
    if (!isfinite(output->mean[c])) {
      return hrn_fail(status, HRN_ARGUMENT, -1, "mean[%d] is not finite", c);
    }
    if (!isfinite(output->std[c]) || output->std[c] == 0) {
      return hrn_fail(status, HRN_ARGUMENT, -1, "std[%d] is %g, must be finite and not 0", c,
                      (double)output->std[c]);
    }
  }
  return HRN_OK;
}

/* Only the last op makes several images; check_crops makes sure of that. */
static uint32_t images_of(const hrn_plan *plan) {
  return plan->count > 0 ? (uint32_t)hrn_crops_of(&plan->ops[plan->count - 1]) : 0;
}

/* At most 10 * 3 * 4 * 2^48, so it cannot overflow. */
static uint64_t bytes_of(const hrn_plan *plan, int32_t width, int32_t height) {
  const uint64_t images = images_of(plan) > 0 ? images_of(plan) : 1;
  return images * (uint64_t)width * (uint64_t)height * plan->format.channels * plan->format.element;
}

/* The size after a run of ops, as far as it is known without an image. An op that sets the size
 * makes it known; setting the shorter side alone does not. An op that is done only sometimes must
 * not change a known size. Nobody reads the text in status here. */
typedef struct known_size {
  int32_t known, width, height;
} known_size;

static known_size size_after(const hrn_op *ops, int32_t first, int32_t end, known_size size);

static int same_size(known_size a, known_size b) {
  return a.known && b.known && a.width == b.width && a.height == b.height;
}

static known_size size_after_group(const hrn_op *ops, int32_t index, known_size size) {
  const hrn_op *group = &ops[index];
  const int32_t end = index + hrn_op_span(group);
  const known_size unknown = {0, 0, 0};
  if (group->kind == HRN_OP_APPLY) {
    const known_size after = size_after(ops, index + 1, end, size);
    if (group->group.probability == 1) return after;
    return group->group.probability == 0 || same_size(after, size) ? size : unknown;
  }
  /* One of the members is done, or all in any order. The size is known if each leads to the same
   * size. */
  known_size found = unknown;
  for (int32_t at = index + 1; at < end; at += hrn_op_span(&ops[at])) {
    const known_size after = size_after_group(ops, at, size);
    if (at > index + 1 && !same_size(after, found)) return unknown;
    found = after;
  }
  /* If all are done in any order, the second member gets what the first has made, and two paddings
   * are not one. */
  for (int32_t at = index + 1; group->kind == HRN_OP_ORDER && at < end;
       at += hrn_op_span(&ops[at])) {
    if (!same_size(size_after_group(ops, at, found), found)) return unknown;
  }
  return found;
}

static known_size size_after(const hrn_op *ops, int32_t first, int32_t end, known_size size) {
  hrn_status ignored;
  hrn_status_clear(&ignored);
  for (int32_t at = first; at < end; at += hrn_op_span(&ops[at])) {
    const hrn_op *op = &ops[at];
    if (hrn_is_group(op)) {
      size = size_after_group(ops, at, size);
      continue;
    }
    if (op->kind == HRN_OP_FIVE_CROP)
      return (known_size){1, op->crops.size.width, op->crops.size.height};
    if (hrn_draws_size(op)) {
      size.known = 0;
      continue;
    }
    if (!hrn_is_geometric(op) || op->kind == HRN_OP_HORIZONTAL_FLIP ||
        op->kind == HRN_OP_VERTICAL_FLIP) {
      continue;
    }
    const int relative =
        op->kind == HRN_OP_RESIZE_SHORTER || op->kind == HRN_OP_PAD || op->kind == HRN_OP_REDUCE;
    if (relative && !size.known) continue;
    const int fits = hrn_op_size_after(op, &size.width, &size.height, &ignored) == HRN_OK;
    size.known = fits || !relative;
  }
  return size;
}

static void compile_size(hrn_plan *plan) {
  const hrn_output *output = &plan->output;
  const known_size source = {output->source_width > 0, output->source_width, output->source_height};
  const known_size size = size_after(plan->ops, 0, plan->count, source);
  if (!size.known) return;
  plan->size = (hrn_size){1, (uint32_t)size.width, (uint32_t)size.height, images_of(plan),
                          bytes_of(plan, size.width, size.height)};
}

/* Groups must lie inside each other and inside the list. A group that chooses or orders must
 * consist of groups. */
static int check_groups(const hrn_op *ops, int32_t first, int32_t end, hrn_status *status) {
  for (int32_t at = first; at < end; at += hrn_op_span(&ops[at])) {
    const hrn_op *op = &ops[at];
    if (!hrn_is_group(op)) continue;
    if (op->group.count < 0 || op->group.count > end - at - 1) {
      return hrn_fail_op(status, HRN_ARGUMENT, at, "a group of %d ops, of which %d are there",
                         op->group.count, end - at - 1);
    }
    const int32_t last = at + op->group.count;
    if (op->kind != HRN_OP_APPLY) {
      double sum = 0;
      for (int32_t k = at + 1; k <= last; k += hrn_op_span(&ops[k])) {
        if (ops[k].kind != HRN_OP_APPLY || ops[k].group.count < 0) {
          return hrn_fail_op(status, HRN_ARGUMENT, at, "consists of groups, not of kind %d",
                             ops[k].kind);
        }
        sum += ops[k].group.weight;
      }
      if (!(sum > 0) && op->kind == HRN_OP_CHOICE) {
        return hrn_fail_op(status, HRN_ARGUMENT, at, "a choice of nothing");
      }
    }
    if (check_groups(ops, at + 1, last + 1, status) != HRN_OK) return status->code;
  }
  return HRN_OK;
}

/* No op can go on with several images. */
static int check_crops(const hrn_op *ops, int32_t count, hrn_status *status) {
  int32_t groups_end = 0;
  for (int32_t index = 0; index < count; index++) {
    const int32_t end = index + hrn_op_span(&ops[index]);
    if (hrn_is_group(&ops[index]) && end > groups_end) groups_end = end;
    if (hrn_crops_of(&ops[index]) == 0 || (index + 1 == count && index >= groups_end)) continue;
    return hrn_fail_op(status, HRN_ARGUMENT, index, "crops are the last op, and in no group");
  }
  return HRN_OK;
}

/* A key has room for HRN_MAX_IOU_CROPS crops. */
static int check_iou_crops(const hrn_op *ops, int32_t count, hrn_status *status) {
  int32_t found = 0;
  for (int32_t index = 0; index < count; index++) {
    if (ops[index].kind != HRN_OP_IOU_CROP || ++found <= HRN_MAX_IOU_CROPS) continue;
    return hrn_fail_op(status, HRN_ARGUMENT, index, "one too many (expected at most %d of it)",
                       HRN_MAX_IOU_CROPS);
  }
  return HRN_OK;
}

/* Erasings must be the last ops, one after the other. Their values must fit the output's dtype. */
static int check_erasings(const hrn_op *ops, int32_t count, const hrn_output *output,
                          hrn_status *status) {
  int32_t erasings = 0;
  for (int32_t index = 0; index < count; index++) {
    const hrn_op *op = &ops[index];
    if (!hrn_is_erasing(op) && erasings == 0) continue;
    if (!hrn_is_erasing(op) || (erasings += op->erasing.boxes[1]) > HRN_MAX_ERASINGS) {
      return hrn_fail_op(status, HRN_ARGUMENT, index,
                         "at most %d boxes are erased, and nothing comes after that",
                         HRN_MAX_ERASINGS);
    }
    if (output->dtype != HRN_UINT8) continue;
    for (int c = 0; c < 3; c++) {
      if (op->erasing.fill != HRN_ERASE_VALUE ||
          !hrn_within(index, "value", op->erasing.value[c], 0, 255, status)) {
        return hrn_fail_op(status, HRN_ARGUMENT, index, "a uint8 is erased to 0 to 255");
      }
    }
  }
  return HRN_OK;
}

hrn_plan *hrn_plan_new(const hrn_op *ops, int32_t count, const hrn_output *output,
                       hrn_status *status) {
  hrn_status_clear(status);
  if (count < 0 || count > HRN_MAX_OPS) {
    hrn_fail(status, HRN_ARGUMENT, -1, "%d ops, must be 0 to %d", count, HRN_MAX_OPS);
    return NULL;
  }
  for (int32_t index = 0; index < count; index++) {
    if (hrn_check_op(&ops[index], index, status) != HRN_OK) return NULL;
  }
  if (check_groups(ops, 0, count, status) != HRN_OK || check_crops(ops, count, status) != HRN_OK ||
      check_iou_crops(ops, count, status) != HRN_OK ||
      check_erasings(ops, count, output, status) != HRN_OK) {
    return NULL;
  }
  if (check_output(status, output) != HRN_OK) return NULL;
  hrn_plan *plan = calloc(1, sizeof *plan);
  if (plan == NULL) {
    hrn_fail(status, HRN_MEMORY, -1, "a plan of %zu bytes", sizeof *plan);
    return NULL;
  }
  /* The ops are copied, so the caller may free its memory. */
  plan->count = count;
  if (count > 0) memcpy(plan->ops, ops, (size_t)count * sizeof *ops);
  plan->output = *output;
  hrn_format_compile(&plan->format, output);
  compile_size(plan);
  return plan;
}

void hrn_plan_free(hrn_plan *plan) { free(plan); }

int hrn_plan_size(const hrn_plan *plan, uint32_t source_width, uint32_t source_height,
                  hrn_size *size, hrn_status *status) {
  hrn_status_clear(status);
  if (plan->size.fixed) {
    *size = plan->size;
    return HRN_OK;
  }
  if (hrn_check_sides(source_width, source_height, status) != HRN_OK) return status->code;
  const known_size from = {1, (int32_t)source_width, (int32_t)source_height};
  const known_size found = size_after(plan->ops, 0, plan->count, from);
  if (!found.known) {
    /* An op may have refused its size, and then says why. Otherwise the size is left to chance. */
    int32_t width = from.width, height = from.height;
    for (int32_t index = 0; index < plan->count; index++) {
      if (hrn_op_size_after(&plan->ops[index], &width, &height, status) != HRN_OK)
        return status->code;
    }
    return hrn_fail(status, HRN_ARGUMENT, -1, "the size of the result is left to chance");
  }
  const int32_t width = found.width, height = found.height;
  *size = (hrn_size){0, (uint32_t)width, (uint32_t)height, images_of(plan),
                     bytes_of(plan, width, height)};
  return HRN_OK;
}

int hrn_plan_draw(const hrn_plan *plan, int32_t op, const hrn_key *key, uint32_t width,
                  uint32_t height, hrn_draw *draw, hrn_status *status) {
  hrn_status_clear(status);
  if (op < 0 || op >= plan->count) {
    return hrn_fail(status, HRN_ARGUMENT, -1, "op %d of a plan of %d", op, plan->count);
  }
  if (hrn_check_sides(width, height, status) != HRN_OK) return status->code;
  return hrn_draw_op(&plan->ops[op], op, key, (int32_t)width, (int32_t)height, draw, status);
}
