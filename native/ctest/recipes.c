/* recipes.c: runs plans with ops on pixels, groups and erasings, with any parameters that are
 * accepted, on images from one pixel up. No byte outside of the image is read or written (under
 * sanitizers), both layouts hold the same values, one channel is the first of three, and a second
 * run gives the same bytes.
 *
 *   recipes [-n ROUNDS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../native.h"
#include "../pixels/pixels.h"
#include "plans.h"

/* A list of ops, now and then a group; returns how many were written, at most `room`. */
static int32_t some_ops(random_state *r, hrn_op *ops, int32_t room, int depth) {
  int32_t count = 0;
  const int32_t wanted = (int32_t)random_below(r, 4);
  for (int32_t k = 0; k < wanted && count + 8 < room; k++) {
    if (depth > 0 && random_below(r, 4) == 0) {
      hrn_op *head = &ops[count++];
      *head = (hrn_op){.kind = HRN_OP_APPLY + (int32_t)random_below(r, 3)};
      head->group.probability = head->group.weight = 1;
      if (head->kind == HRN_OP_APPLY) {
        head->group.probability = some_real(r, 0, 1);
        head->group.count = some_ops(r, ops + count, room - count, depth - 1);
        count += head->group.count;
        continue;
      }
      for (int32_t member = 0; member < 2 && count + 4 < room; member++) {
        hrn_op *inner = &ops[count++];
        *inner = (hrn_op){.kind = HRN_OP_APPLY};
        inner->group.probability = some_real(r, 0, 1);
        inner->group.weight = some_real(r, 0.1, 2);
        inner->group.count = some_ops(r, ops + count, (room - count) / 2, depth - 1);
        count += inner->group.count;
        head->group.count += 1 + inner->group.count;
      }
      continue;
    }
    const uint64_t kind = random_below(r, 7);
    ops[count++] = kind == 0 ? some_sizing_op(r) : kind < 3 ? some_op(r) : some_pixel_op(r);
  }
  return count;
}

/* Ends with an op that keeps the size small, and perhaps an erasing. */
static int32_t some_recipe(random_state *r, hrn_op *ops, int noise) {
  int32_t count = some_ops(r, ops, 40, 2);
  ops[count++] = (hrn_op){.kind = HRN_OP_RESIZE,
                          .filter = (int32_t)random_below(r, HRN_TENSOR_BICUBIC + 1),
                          .size = {some_side(r), some_side(r)}};
  for (int k = 0; k < 2; k++) {
    if (random_below(r, 2)) ops[count++] = some_pixel_op(r);
  }
  if (random_below(r, 2)) {
    hrn_op erasing = {.kind = HRN_OP_ERASING + (int32_t)random_below(r, 3)};
    hrn_op_erasing *e = &erasing.erasing;
    e->probability = 0.7;
    e->fill = noise ? 1 + (int32_t)random_below(r, 2) : 0;
    e->boxes[0] = 1 + (int32_t)random_below(r, 4);
    e->boxes[1] = e->boxes[0] + (int32_t)random_below(r, 4);
    e->side = some_side(r);
    e->box = (hrn_op_box){some_side(r), some_side(r), some_side(r), some_side(r)};
    some_interval(r, 0, 1, e->scale);
    some_interval(r, 0.1, 9, e->ratio);
    for (int c = 0; c < 3; c++) e->value[c] = (double)random_below(r, 256);
    ops[count++] = erasing;
  }
  return count;
}

/* The sample of one plan in its own block of memory, whose end a sanitizer watches. */
static uint8_t *run(hrn_context *context, const hrn_op *ops, int32_t count,
                    const hrn_output *output, const hrn_job *job, hrn_size *size,
                    hrn_status *status) {
  hrn_plan *plan = hrn_plan_new(ops, count, output, status);
  if (plan == NULL) return NULL;
  uint8_t *finished = NULL;
  uint32_t side[2]; /* of the source */
  memcpy(side, job->bytes, sizeof side);
  if (hrn_plan_drawn_size(plan, &job->key, side[0], side[1], size, status) == HRN_OK) {
    finished = malloc(size->bytes);
    if (finished == NULL) abort();
    hrn_job mine = *job;
    mine.view_count = 1;
    mine.views[0] = (hrn_view){plan, finished, size->bytes};
    if (hrn_sample(context, &mine, status) != HRN_OK) {
      free(finished);
      finished = NULL;
    }
  }
  hrn_plan_free(plan);
  return finished;
}

