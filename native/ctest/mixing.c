/* mixing.c: mixes two unmixed samples of any recipe and form. Without mixing, a sample has the
 * bytes that it would have alone. MixUp is the sum of the two finished samples by the kernel that
 * defines it, whether both samples wait or one is mixed on the way. CutMix is one sample with a box
 * of the other. What is drawn stays inside the image, and no byte beside the samples is read or
 * written (under sanitizers).
 *
 *   mixing [-n ROUNDS]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../plan/plan.h"
#include "../write/weigh.h"
#include "plans.h"

static void *allocate(size_t bytes) {
  void *memory = NULL;
  if (posix_memalign(&memory, 64, bytes) != 0) abort();
  memset(memory, 0xa5, bytes);
  return memory;
}

/* An op that fixes the size, and often an erasing or two. */
static int32_t some_recipe(random_state *r, hrn_op *ops, int floats) {
  int32_t count = 0;
  if (random_below(r, 2)) ops[count++] = some_op(r);
  ops[count++] = (hrn_op){.kind = HRN_OP_RESIZE,
                          .filter = (int32_t)random_below(r, 6),
                          .size = {some_side(r), some_side(r) + 300 * (random_below(r, 8) == 0)}};
  ops[count++] = (hrn_op){.kind = HRN_OP_HORIZONTAL_FLIP, .probability = 0.5};
  if (random_below(r, 2)) ops[count++] = (hrn_op){.kind = HRN_OP_PIXEL};
  for (int k = 0; k < 2; k++) {
    if (random_below(r, 3)) continue;
    static const int32_t kinds[] = {HRN_OP_ERASING, HRN_OP_CUTOUT, HRN_OP_ERASE};
    ops[count++] = (hrn_op){.kind = kinds[random_below(r, 3)],
                            .erasing = {.fill = floats && random_below(r, 2),
                                        .boxes = {1, 1},
                                        .probability = 0.8,
                                        .value = {9, 200, 255},
                                        .scale = {0.02, 0.7},
                                        .ratio = {0.3, 3.3},
                                        .side = some_side(r),
                                        .box = {3, 1, 9, 20}}};
  }
  return count;
}

/* A sample of the plan in memory of exactly its size: finished, or as it waits. */
static uint8_t *run(hrn_context *context, const hrn_plan *plan, const hrn_job *job, uint64_t bytes,
                    hrn_status *status) {
  hrn_job mine = *job;
  void *destination = allocate(bytes);
  mine.view_count = 1;
  mine.views[0] = (hrn_view){plan, destination, bytes};
  if (hrn_sample(context, &mine, status) == HRN_OK) return destination;
  free(destination);
  return NULL;
}

static double some_alpha(random_state *r) {
  static const double alphas[] = {0, 0.01, 0.2, 0.4, 1, 4, 1000};
  return alphas[random_below(r, 7)];
}

static hrn_mix_list some_mix(random_state *r) {
  hrn_mix_list list = {.count = 1 + (int32_t)random_below(r, 3), .choice = 9};
  for (int32_t k = 0; k < list.count; k++) {
    hrn_mix_op *op = &list.ops[k];
    op->op = 10 + k;
    op->form = 1 + (int32_t)random_below(r, 2);
    op->unit = (int32_t)random_below(r, 3);
    op->correct = (int32_t)random_below(r, 2);
    op->weight = (double)random_below(r, 3);
    op->probability = random_below(r, 3) ? 1 : 0.5;
    op->switching = 0.5;
    op->alpha[0] = some_alpha(r);
    op->alpha[1] = some_alpha(r);
    if (random_below(r, 4) == 0) op->shares[0] = 0.2, op->shares[1] = 0.9;
  }
  return list;
}

/* 1 if a drawn mixing is impossible: a box outside the image, or a share that is none. */
static int impossible(const hrn_mixing *m, const hrn_size *size) {
  if (!(m->lambda >= 0 && m->lambda <= 1 && m->drawn >= 0 && m->drawn <= 1)) return 1;
  if (m->kind != HRN_MIX_CUTMIX) return m->top != 0 || m->height != 0 || m->width != 0;
  return m->top < 0 || m->left < 0 || m->height < 0 || m->width < 0 ||
         m->top + m->height > (int32_t)size->height || m->left + m->width > (int32_t)size->width;
}

static hrn_patch patch_of(const hrn_mixing *m, int outside, void *destination) {
  return (hrn_patch){destination, m->top, m->left, m->height, m->width, outside};
}

