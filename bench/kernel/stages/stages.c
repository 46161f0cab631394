/* stages.c: where the time of one sample goes.
 *
 *   stages [-t TASK] [-r ROUNDS] [-k STEP] [-m MINIMUM_SCALE] [-j FILE] DIRECTORY
 *
 * RandomResizedCrop(224), flip, normalise, float32 NCHW, of every file below DIRECTORY, with seek
 * points and without; TASK randaugment adds RandAugment(2, 9) and RandomErasing(0.25). The linker
 * puts the functions below between the stages (--wrap), so what is timed is the package as it is
 * built for the library. Each sample is run ROUNDS times and the fastest run counts, which is the
 * one that nothing else on the machine got in the way of.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "../../../native/jpeg/hook.h"
#include "../../../native/native.h"

enum { SIDE = 224, BATCH = 64 };
enum stage { CHECKSUM, HEADER, ENTROPY, PIXELS, RESIZE, OPS, WRITE, ERASE, REST, STAGES };
static const char *const names[STAGES] = {"checksum",      "header", "entropy",
                                          "IDCT + colour", "resize", "ops on pixels",
                                          "write",         "erase",  "rest"};

/* ---- clocks between the stages ---- */

static double spent[STAGES]; /* nanoseconds of the run in progress, without calls inside */
static long reads[STAGES];   /* of the clock, at the stage's begin and end */
static enum stage running = REST;
static double since;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* From here on another stage is running; the one that ran. */
static enum stage change(enum stage stage) {
  const double at = now();
  const enum stage before = running;
  spent[before] += at - since;
  reads[before]++;
  reads[stage]++;
  running = stage;
  since = at;
  return before;
}

#define WRAP(which, type, name, parameters, arguments) \
  type __real_##name parameters;                       \
  type __wrap_##name parameters {                      \
    const enum stage before = change(which);           \
    type result = __real_##name arguments;             \
    change(before);                                    \
    return result;                                     \
  }
#define WRAP_VOID(which, name, parameters, arguments) \
  void __real_##name parameters;                      \
  void __wrap_##name parameters {                     \
    const enum stage before = change(which);          \
    __real_##name arguments;                          \
    change(before);                                   \
  }

WRAP(CHECKSUM, uint32_t, hrn_crc32c, (uint32_t crc, const uint8_t *bytes, size_t length),
     (crc, bytes, length))
WRAP(HEADER, int, hrn_decode_header,
     (hrn_context * context, const uint8_t *bytes, size_t length, uint32_t *width, uint32_t *height,
      hrn_status *status),
     (context, bytes, length, width, height, status))
WRAP(PIXELS, int, hrn_decode_rows,
     (hrn_context * context, const hrn_box *box, int32_t at_once, hrn_rows *rows,
      hrn_status *status),
     (context, box, at_once, rows, status))
WRAP(PIXELS, int, hrn_jpeg_read,
     (hrn_context * context, uint8_t *first, size_t stride, uint32_t count, hrn_status *status),
     (context, first, stride, count, status))
WRAP(PIXELS, int, hrn_decode_settle, (hrn_rows * rows, int *again, hrn_status *status),
     (rows, again, status))
WRAP_VOID(ENTROPY, hrn_decode_segment, (const hrn_mcu *mcu, hrn_segment *segment), (mcu, segment))
WRAP_VOID(ENTROPY, hrn_decode_segments, (const hrn_mcu *mcu, hrn_segment *a, hrn_segment *b),
          (mcu, a, b))
WRAP_VOID(ENTROPY, hrn_skip_segment, (const hrn_mcu *mcu, hrn_segment *segment), (mcu, segment))
WRAP(ENTROPY, size_t, hrn_unstuff,
     (uint8_t * to, const uint8_t *from, size_t length, size_t *taken), (to, from, length, taken))
WRAP(RESIZE, int, hrn_stage_prepare,
     (hrn_context * context, const hrn_stage *stage, hrn_ready *ready, hrn_status *status),
     (context, stage, ready, status))
WRAP(RESIZE, int, hrn_stage_first,
     (hrn_context * context, const hrn_ready *ready, const hrn_sink *sink, hrn_status *status),
     (context, ready, sink, status))

WRAP(OPS, int, hrn_pixels_run,
     (hrn_context * context, const hrn_pixel_op *op, hrn_image *image, hrn_pixel_state *state,
      hrn_status *status),
     (context, op, image, state, status))
WRAP_VOID(ERASE, hrn_erase,
          (const hrn_program *program, const hrn_format *format, const hrn_key *key,
           uint8_t *destination),
          (program, format, key, destination))

static hrn_write_kernel real_write;
static void timed_write(const hrn_format *format, const uint8_t *pixels, int32_t count, int flip,
                        uint8_t *row, size_t plane) {
  const enum stage before = change(WRITE);
  real_write(format, pixels, count, flip, row, plane);
  change(before);
}

