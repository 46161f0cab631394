/* views.c: each view of a sample has the bytes that it has alone, whichever views share a decode.
 * The images are of every kind, whole and cut short, with seek points and without.
 *
 *   views [-n ROUNDS] [-s SEED]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "images.h"
#include "plans.h"
#include "reference.h"

#define VIEWS 8

static hrn_context *context;

/* Memory of each view's own, whose end a sanitizer watches. */
static void *place(hrn_view *view, const hrn_facts *facts) {
  hrn_size size;
  hrn_status status;
  if (hrn_plan_size(view->plan, facts->width, facts->height, &size, &status) != HRN_OK) return NULL;
  view->capacity = size.bytes;
  return view->destination = calloc(1, size.bytes);
}

/* 1 if the views together differ from what they are alone. */
static int differ(hrn_job *together, hrn_view *alone) {
  hrn_status status;
  uint32_t warnings = 0;
  int failed = 0;
  for (int32_t v = 0; v < together->view_count; v++) {
    hrn_job one = *together;
    one.view_count = 1;
    one.views[0] = alone[v];
    one.key.view += (uint32_t)v;
    if (hrn_sample(context, &one, &status) == HRN_INTERNAL) return 1;
    if (status.code != HRN_OK) failed = 1;
    if (status.warnings > warnings) warnings = status.warnings;
  }
  hrn_sample(context, together, &status);
  if (failed) return status.code == HRN_OK || status.code == HRN_INTERNAL;
  if (status.code != HRN_OK || status.warnings != warnings) return 1;
  for (int32_t v = 0; v < together->view_count; v++) {
    if (memcmp(together->views[v].destination, alone[v].destination, alone[v].capacity)) return 1;
  }
  return 0;
}

/* Mostly a JPEG, and wide enough that windows can be far apart. */
static image_bytes some_image(random_state *r) {
  if (random_below(r, 3) == 0) return made_image(r);
  const uint32_t width = 1 + (uint32_t)random_below(r, 500);
  const uint32_t height = 1 + (uint32_t)random_below(r, 400);
  return make_jpeg(r, &jpeg_forms[random_below(r, (uint64_t)jpeg_form_count)],
                   (enum jpeg_coding)random_below(r, 4), 0, width, height, 80);
}

/* A plan whose pixels libjpeg encodes and decodes on the way, with the context's one decoder. */
static hrn_plan *recompressing_plan(random_state *r) {
  const hrn_op ops[] = {
      {.kind = HRN_OP_RANDOM_RESIZED_CROP,
       .filter = HRN_BILINEAR,
       .resized_crop = {{some_side(r), some_side(r)}, {0.1, 1}, {0.5, 2}}},
      {.kind = HRN_OP_JPEG, .quality = {1 + (int32_t)random_below(r, 100), 100}},
      {.kind = HRN_OP_HORIZONTAL_FLIP, .probability = 0.5},
      {.kind = HRN_OP_JPEG, .quality = {1, 100}},
  };
  const hrn_output output = {.dtype = HRN_UINT8};
  hrn_status status;
  hrn_plan *plan = hrn_plan_new(ops, 4, &output, &status);
  if (plan == NULL) abort();
  return plan;
}

static int one_round(random_state *r, uint64_t *compared) {
  image_bytes file = some_image(r);
  hrn_facts facts;
  hrn_status status;
  if (file.length == 0) return 0;
  image_bytes points = {NULL, 0};
  if (random_below(r, 2)) {
    points = seek_record(context, &file, 1 + (uint32_t)random_below(r, 12));
  } else if (random_below(r, 4) == 0) {
    file.length -= random_below(r, file.length);
  }
  hrn_inspect(context, file.bytes, file.length, HRN_HEADER, &facts, &status);
  hrn_job job = {.bytes = file.bytes,
                 .length = file.length,
                 .key = {random_next(r), 1, random_next(r), 0, (uint32_t)random_below(r, 3)},
                 .seek = points.bytes,
                 .seek_length = points.length};
  hrn_view alone[VIEWS];
  const int32_t views = 1 + (int32_t)random_below(r, VIEWS);
  hrn_plan *plans[VIEWS];
  for (int32_t v = 0; v < views; v++) {
    plans[v] = random_below(r, 6) ? some_plan(r) : recompressing_plan(r);
    const int repeats = v > 0 && random_below(r, 2);
    const hrn_plan *plan = repeats ? plans[random_below(r, (uint64_t)v)] : plans[v];
    alone[job.view_count] = job.views[job.view_count] = (hrn_view){.plan = plan};
    if (facts.width == 0 || facts.height == 0) continue;
    if (place(&alone[job.view_count], &facts) == NULL) continue; /* sides beyond the limit */
    place(&job.views[job.view_count], &facts);
    job.view_count++;
  }
  int bad = 0;
  if (job.view_count > 0) {
    bad = differ(&job, alone);
    *compared += (uint64_t)job.view_count;
  }
  for (int32_t v = 0; v < job.view_count; v++) {
    free(alone[v].destination);
    free(job.views[v].destination);
  }
  for (int32_t v = 0; v < views; v++) hrn_plan_free(plans[v]);
  free(file.bytes);
  free(points.bytes);
  return bad;
}

int main(int count, char **arguments) {
  long rounds = 5000;
  uint64_t seed = 1, compared = 0;
  for (int i = 1; i + 1 < count; i += 2) {
    if (strcmp(arguments[i], "-n") == 0) rounds = atol(arguments[i + 1]);
    if (strcmp(arguments[i], "-s") == 0) seed = strtoull(arguments[i + 1], NULL, 10);
  }
  random_state r = random_seeded(seed);
  context = hrn_context_new(NULL);
  if (context == NULL) abort();
  for (long n = 0; n < rounds; n++) {
    const uint64_t state = r.state;
    if (!one_round(&r, &compared)) continue;
    fprintf(stderr, "round %ld differs (state %llx)\n", n, (unsigned long long)state);
    return 1;
  }
  hrn_context_free(context);
  printf("%ld images, %llu views compared\n", rounds, (unsigned long long)compared);
  return 0;
}