/* Computes the mixed sample value by value, from two finished samples. */
static void expect(const hrn_output *output, const hrn_size *size, const hrn_mixing *m,
                   const uint8_t *own, const uint8_t *other, uint8_t *to) {
  const size_t pixels = (size_t)size->width * size->height;
  const size_t element = size->bytes / (3 * pixels);
  memcpy(to, own, size->bytes);
  if (m->kind == HRN_MIX_MIXUP) {
    hrn_weigh_scalar(output->dtype, own, other, (float)m->lambda, (float)(1.0 - m->lambda),
                     3 * pixels, to);
  }
  if (m->kind != HRN_MIX_CUTMIX) return;
  for (int32_t y = m->top; y < m->top + m->height; y++) {
    for (int32_t x = m->left; x < m->left + m->width; x++) {
      const size_t pixel = (size_t)y * size->width + (size_t)x;
      for (size_t c = 0; c < 3; c++) {
        const size_t at = output->layout == HRN_NHWC ? 3 * pixel + c : c * pixels + pixel;
        memcpy(to + at * element, other + at * element, element);
      }
    }
  }
}

static uint8_t *some_image(random_state *r, size_t *length) {
  const uint32_t width = (uint32_t)some_side(r), height = (uint32_t)some_side(r);
  *length = 8 + (size_t)width * height * 3;
  uint8_t *bytes = malloc(*length);
  if (bytes == NULL) abort();
  memcpy(bytes, &width, 4);
  memcpy(bytes + 4, &height, 4);
  for (size_t i = 8; i < *length; i++) bytes[i] = (uint8_t)random_next(r);
  return bytes;
}

/* Both samples write the parts of the first one that come from them, and may wait for something
 * else. */
static int wrong_patches(random_state *r, hrn_context *context, const hrn_plan *plan,
                         const hrn_job *jobs, uint8_t *const *finished, const hrn_size *size,
                         const hrn_mixing *mixing) {
  uint8_t *found = allocate(size->bytes), *wanted = allocate(size->bytes);
  hrn_status status;
  int bad = 0;
  for (int k = 0; k < 2; k++) {
    hrn_job job = jobs[k];
    job.patches[random_below(r, 2)] = patch_of(mixing, k == 0, found);
    job.waits = (int32_t)random_below(r, 2);
    uint8_t *unmixed = run(context, plan, &job, hrn_unmixed_bytes(plan), &status);
    bad = bad || unmixed == NULL;
    free(unmixed);
  }
  expect(&plan->output, size, mixing, finished[0], finished[1], wanted);
  bad = bad || memcmp(found, wanted, size->bytes) != 0;
  free(found), free(wanted);
  return bad;
}

/* The first sample waits. The second makes both mixtures on its way, or waits as well; and a sample
 * is mixed with itself. */
static int wrong_mixup(hrn_context *context, const hrn_plan *plan, const hrn_job *jobs,
                       uint8_t *const *finished, const hrn_size *size, double lambda) {
  enum { WAITED, OWN, THEIRS, ITSELF, RESULTS };
  const int sides[RESULTS][2] = {{0, 1}, {1, 0}, {0, 1}, {1, 1}};
  const hrn_mixing mixing = {.kind = HRN_MIX_MIXUP, .lambda = lambda};
  const uint64_t bytes = hrn_unmixed_bytes(plan);
  uint8_t *found[RESULTS], *first, *second = allocate(bytes), *wanted = allocate(size->bytes);
  for (int k = 0; k < RESULTS; k++) found[k] = allocate(size->bytes);
  hrn_status status;
  hrn_job job = jobs[0];
  job.waits = 1;
  first = run(context, plan, &job, bytes, &status);
  int bad = first == NULL;
  for (int itself = 0; !bad && itself < 2; itself++) {
    job = jobs[1];
    job.waits = job.view_count = 1;
    job.views[0] = (hrn_view){plan, second, bytes};
    job.mixups[0] = (hrn_mixup){found[THEIRS], first, lambda, 1};
    job.mixups[1] = (hrn_mixup){found[OWN], first, lambda, 0};
    if (itself) job.mixups[1] = (hrn_mixup){found[ITSELF], second, lambda, 0};
    bad = hrn_sample(context, &job, &status) != HRN_OK;
  }
  if (!bad) hrn_mix(plan, first, second, lambda, found[WAITED]);
  for (int k = 0; k < RESULTS; k++) {
    expect(&plan->output, size, &mixing, finished[sides[k][0]], finished[sides[k][1]], wanted);
    bad = bad || memcmp(found[k], wanted, size->bytes) != 0;
    free(found[k]);
  }
  free(first), free(second), free(wanted);
  return bad;
}

