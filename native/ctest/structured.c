/* structured.c: JPEGs and PNGs of the right grammar and any content get libjpeg's verdict and
 * pixels, the same verdict in every way to decode them, and do no harm; made to run under
 * sanitizers.
 *
 *   structured [-n RUNS] [-t SECONDS] [-s SEED] [-k FIRST] [-j THREADS] [-w DIRECTORY]
 *
 * Run number k of a seed is the same whatever ran before it; -k makes it the first. -j starts that
 * many threads and gives each of them every THREADS-th run. They share the plans and begin
 * together, also with the choice of the instruction set. -w writes files and tests none. Built with
 * -DLIBFUZZER, the bytes of a coverage-guided fuzzer replace the random numbers.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codes.h"
#include "grammar.h"
#include "plans.h"
#include "reference.h"
#include "strips.h"

enum { PLANS = 40, MOST_PIXELS = 1000000 };

static hrn_plan *plans[PLANS];
static hrn_limits limits;

/* What one thread has. */
typedef struct tester {
  random_state r;
  hrn_context *context;
  image_bytes file, points;
  reference whole; /* for a JPEG */
  uint64_t seed, number;
  uint64_t codes[CODES], regular, points_found, made_baseline;
} tester;

static void save(const image_bytes *file, const char *path) {
  FILE *to = fopen(path, "wb");
  if (to == NULL || fwrite(file->bytes, 1, file->length, to) != file->length) perror(path);
  if (to != NULL) fclose(to);
}

static void fail(const tester *t, const char *what, const hrn_status *status) {
  fprintf(stderr, "-s %llu -k %llu: %s: code %d, %u warnings, offset %lld, %s\n",
          (unsigned long long)t->seed, (unsigned long long)t->number, what, status->code,
          status->warnings, (long long)status->offset, status->text);
  if (t->whole.width > 0) {
    fprintf(stderr, "libjpeg: failed %d, dry %d, %u warnings, %u x %u\n", t->whole.failed,
            t->whole.dry, t->whole.warnings, t->whole.width, t->whole.height);
  }
  save(&t->file, "structured-failure.bin");
  abort();
}

static bool is_jpeg(const tester *t) {
  return t->file.length > 2 && memcmp(t->file.bytes, "\xFF\xD8\xFF", 3) == 0;
}

static void check_status(const tester *t, const char *what, const hrn_status *status) {
  if (status->code == HRN_INTERNAL || status->code == HRN_ARGUMENT) fail(t, what, status);
  if (status->code != HRN_OK && status->text[0] == 0) fail(t, "no text", status);
  if (status->offset > (int64_t)t->file.length) fail(t, "an offset behind the file", status);
}

/* ---- windows ---- */

/* How a window is decoded: how many rows are taken at a time, 0 for all at once; and at
 * 1/denominator of its size, 0 for exact pixels. */
typedef struct way {
  int32_t at_once, denominator;
  bool seek;
} way;

/* The result must be freed if the status is HRN_OK. */
static uint8_t *decode(const tester *t, hrn_context *context, const hrn_box *box, way how,
                       hrn_status *status) {
  uint32_t width, height;
  hrn_image image = {0};
  const image_bytes *file = &t->file;
  if (hrn_decode_header(context, file->bytes, file->length, &width, &height, status) == HRN_OK) {
    if (how.denominator > 0) hrn_decode_fast(context, how.denominator);
    if (how.seek) hrn_decode_seek(context, t->points.bytes, t->points.length);
    if (how.at_once > 0) {
      decode_in_strips(context, box, how.at_once, &image, status);
    } else {
      hrn_decode_window(context, box, &image, status);
    }
  }
  check_status(t, "decode", status);
  if (status->code != HRN_OK) return NULL;
  const size_t row = (size_t)box->width * 3;
  uint8_t *pixels = malloc(row * (size_t)box->height), *to = pixels;
  if (pixels == NULL) abort();
  for (int32_t y = 0; y < box->height; y++) {
    const uint8_t *from = image.pixels + (size_t)y * image.stride;
    for (int32_t x = 0; x < box->width; x++, to += 3) memcpy(to, from + 4 * x, 3);
  }
  if (how.at_once > 0) free(image.pixels);
  return pixels;
}