hrn_writer __real_hrn_finished_writer(const hrn_format *, int32_t, int32_t, uint8_t *);
hrn_writer __wrap_hrn_finished_writer(const hrn_format *format, int32_t width, int32_t height,
                                      uint8_t *destination) {
  hrn_writer timed = __real_hrn_finished_writer(format, width, height, destination);
  real_write = timed.write;
  timed.write = timed_write;
  return timed;
}

/* What a change adds, half of it to each of the two stages. */
static double change_cost(void) {
  enum { CHANGES = 200000 };
  const double begun = now();
  for (int i = 0; i < CHANGES; i++) change(REST);
  return (now() - begun) / CHANGES;
}

/* ---- samples ---- */

typedef struct record {
  uint8_t *bytes, *seek;
  size_t length, seek_length;
  uint32_t crc32c;
} record;

static record *records;
static size_t record_count, image_bytes, seek_bytes;
static double inspection; /* nanoseconds */
static uint32_t step = HRN_SEEK_STEP;

static void add_file(hrn_context *context, const char *path, size_t length) {
  hrn_facts facts;
  hrn_status status;
  record r = {.bytes = malloc(length), .length = length};
  const uint8_t *seek;
  FILE *file = fopen(path, "rb");
  if (file == NULL || r.bytes == NULL || fread(r.bytes, 1, length, file) != length) {
    perror(path);
    exit(2);
  }
  fclose(file);
  double best = 1e18;
  for (int i = 0; i < 3; i++) {
    const double begun = now();
    hrn_inspect_seek(context, r.bytes, length, step, &facts, &seek, &r.seek_length, &status);
    if (now() - begun < best) best = now() - begun;
  }
  if (status.code != HRN_OK) { /* no image, or a bad one */
    free(r.bytes);
    return;
  }
  inspection += best;
  r.crc32c = facts.crc32c;
  r.seek = malloc(r.seek_length + 1);
  if (r.seek != NULL && seek != NULL) memcpy(r.seek, seek, r.seek_length);
  image_bytes += length;
  seek_bytes += r.seek_length;
  if ((record_count & (record_count + 1)) == 0) {
    records = realloc(records, 2 * (record_count + 1) * sizeof *records);
    if (records == NULL) abort();
  }
  records[record_count++] = r;
}

static void add_directory(hrn_context *context, const char *path) {
  struct dirent **entries;
  const int count = scandir(path, &entries, NULL, alphasort);
  for (int i = 0; i < count; i++) {
    char inner[4096];
    struct stat about;
    snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
    if (entries[i]->d_name[0] != '.' && stat(inner, &about) == 0) {
      if (S_ISDIR(about.st_mode)) {
        add_directory(context, inner);
      } else if (about.st_size > 0) {
        add_file(context, inner, (size_t)about.st_size);
      }
    }
    free(entries[i]);
  }
  if (count >= 0) free(entries);
}

/* One run; the stages' own times. */
static double run(hrn_context *context, const hrn_plan *plan, size_t number, bool seek, float *to,
                  double cost, double own[STAGES]) {
  const record *r = &records[number];
  hrn_status status;
  const hrn_job job = {.bytes = r->bytes,
                       .length = r->length,
                       .key = {1, 0, number, 0, 0},
                       .crc32c = r->crc32c,
                       .check_crc = 1,
                       .seek = seek && r->seek_length > 0 ? r->seek : NULL,
                       .seek_length = seek ? r->seek_length : 0,
                       .view_count = 1,
                       .views = {{plan, to, SIDE * SIDE * 3 * sizeof(float)}}};
  memset(spent, 0, sizeof spent);
  memset(reads, 0, sizeof reads);
  since = now();
  if (hrn_sample(context, &job, &status) != HRN_OK) {
    fprintf(stderr, "sample %zu: %s\n", number, status.text);
    exit(1);
  }
  change(REST);
  double total = 0;
  for (int i = 0; i < STAGES; i++) {
    own[i] = spent[i] - (double)reads[i] * cost / 2;
    if (own[i] < 0) own[i] = 0;
    total += own[i];
  }
  return total;
}

static double means[2][STAGES + 1]; /* microseconds; the last is the sum */

static void measure(hrn_context *context, const hrn_plan *plan, int rounds) {
  const double cost = change_cost();
  /* Pages, as a slot has. */
  float *batch = aligned_alloc(4096, (size_t)BATCH * SIDE * SIDE * 3 * sizeof(float));
  if (batch == NULL) abort();
  memset(batch, 0, (size_t)BATCH * SIDE * SIDE * 3 * sizeof(float));
  for (size_t n = 0; n < record_count; n++) {
    double best[2] = {1e18, 1e18}, own[STAGES], least[2][STAGES] = {{0}};
    for (int i = 0; i < 2 * rounds; i++) {
      float *to = batch + (n + (size_t)i) % BATCH * SIDE * SIDE * 3;
      const double took = run(context, plan, n, i % 2 == 0, to, cost, own);
      if (took >= best[i % 2]) continue;
      best[i % 2] = took;
      memcpy(least[i % 2], own, sizeof own);
    }
    for (int k = 0; k < 2; k++) {
      for (int s = 0; s < STAGES; s++) means[k][s] += least[k][s] / 1e3 / (double)record_count;
      means[k][STAGES] += best[k] / 1e3 / (double)record_count;
    }
  }
  free(batch);
}