static int one_round(random_state *r, hrn_context *context, uint64_t *kinds) {
  hrn_output output = {.dtype = (int32_t)random_below(r, 4), .layout = (int32_t)random_below(r, 2)};
  output.normalize = output.dtype != HRN_UINT8 && random_below(r, 2);
  for (int c = 0; c < 3; c++) {
    output.mean[c] = 0.25f * (float)c;
    output.std[c] = random_below(r, 2) ? 0.225f : 1e-7f; /* 1e-7 makes halves overflow */
  }
  hrn_op ops[8];
  const int32_t count = some_recipe(r, ops, output.dtype != HRN_UINT8);
  hrn_status status;
  hrn_plan *alone = hrn_plan_new(ops, count, &output, &status);
  output.unmixed = 1;
  hrn_plan *mixed = hrn_plan_new(ops, count, &output, &status);
  hrn_size size;
  if (alone == NULL || mixed == NULL || hrn_plan_size(alone, 1, 1, &size, &status) != HRN_OK) {
    fprintf(stderr, "plan: %s\n", status.text);
    return 1;
  }
  hrn_job jobs[2];
  uint8_t *finished[2], *encoded[2];
  int bad = 0;
  for (int k = 0; k < 2; k++) {
    size_t length;
    encoded[k] = some_image(r, &length);
    jobs[k] = (hrn_job){
        .bytes = encoded[k], .length = length, .key = {random_next(r), 1, random_next(r), 0}};
    finished[k] = run(context, alone, &jobs[k], size.bytes, &status);
  }
  hrn_mix_list list = some_mix(r);
  if (finished[0] != NULL && finished[1] != NULL &&
      hrn_mix_check(&list, size.width, size.height, &status) == HRN_OK) {
    const hrn_key key = {
        .seed = random_next(r), .epoch = 2, .sample = random_next(r), .draw = random_next(r)};
    hrn_mixing mixing;
    hrn_mix_draw(&list, &key, size.width, size.height, &mixing);
    bad = impossible(&mixing, &size);
    if (output.dtype == HRN_UINT8 && mixing.kind == HRN_MIX_MIXUP) mixing.kind = HRN_MIX_NONE;
    bad = bad || (mixing.kind == HRN_MIX_MIXUP
                      ? wrong_mixup(context, mixed, jobs, finished, &size, mixing.lambda)
                      : wrong_patches(r, context, mixed, jobs, finished, &size, &mixing));
    if (bad) {
      fprintf(stderr, "kind %d lambda %g box %d,%d %dx%d of %ux%u, dtype %d layout %d\n",
              mixing.kind, mixing.lambda, mixing.left, mixing.top, mixing.width, mixing.height,
              size.width, size.height, output.dtype, output.layout);
    }
    kinds[mixing.kind]++;
  }
  for (int k = 0; k < 2; k++) free(finished[k]), free(encoded[k]);
  hrn_plan_free(alone), hrn_plan_free(mixed);
  return bad;
}

/* Shares of labels add up to one, and stay inside their row. */
static int labels_round(random_state *r) {
  const int64_t classes = 1 + (int64_t)random_below(r, 50);
  const int64_t own = (int64_t)random_below(r, (uint64_t)classes);
  const int64_t other = (int64_t)random_below(r, (uint64_t)classes);
  const double smoothing = random_below(r, 2) ? 0.1 : 0;
  const double lambda = (double)random_below(r, 1001) / 1000;
  float *row = allocate((size_t)classes * sizeof *row);
  hrn_mix_labels(smoothing, own, other, lambda, classes, row);
  double sum = 0;
  for (int64_t c = 0; c < classes; c++) sum += (double)row[c];
  const int bad = fabs(sum - 1) > 1e-5;
  if (bad) fprintf(stderr, "labels %ld and %ld add up to %g\n", (long)own, (long)other, sum);
  free(row);
  return bad;
}

int main(int count, char **arguments) {
  uint64_t rounds = 3000, kinds[3] = {0};
  if (count == 3 && strcmp(arguments[1], "-n") == 0) rounds = strtoull(arguments[2], NULL, 10);
  const hrn_limits limits = hrn_default_limits();
  hrn_context *context = hrn_context_new(&limits);
  random_state r = random_seeded(23);
  for (uint64_t round = 0; round < rounds; round++) {
    if (one_round(&r, context, kinds) || labels_round(&r)) {
      fprintf(stderr, "round %llu\n", (unsigned long long)round);
      return 1;
    }
  }
  hrn_context_free(context);
  printf("%s: %llu alone, %llu MixUp, %llu CutMix\n", hrn_simd_name(), (unsigned long long)kinds[0],
         (unsigned long long)kinds[1], (unsigned long long)kinds[2]);
  return kinds[0] > 0 && kinds[1] > 0 && kinds[2] > 0 ? 0 : 1;
}