/* Whether a window has the pixels of the whole, which is `width` pixels wide. */
static bool same_pixels(const uint8_t *window, const hrn_box *box, const uint8_t *whole,
                        uint32_t width) {
  const size_t row = (size_t)box->width * 3;
  for (int32_t y = 0; y < box->height; y++) {
    const size_t at = ((size_t)(box->top + y) * width + (size_t)box->left) * 3;
    if (memcmp(window + (size_t)y * row, whole + at, row) != 0) return false;
  }
  return true;
}

/* Windows of an image that decodes whole to `pixels`. */
static void compare_windows(tester *t, const uint8_t *pixels, uint32_t width, uint32_t height,
                            int32_t denominator) {
  hrn_status status;
  for (int n = 0; n < 4; n++) {
    const hrn_box box = some_box(&t->r, (int32_t)width, (int32_t)height);
    const way how = {n % 2 ? 2 + (int32_t)random_below(&t->r, 40) : 0, denominator,
                     n > 1 && t->points.length > 0};
    uint8_t *window = decode(t, t->context, &box, how, &status);
    if (window == NULL) fail(t, "a window of a good image", &status);
    if (!same_pixels(window, &box, pixels, width)) fail(t, "other pixels in a window", &status);
    free(window);
  }
}

static void compare_fractions(tester *t, uint32_t width, uint32_t height) {
  const int32_t denominator = 1 << random_below(&t->r, 4);
  const uint32_t columns = (width + (uint32_t)denominator - 1) / (uint32_t)denominator;
  const uint32_t rows = (height + (uint32_t)denominator - 1) / (uint32_t)denominator;
  const hrn_box box = {0, 0, (int32_t)columns, (int32_t)rows};
  hrn_status status;
  uint8_t *pixels = decode(t, t->context, &box, (way){0, denominator, false}, &status);
  if (pixels == NULL) fail(t, "a good image at a fraction", &status);
  compare_windows(t, pixels, columns, rows, denominator);
  free(pixels);
}

/* ---- verdicts ---- */

/* Compares with libjpeg's own answer, if that costs little. */
static void compare_with_libjpeg(tester *t, const hrn_status *inspected, const uint8_t *pixels,
                                 const hrn_status *found, uint32_t width, uint32_t height) {
  const reference *whole = &t->whole;
  if (found->code == HRN_LIMIT || found->code == HRN_UNSUPPORTED) return;
  if (whole->failed) {
    if (found->code == HRN_OK) fail(t, "good, libjpeg refuses it", found);
  } else if (found->code == HRN_OK) {
    const hrn_box box = {0, 0, (int32_t)width, (int32_t)height};
    if (width != whole->width || height != whole->height) fail(t, "another size", found);
    /* Only inspection warns of bytes that are left over before EOI. */
    if (found->warnings > whole->warnings) fail(t, "more warnings", found);
    if (!whole->dry && (inspected->warnings == 0) != (whole->warnings == 0)) {
      fail(t, "other warnings of inspection", inspected);
    }
    if (!same_pixels(pixels, &box, whole->rgb, width)) fail(t, "other pixels", found);
  } else if (found->code != HRN_TRUNCATED || !whole->dry) {
    fail(t, "refused, libjpeg takes it", found);
  }
}

/* Inspection must have the verdict of a decode of the whole file. */
static void compare_verdicts(const tester *t, const hrn_status *inspected,
                             const hrn_status *decoded) {
  const bool good = inspected->code == HRN_OK;
  if (good != (decoded->code == HRN_OK)) {
    fail(t, good ? "inspection calls it good" : "decoding calls it good",
         good ? decoded : inspected);
  }
  if (good && inspected->warnings == 0 && decoded->warnings != 0) {
    fail(t, "inspection sees no fault", decoded);
  }
  if (t->points.length > 0 && (!good || inspected->warnings != 0)) {
    fail(t, "points of an irregular file", inspected);
  }
}

static void inspect(tester *t, hrn_facts *facts, hrn_status *status) {
  const uint8_t *points;
  size_t length;
  hrn_inspect_seek(t->context, t->file.bytes, t->file.length, 1 + (uint32_t)random_below(&t->r, 10),
                   facts, &points, &length, status);
  check_status(t, "inspection", status);
  t->points = (image_bytes){NULL, 0};
  if (points != NULL) t->points = copy_bytes(points, length), t->points_found++;
  if (status->code == HRN_OK && (facts->width == 0 || facts->height == 0)) {
    fail(t, "a good image without a size", status);
  }
}

/* ---- other calls ---- */

/* Makes a baseline file, which must have the same pixels; or none, and that is no failure
 * either. */