/* 1 if NHWC and NCHW do not hold the same elements. */
static int layouts_differ(const uint8_t *nhwc, const uint8_t *nchw, const hrn_size *size) {
  const size_t pixels = (size_t)size->width * size->height, element = size->bytes / (3 * pixels);
  for (size_t pixel = 0; pixel < pixels; pixel++) {
    for (size_t c = 0; c < 3; c++) {
      if (memcmp(nhwc + (3 * pixel + c) * element, nchw + (c * pixels + pixel) * element,
                 element) != 0) {
        return 1;
      }
    }
  }
  return 0;
}

/* Moves a mask of the image with the image, into memory of its size. 0 if that fails. */
static int moves_a_mask(random_state *r, hrn_context *context, const hrn_op *ops, int32_t count,
                        const hrn_output *output, const hrn_job *job, const hrn_size *to,
                        hrn_status *status) {
  enum { CAPACITY = 4 * HRN_MAX_OPS };
  hrn_drawn drawn[CAPACITY];
  int32_t moves;
  uint32_t side[2];
  memcpy(side, job->bytes, sizeof side);
  hrn_plan *plan = hrn_plan_new(ops, count, output, status);
  if (plan == NULL) return 0;
  hrn_plan_replay(plan, &job->key, side[0], side[1], drawn, CAPACITY, &moves, status);
  hrn_plan_free(plan);
  if (status->code != HRN_OK) return 0;
  uint8_t *mask = malloc((size_t)side[0] * side[1]);
  uint8_t *moved = malloc((size_t)to->width * to->height);
  if (mask == NULL || moved == NULL) abort();
  for (size_t i = 0; i < (size_t)side[0] * side[1]; i++) mask[i] = (uint8_t)random_below(r, 9);
  const hrn_mask work = {.pixels = mask,
                         .width = (int32_t)side[0],
                         .height = (int32_t)side[1],
                         .to_width = (int32_t)to->width,
                         .to_height = (int32_t)to->height,
                         .to = moved,
                         .fill = random_below(r, 2) ? 9 : HRN_MASK_FILL_OF_OP};
  const uint8_t most = work.fill == 9 ? 9 : 255;
  int good = hrn_move_mask(context, drawn, moves, &work, status) == HRN_OK;
  for (size_t i = 0; i < (size_t)to->width * to->height; i++) good = good && moved[i] <= most;
  free(mask);
  free(moved);
  return good;
}

/* Puts a crop by boxes before the ops, and draws it for boxes of any numbers. 1 if what was drawn
 * is no part of the image. */
static int crop_by_boxes(random_state *r, hrn_op *ops, int32_t *count, const hrn_output *output,
                         uint32_t width, uint32_t height, hrn_key *key) {
  if (*count == HRN_MAX_OPS || random_below(r, 3) != 0) return 0;
  memmove(ops + 1, ops, (size_t)*count * sizeof *ops);
  ++*count;
  ops[0] = (hrn_op){.kind = HRN_OP_IOU_CROP};
  hrn_op_iou_crop *op = &ops[0].iou_crop;
  some_interval(r, 0, 1, op->scale);
  some_interval(r, 0, 3, op->aspect);
  op->trials = 1 + (int32_t)random_below(r, 9);
  op->count = 1 + (int32_t)random_below(r, HRN_MAX_OVERLAPS);
  for (int32_t k = 0; k < op->count; k++) op->overlap[k] = some_real(r, 0, 1.5);
  float boxes[4 * 5];
  for (int k = 0; k < 20; k++) {
    boxes[k] = (float)some_real(r, -1, 2) * (random_below(r, 9) == 0 ? 3e38f : (float)width);
  }
  hrn_status status;
  hrn_plan *plan = hrn_plan_new(ops, *count, output, &status);
  if (plan == NULL) return 0; /* the round reports that */
  hrn_settled_crop *c = &key->crop[key->settled++];
  const int32_t wide = (int32_t)width, high = (int32_t)height;
  const hrn_key drawn = *key;
  const int code = hrn_plan_iou_crop(plan, 0, &drawn, wide, high, boxes,
                                     (int32_t)random_below(r, 6), c, &status);
  hrn_plan_free(plan);
  if (code == HRN_LIMIT) return 0; /* no crop: the image stays as it is */
  const int inside = c->top >= 0 && c->left >= 0 && c->top + c->height <= high &&
                     c->left + c->width <= wide && (c->height > 0) == (c->width > 0);
  return code != HRN_OK || !inside;
}

