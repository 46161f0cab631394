/* folding.c: a plan gives the pixels that its ops give one by one, each on the finished image of
 * the one before. So folding ops into stages, and reading only what they show, changes nothing.
 *
 *   folding [-n ROUNDS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../native.h"
#include "plans.h"

/* The format of raw_decoder.c. */
typedef struct raw {
  uint8_t *bytes;
  size_t length;
  uint32_t width, height;
} raw;

static raw raw_new(uint32_t width, uint32_t height) {
  raw image = {.length = 8 + (size_t)width * height * 3, .width = width, .height = height};
  image.bytes = malloc(image.length);
  if (image.bytes == NULL) abort();
  memcpy(image.bytes, &width, 4);
  memcpy(image.bytes + 4, &height, 4);
  return image;
}

static const hrn_output bytes_nhwc = {.dtype = HRN_UINT8, .layout = HRN_NHWC};

/* Runs ops on an image; the result is an image again. Its bytes are NULL after an error. */
static raw run(hrn_context *context, const hrn_op *ops, int32_t count, const hrn_key *key,
               const raw *image, hrn_status *status) {
  raw result = {0};
  hrn_size size;
  hrn_plan *plan = hrn_plan_new(ops, count, &bytes_nhwc, status);
  if (plan == NULL) return result;
  if (hrn_plan_size(plan, image->width, image->height, &size, status) == HRN_OK) {
    result = raw_new(size.width, size.height);
    const hrn_job job = {.bytes = image->bytes,
                         .length = image->length,
                         .key = *key,
                         .view_count = 1,
                         .views = {{plan, result.bytes + 8, result.length - 8}}};
    if (hrn_sample(context, &job, status) != HRN_OK) {
      free(result.bytes);
      result.bytes = NULL;
    }
  }
  hrn_plan_free(plan);
  return result;
}

/* Replaces an op that draws by ops that do not: what it drew is written into them. */
static int32_t without_chance(const hrn_op *op, const hrn_draw *draw, const raw *image,
                              hrn_op fixed[2]) {
  const int32_t *v = draw->value;
  fixed[0] = *op;
  switch (op->kind) {
    case HRN_OP_RANDOM_RESIZED_CROP:
      fixed[0] = (hrn_op){.kind = HRN_OP_CROP, .box = {v[0], v[1], v[2], v[3]}};
      fixed[1] =
          (hrn_op){.kind = HRN_OP_RESIZE, .filter = op->filter, .size = op->resized_crop.size};
      return 2;
    case HRN_OP_RANDOM_CROP: {
      const hrn_op_random_crop *c = &op->random_crop;
      const int32_t height = (int32_t)image->height + c->padding.top + c->padding.bottom;
      const int32_t width = (int32_t)image->width + c->padding.left + c->padding.right;
      if (height < c->size.height || width < c->size.width)
        return 0; /* pad_if_needed has no fixed form */
      /* A crop of the whole padded image leaves no choice. */
      fixed[0].random_crop.size = (hrn_op_size){height, width};
      fixed[1] = (hrn_op){.kind = HRN_OP_CROP, .box = {v[0], v[1], v[2], v[3]}};
      return 2;
    }
    case HRN_OP_HORIZONTAL_FLIP:
    case HRN_OP_VERTICAL_FLIP:
      fixed[0].probability = v[0];
      return 1;
    default:
      return 1;
  }
}

/* Compares one plan of several ops with the same ops one by one. 1 if they differ. */
static int compare(random_state *r, hrn_context *context, uint64_t *compared) {
  raw image = raw_new((uint32_t)some_side(r), (uint32_t)some_side(r));
  for (size_t i = 8; i < image.length; i++) image.bytes[i] = (uint8_t)random_next(r);
  const hrn_key key = {.seed = random_next(r),
                       .epoch = random_next(r),
                       .sample = random_next(r),
                       .draw = random_next(r)};
  hrn_op ops[6];
  const int32_t count = 1 + (int32_t)random_below(r, 6);
  for (int32_t i = 0; i < count; i++) ops[i] = some_op(r);
  hrn_status status;
  raw whole = run(context, ops, count, &key, &image, &status);
  int bad = 0;
  if (whole.bytes == NULL) {
    /* Sides may shrink to nothing or grow past the limit; nothing else may fail. */
    bad = status.code != HRN_LIMIT && status.code != HRN_NO_PIXELS;
    if (bad) fprintf(stderr, "error %d: %s\n", status.code, status.text);
    free(image.bytes);
    return bad;
  }
  raw step = image;
  hrn_plan *plan = hrn_plan_new(ops, count, &bytes_nhwc, &status);
  int32_t done = 0;
  for (; plan != NULL && done < count; done++) {
    hrn_draw draw;
    hrn_op fixed[2];
    hrn_plan_draw(plan, done, &key, step.width, step.height, &draw, &status);
    const int32_t parts = without_chance(&ops[done], &draw, &step, fixed);
    int32_t part = 0;
    for (; part < parts; part++) {
      raw next = run(context, &fixed[part], 1, &key, &step, &status);
      free(step.bytes);
      step = next;
      if (step.bytes == NULL) break;
    }
    if (part < parts || parts == 0) break;
  }
  hrn_plan_free(plan);
  if (done == count) {
    bad = step.length != whole.length || memcmp(step.bytes, whole.bytes, whole.length) != 0;
    ++*compared;
  }
  if (bad) {
    for (int32_t i = 0; i < count; i++) fprintf(stderr, "op %d kind %d\n", i, ops[i].kind);
  }
  free(whole.bytes);
  free(step.bytes);
  return bad;
}

int main(int count, char **arguments) {
  uint64_t rounds = 5000, compared = 0;
  if (count == 3 && strcmp(arguments[1], "-n") == 0) rounds = strtoull(arguments[2], NULL, 10);
  const hrn_limits limits = hrn_default_limits();
  hrn_context *context = hrn_context_new(&limits);
  random_state r = random_seeded(11);
  for (uint64_t round = 0; round < rounds; round++) {
    if (compare(&r, context, &compared)) {
      fprintf(stderr, "round %llu differs\n", (unsigned long long)round);
      return 1;
    }
  }
  hrn_context_free(context);
  printf("%s: %llu of %llu plans compared\n", hrn_simd_name(), (unsigned long long)compared,
         (unsigned long long)rounds);
  return compared * 2 > rounds ? 0 : 1;
}