static void make_baseline(tester *t) {
  hrn_encoded made;
  hrn_status status;
  hrn_to_baseline(t->context, t->file.bytes, t->file.length, &made, &status);
  check_status(t, "to baseline", &status);
  if (status.code != HRN_OK || made.bytes == NULL) return;
  const image_bytes baseline = copy_bytes(made.bytes, made.length);
  reference again = reference_decode(&baseline);
  t->made_baseline++;
  /* A file of a kind without pixels, such as one of two components, becomes baseline as well. */
  const bool same =
      again.failed == t->whole.failed && !again.dry && again.warnings == 0 &&
      (again.failed ||
       (again.width == t->whole.width && again.height == t->whole.height &&
        memcmp(again.rgb, t->whole.rgb, (size_t)again.width * again.height * 3) == 0));
  if (!same) fail(t, "a baseline file of other pixels", &status);
  reference_free(&again);
  free(baseline.bytes);
}

static void encode_anew(tester *t) {
  hrn_encoded made;
  hrn_status status;
  const int32_t shorter = (int32_t)random_below(&t->r, 60);
  if (random_below(&t->r, 2)) {
    hrn_reencode(t->context, t->file.bytes, t->file.length, shorter,
                 1 + (int32_t)random_below(&t->r, 100), 1, &made, &status);
  } else {
    hrn_to_ppm(t->context, t->file.bytes, t->file.length, shorter, 1, &made, &status);
  }
  check_status(t, "encoding", &status);
}

/* Makes a finished sample, in memory that ends where the sample does. */
static uint32_t sample(tester *t, const hrn_plan *plan, const hrn_facts *facts, bool seek) {
  hrn_size size = {0};
  hrn_status status;
  if (facts->width == 0 || facts->height == 0 ||
      hrn_plan_size(plan, facts->width, facts->height, &size, &status) != HRN_OK ||
      size.bytes > 16 << 20) {
    size.bytes = 1;
  }
  uint8_t *to = calloc(1, size.bytes + (size.bytes == 0));
  if (to == NULL) abort();
  hrn_job job = {.bytes = t->file.bytes,
                 .length = t->file.length,
                 .key = {t->seed, 0, t->number, 0, 0},
                 .view_count = 1,
                 .views = {{plan, to, size.bytes}}};
  if (seek) job.seek = t->points.bytes, job.seek_length = t->points.length;
  hrn_sample(t->context, &job, &status);
  /* A plan's parameters may be impossible for the size. */
  if (status.code != HRN_ARGUMENT) check_status(t, "hrn_sample", &status);
  const uint32_t sum = status.code == HRN_OK ? hrn_crc32c(0, to, size.bytes) : 0;
  free(to);
  return sum;
}

/* ---- a run ---- */

static void check(tester *t) {
  hrn_facts facts;
  hrn_status inspected, decoded;
  inspect(t, &facts, &inspected);
  t->codes[inspected.code]++;
  t->whole = (reference){0};
  if (is_jpeg(t) && inspected.code != HRN_LIMIT) t->whole = reference_decode(&t->file);

  uint32_t width = 0, height = 0;
  uint8_t *pixels = NULL;
  if (hrn_decode_header(t->context, t->file.bytes, t->file.length, &width, &height, &decoded) ==
      HRN_OK) {
    const hrn_box box = {0, 0, (int32_t)width, (int32_t)height};
    pixels = decode(t, t->context, &box, (way){0}, &decoded);
  }
  check_status(t, "the whole", &decoded);
  if (is_jpeg(t)) compare_with_libjpeg(t, &inspected, pixels, &decoded, width, height);
  compare_verdicts(t, &inspected, &decoded);
  if (pixels != NULL) {
    if (decoded.warnings == 0) t->regular++;
    compare_windows(t, pixels, width, height, 0);
    compare_fractions(t, width, height);
  } else if (width > 0) {
    const hrn_box box = some_box(&t->r, (int32_t)width, (int32_t)height);
    free(decode(t, t->context, &box, (way){0, 0, random_below(&t->r, 2)}, &decoded));
  }
  if (is_jpeg(t)) make_baseline(t);
  if (random_below(&t->r, 4) == 0) encode_anew(t);
  const hrn_plan *plan = plans[random_below(&t->r, PLANS)];
  const uint32_t sum = sample(t, plan, &facts, true);
  if (sample(t, plan, &facts, false) != sum) fail(t, "seek points change a sample", &inspected);
  free(pixels);
  free(t->points.bytes);
  reference_free(&t->whole);
}