static int one_round(random_state *r, hrn_context *context, uint64_t *finished) {
  /* The format of raw_decoder.c. */
  const uint32_t width = (uint32_t)some_side(r), height = (uint32_t)some_side(r);
  const size_t length = 8 + (size_t)width * height * 3;
  uint8_t *bytes = malloc(length);
  if (bytes == NULL) abort();
  memcpy(bytes, &width, 4);
  memcpy(bytes + 4, &height, 4);
  const int flat = random_below(r, 8) == 0;
  for (size_t i = 8; i < length; i++) bytes[i] = flat ? 77 : (uint8_t)random_next(r);
  hrn_key key = {.seed = random_next(r),
                 .epoch = random_next(r),
                 .sample = random_next(r),
                 .draw = random_next(r)};
  hrn_output output = {.dtype = (int32_t)random_below(r, 4), .layout = HRN_NHWC};
  hrn_op ops[HRN_MAX_OPS];
  int32_t count = some_recipe(r, ops, output.dtype != HRN_UINT8 && random_below(r, 2));
  int bad = crop_by_boxes(r, ops, &count, &output, width, height, &key);
  const hrn_job job = {.bytes = bytes, .length = length, .key = key};
  hrn_status status;
  hrn_size size;
  uint8_t *first = run(context, ops, count, &output, &job, &size, &status);
  if (first == NULL) {
    /* Sides beyond the limit or below 1, or a blur wider than its image; all else is a failure. */
    const int expected = status.code == HRN_LIMIT || status.code == HRN_NO_PIXELS ||
                         strstr(status.text, "a blur kernel") != NULL;
    bad = bad || !expected;
    if (bad) fprintf(stderr, "error %d: %s\n", status.code, status.text);
  } else {
    uint8_t *again = run(context, ops, count, &output, &job, &size, &status);
    output.layout = HRN_NCHW;
    uint8_t *planes = run(context, ops, count, &output, &job, &size, &status);
    bad = bad || again == NULL || planes == NULL || memcmp(first, again, size.bytes) != 0 ||
          layouts_differ(first, planes, &size);
    output.grey = 1;
    output.layout = (int32_t)random_below(r, 2);
    hrn_size of_one;
    uint8_t *one = run(context, ops, count, &output, &job, &of_one, &status);
    bad = bad || one == NULL || 3 * of_one.bytes != size.bytes ||
          memcmp(one, planes, of_one.bytes) != 0;
    free(one);
    output.grey = 0;
    free(again);
    free(planes);
    if (!moves_a_mask(r, context, ops, count, &output, &job, &size, &status)) {
      fprintf(stderr, "a mask does not move: error %d: %s\n", status.code, status.text);
      bad = 1;
    }
    ++*finished;
  }
  free(first);
  free(bytes);
  return bad;
}

int main(int count, char **arguments) {
  uint64_t rounds = 3000, finished = 0;
  if (count == 3 && strcmp(arguments[1], "-n") == 0) rounds = strtoull(arguments[2], NULL, 10);
  const hrn_limits limits = hrn_default_limits();
  hrn_context *context = hrn_context_new(&limits);
  random_state r = random_seeded(17);
  for (uint64_t round = 0; round < rounds; round++) {
    if (one_round(&r, context, &finished)) {
      fprintf(stderr, "round %llu\n", (unsigned long long)round);
      return 1;
    }
  }
  hrn_context_free(context);
  printf("%s: %llu of %llu recipes finished\n", hrn_simd_name(), (unsigned long long)finished,
         (unsigned long long)rounds);
  return finished * 2 > rounds ? 0 : 1;
}