static void print_table(void) {
  printf(
      "%zu images, %.0f KB each; seek points of step %u: %.2f %% of the images' bytes, found in "
      "%.0f us an image (%.0f images/s)\n",
      record_count, (double)image_bytes / 1e3 / (double)record_count, step,
      100.0 * (double)seek_bytes / (double)image_bytes, inspection / 1e3 / (double)record_count,
      1e9 * (double)record_count / inspection);
  printf("%-14s %12s %7s %15s %7s\n", "us an image", "with points", "%", "without points", "%");
  for (int s = 0; s <= STAGES; s++) {
    printf("%-14s %12.1f %7.1f %15.1f %7.1f\n", s < STAGES ? names[s] : "sum", means[0][s],
           100 * means[0][s] / means[0][STAGES], means[1][s], 100 * means[1][s] / means[1][STAGES]);
  }
}

static void print_json(const char *path) {
  static const char *const keys[2] = {"with_seek_points", "without_seek_points"};
  FILE *file = fopen(path, "w");
  if (file == NULL) {
    perror(path);
    exit(2);
  }
  fprintf(file, "{\"images\": %zu, \"bytes\": %zu, \"libraries\": \"%s\", \"simd\": \"%s\",\n",
          record_count, image_bytes, hrn_library_versions(), hrn_simd_name());
  fprintf(file, " \"seek_step\": %u, \"seek_bytes\": %zu, \"inspect_us\": %.2f", step, seek_bytes,
          inspection / 1e3 / (double)record_count);
  for (int k = 0; k < 2; k++) {
    fprintf(file, ",\n \"%s\": {", keys[k]);
    for (int s = 0; s < STAGES; s++) fprintf(file, "\"%s\": %.2f, ", names[s], means[k][s]);
    fprintf(file, "\"sum\": %.2f}", means[k][STAGES]);
  }
  fprintf(file, "}\n");
  fclose(file);
}

int main(int count, char **arguments) {
  int rounds = 5;
  double scale = 0.08;
  const char *json = NULL, *directory = NULL, *task = "train";
  for (int i = 1; i < count; i++) {
    const bool more = i + 1 < count;
    if (more && strcmp(arguments[i], "-r") == 0)
      rounds = atoi(arguments[++i]);
    else if (more && strcmp(arguments[i], "-k") == 0)
      step = (uint32_t)atoi(arguments[++i]);
    else if (more && strcmp(arguments[i], "-m") == 0)
      scale = atof(arguments[++i]);
    else if (more && strcmp(arguments[i], "-j") == 0)
      json = arguments[++i];
    else if (more && strcmp(arguments[i], "-t") == 0)
      task = arguments[++i];
    else
      directory = arguments[i];
  }
  const int augments = strcmp(task, "randaugment") == 0;
  if (directory == NULL || rounds < 1 || (!augments && strcmp(task, "train") != 0)) {
    fprintf(stderr,
            "usage: stages [-t train|randaugment] [-r ROUNDS] [-k STEP] [-m MINIMUM_SCALE] "
            "[-j FILE] DIRECTORY\n");
    return 2;
  }
  const hrn_op ops[] = {
      {.kind = HRN_OP_RANDOM_RESIZED_CROP,
       .filter = HRN_BILINEAR,
       .resized_crop = {{SIDE, SIDE}, {scale, 1}, {3.0 / 4, 4.0 / 3}}},
      {.kind = HRN_OP_HORIZONTAL_FLIP, .probability = 0.5},
      {.kind = HRN_OP_RAND_AUGMENT, .augment = {.ops = 2, .magnitude = 9, .bins = 31}},
      {.kind = HRN_OP_ERASING,
       .erasing = {.fill = HRN_ERASE_VALUE,
                   .boxes = {1, 1},
                   .probability = 0.25,
                   .scale = {0.02, 0.33},
                   .ratio = {0.3, 3.3}}}};
  const hrn_output output = {.dtype = HRN_FLOAT32,
                             .normalize = 1,
                             .mean = {0.485f, 0.456f, 0.406f},
                             .std = {0.229f, 0.224f, 0.225f}};
  hrn_status status;
  hrn_context *context = hrn_context_new(NULL);
  hrn_plan *plan = hrn_plan_new(ops, augments ? 4 : 2, &output, &status);
  if (context == NULL || plan == NULL) {
    fprintf(stderr, "%s\n", status.text);
    return 1;
  }
  add_directory(context, directory);
  if (record_count == 0) {
    fprintf(stderr, "%s holds no image\n", directory);
    return 2;
  }
  measure(context, plan, rounds);
  print_table();
  if (json != NULL) print_json(json);
  hrn_plan_free(plan);
  hrn_context_free(context);
  return 0;
}