/* An eighth of the files are what encoders write, so that everything behind a good verdict is
 * reached. */
static image_bytes some_file(random_state *r) {
  const uint64_t kind = random_below(r, 8);
  return kind == 0 ? made_image(r) : kind < 3 ? random_png(r) : random_jpeg(r);
}

static void begin(tester *t) {
  t->context = hrn_context_new(&limits);
  if (t->context == NULL) abort();
}

static void prepare(uint64_t seed) {
  random_state r = random_seeded(seed);
  limits = hrn_default_limits();
  limits.max_pixels = MOST_PIXELS;
  limits.max_decoder_bytes = 32 << 20;
  for (int i = 0; i < PLANS; i++) plans[i] = some_plan(&r);
}

#ifdef LIBFUZZER

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  static tester t;
  if (t.context == NULL) {
    prepare(1);
    begin(&t);
  }
  t.r = random_taped(bytes, length);
  t.number++;
  t.file = some_file(&t.r);
  check(&t);
  free(t.file.bytes);
  return 0;
}

#else

static uint64_t first, runs = 20000, seed = 1, threads = 1;
static time_t end; /* 0: none */
static pthread_barrier_t start;

static random_state randomness(uint64_t number) {
  random_state r = random_seeded(seed + (number << 20));
  return random_seeded(random_next(&r));
}

static void *work(void *argument) {
  tester *t = argument;
  pthread_barrier_wait(&start);
  begin(t);
  for (uint64_t n = t->number; n < first + runs && (end == 0 || time(NULL) < end); n += threads) {
    t->seed = seed;
    t->number = n;
    t->r = randomness(n);
    t->file = some_file(&t->r);
    check(t);
    free(t->file.bytes);
  }
  hrn_context_free(t->context);
  return NULL;
}

static void run_threads(void) {
  enum { MOST = 64 };
  static tester testers[MOST];
  pthread_t thread[MOST];
  if (threads > MOST) threads = MOST;
  pthread_barrier_init(&start, NULL, (unsigned)threads);
  for (uint64_t i = 0; i < threads; i++) {
    testers[i].number = first + i;
    if (pthread_create(&thread[i], NULL, work, &testers[i]) != 0) abort();
  }
  tester all = {0};
  for (uint64_t i = 0; i < threads; i++) {
    pthread_join(thread[i], NULL);
    for (int n = 0; n < CODES; n++) all.codes[n] += testers[i].codes[n];
    all.regular += testers[i].regular;
    all.points_found += testers[i].points_found;
    all.made_baseline += testers[i].made_baseline;
  }
  uint64_t files = 0;
  for (int i = 0; i < CODES; i++) files += all.codes[i];
  printf("%llu files of seed %llu:", (unsigned long long)files, (unsigned long long)seed);
  print_codes(all.codes);
  printf("; without a warning %llu, with seek points %llu, made baseline %llu\n",
         (unsigned long long)all.regular, (unsigned long long)all.points_found,
         (unsigned long long)all.made_baseline);
}

static void write_files(const char *directory) {
  for (uint64_t n = first; n < first + runs; n++) {
    char path[4096];
    random_state r = randomness(n);
    const image_bytes file = some_file(&r);
    snprintf(path, sizeof path, "%s/%08llu", directory, (unsigned long long)n);
    save(&file, path);
    free(file.bytes);
  }
}

int main(int count, char **arguments) {
  const char *directory = NULL;
  for (int i = 1; i + 1 < count; i += 2) {
    const char *value = arguments[i + 1];
    if (strcmp(arguments[i], "-n") == 0) runs = strtoull(value, NULL, 10);
    if (strcmp(arguments[i], "-k") == 0) first = strtoull(value, NULL, 10);
    if (strcmp(arguments[i], "-s") == 0) seed = strtoull(value, NULL, 10);
    if (strcmp(arguments[i], "-j") == 0) threads = strtoull(value, NULL, 10);
    if (strcmp(arguments[i], "-w") == 0) directory = value;
    if (strcmp(arguments[i], "-t") == 0) {
      end = time(NULL) + atol(value);
      runs = UINT64_MAX / 2;
    }
  }
  prepare(seed);
  if (directory != NULL) {
    write_files(directory);
  } else {
    run_threads();
  }
  for (int i = 0; i < PLANS; i++) hrn_plan_free(plans[i]);
  return 0;
}

#endif
