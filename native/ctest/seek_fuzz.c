/* seek_fuzz.c: hostile seek points and damaged entropy data; made to run under sanitizers.
 *
 *   seek_fuzz [-n RUNS] [-t SECONDS] [-s SEED]
 *
 * Each run takes a small JPEG, whole or damaged, and a record that is right, damaged, of another
 * image, or invented. They go through hrn_sample with a random plan, and some also through
 * hrn_inspect_seek. Everything is at the end of its allocation. Besides "no report", this must
 * hold: no call returns HRN_INTERNAL or takes long; an undamaged file decodes whatever its record
 * says, and to the same bytes with the right record as with none; what was inspected without a
 * warning decodes with the points that were found.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "../native.h"
#include "../jpeg/seek.h"
#include "codes.h"
#include "images.h"
#include "plans.h"

enum { IMAGES = 300, PLANS = 60, RECORDS = 3 };

/* CPU seconds that no run of this size can take. */
enum { WATCHDOG = 30 };

typedef struct subject {
  image_bytes file;
  uint32_t width, height, scan;
  image_bytes record[RECORDS]; /* true ones of different steps; length 0 where there are none */
} subject;

static subject subjects[IMAGES];
static hrn_plan *plans[PLANS];
static hrn_context *context;
static uint64_t run_number, seed = 1, codes[CODES], with_points;

/* What the last call got, so that it can be looked at after a failure. */
static const image_bytes *last_file, *last_record;

static void save(const char *path, const image_bytes *bytes) {
  FILE *file = bytes != NULL ? fopen(path, "wb") : NULL;
  if (file == NULL) return;
  fwrite(bytes->bytes, 1, bytes->length, file);
  fclose(file);
}

static void fail(const char *what, const hrn_status *status) {
  fprintf(stderr, "seed %llu, run %llu: %s: code %d, %u warnings, %s\n", (unsigned long long)seed,
          (unsigned long long)run_number, what, status->code, status->warnings, status->text);
  save("seek_fuzz-failure.jpg", last_file);
  save("seek_fuzz-failure.seek", last_record);
  abort();
}

static void too_long(int signal) {
  (void)signal;
  static const char text[] = "a run does not end\n";
  if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(3);
  abort();
}

static void watch(void) {
  const struct itimerval timer = {.it_value = {.tv_sec = WATCHDOG}};
  setitimer(ITIMER_VIRTUAL, &timer, NULL);
}

/* ---- what the runs start from ---- */

/* Mostly baseline, because the others never look at a record. */
static void make_subject(random_state *r, subject *s) {
  static const uint32_t steps[] = {1, 2, 3, 8, 16};
  do {
    const uint64_t coding = random_below(r, 12);
    const uint32_t restart = random_below(r, 3) == 0 ? 1 + (uint32_t)random_below(r, 9) : 0;
    s->width = 1 + (uint32_t)random_below(r, 90);
    s->height = 1 + (uint32_t)random_below(r, 60);
    s->file = make_jpeg(r, &jpeg_forms[random_below(r, (uint64_t)jpeg_form_count)],
                        coding < 4 ? (enum jpeg_coding)coding : CODING_BASELINE, restart, s->width,
                        s->height, 5 + (int)random_below(r, 96));
  } while (s->file.length == 0);
  for (int i = 0; i < RECORDS; i++) {
    hrn_facts facts;
    hrn_status status;
    const uint8_t *record;
    size_t length;
    if (hrn_inspect_seek(context, s->file.bytes, s->file.length, steps[random_below(r, 5)], &facts,
                         &record, &length, &status) != HRN_OK) {
      fail("a whole file", &status);
    }
    s->scan = facts.scan_offset;
    s->record[i] = copy_bytes(record, length);
  }
}

/* ---- hostile input ---- */

static void damage_bytes(random_state *r, image_bytes *b, size_t from) {
  if (b->length <= from) return;
  for (uint64_t n = 1 + random_below(r, 4); n > 0; n--) {
    const size_t at = from + random_below(r, b->length - from);
    switch (random_below(r, 4)) {
      case 0:
        b->bytes[at] = (uint8_t)random_next(r);
        break;
      case 1:
        b->bytes[at] = "\x00\xFF\x7F\x80\x01\xFE"[random_below(r, 6)];
        break;
      case 2: /* a marker in the entropy data */
        b->bytes[at] = 0xFF;
        if (at + 1 < b->length) b->bytes[at + 1] = "\xD0\xD3\xD9\xDA\xC4\xFF"[random_below(r, 6)];
        break;
      default:
        b->bytes[at] ^= (uint8_t)(1u << random_below(r, 8));
        break;
    }
  }
}

/* The bytes of a file, whole half of the time. */
static image_bytes some_file(random_state *r, const subject *s, bool *whole) {
  size_t length = s->file.length;
  const uint64_t kind = random_below(r, 16);
  *whole = kind < 8;
  if (kind == 8) length = random_below(r, length);
  if (kind == 9) length = s->scan + random_below(r, length - s->scan);
  image_bytes file = copy_bytes(s->file.bytes, length);
  if (kind >= 9) damage_bytes(r, &file, kind == 15 ? 0 : s->scan);
  return file;
}

/* Invents a record of any content that passes every check of its size for the given one's image. */
static image_bytes invented(random_state *r, const image_bytes *like) {
  image_bytes record = {NULL, 0};
  if (like->length < HRN_SEEK_HEADER) return copy_bytes(NULL, 0);
  const uint8_t *from = like->bytes;
  uint64_t point_bits = random_below(r, 33), bits = point_bits;
  uint8_t header[HRN_SEEK_HEADER];
  memcpy(header, from, sizeof header);
  header[2] = (uint8_t)point_bits;
  for (int c = 0; c < from[3] && c < HRN_MAX_COMPONENTS; c++) {
    bits += header[4 + c] = (uint8_t)random_below(r, 17);
  }
  for (int i = 12; i < HRN_SEEK_HEADER; i++) header[i] = (uint8_t)random_next(r);
  const uint64_t points = (uint64_t)(from[8] | from[9] << 8), rows = from[10] | from[11] << 8;
  record.length = HRN_SEEK_HEADER + rows * 4 + (rows * points * bits + 7) / 8 + HRN_SEEK_TAIL;
  record.bytes = malloc(record.length);
  if (record.bytes == NULL) abort();
  memcpy(record.bytes, header, sizeof header);
  const bool near = random_below(r, 2) == 0; /* rows that begin inside a small file */
  for (size_t i = sizeof header; i < record.length; i++) record.bytes[i] = (uint8_t)random_next(r);
  for (uint64_t row = 0; near && row < rows; row++) {
    memset(record.bytes + HRN_SEEK_HEADER + row * 4 + 1, 0, 3);
    record.bytes[HRN_SEEK_HEADER + row * 4 + 1] = (uint8_t)random_below(r, 8);
  }
  return record;
}

static image_bytes some_record(random_state *r, const subject *s, bool *right) {
  const image_bytes *mine = &s->record[random_below(r, RECORDS)];
  const uint64_t kind = random_below(r, 8);
  *right = kind < 2;
  if (kind == 2) {
    const subject *other = &subjects[random_below(r, IMAGES)];
    return copy_bytes(other->record[0].bytes, other->record[0].length);
  }
  if (kind == 3) return invented(r, mine);
  image_bytes record = copy_bytes(mine->bytes, mine->length);
  if (kind == 4 && record.length > 0) {
    image_bytes cut = copy_bytes(record.bytes, random_below(r, record.length));
    free(record.bytes);
    return cut;
  }
  if (kind > 4) damage_bytes(r, &record, kind == 5 ? 0 : HRN_SEEK_HEADER);
  return record;
}

/* ---- a run ---- */

typedef struct result {
  hrn_status status;
  uint32_t sum; /* of the pixels */
} result;

static result sample(const hrn_plan *plan, const hrn_key *key, const image_bytes *file,
                     const image_bytes *record, uint64_t bytes) {
  hrn_status status;
  /* Zeroed: a file whose header was damaged may fill less of it. */
  image_bytes to = {calloc(1, bytes + (bytes == 0)), bytes};
  if (to.bytes == NULL) abort();
  const hrn_job job = {.bytes = file->bytes,
                       .length = file->length,
                       .key = *key,
                       .seek = record != NULL ? record->bytes : NULL,
                       .seek_length = record != NULL ? record->length : 0,
                       .view_count = 1,
                       .views = {{plan, to.bytes, bytes}}};
  last_file = file;
  last_record = record;
  hrn_sample(context, &job, &status);
  if (status.code == HRN_INTERNAL) fail("hrn_sample", &status);
  codes[status.code]++;
  const uint32_t sum = status.code == HRN_OK ? hrn_crc32c(0, to.bytes, bytes) : 0;
  free(to.bytes);
  return (result){status, sum};
}

static bool same(result a, result b) {
  return a.status.code == b.status.code && a.sum == b.sum && a.status.warnings == b.status.warnings;
}

/* Checks the points that inspection finds in any bytes. The file is then as libjpeg's encoder
 * writes them, so no decode of it may complain. */
static void inspect(random_state *r, const hrn_plan *plan, const hrn_key *key,
                    const image_bytes *file, uint64_t bytes) {
  hrn_facts facts;
  hrn_status status;
  const uint8_t *points;
  size_t length;
  last_record = NULL; /* it may have been freed */
  hrn_inspect_seek(context, file->bytes, file->length, 1 + (uint32_t)random_below(r, 20), &facts,
                   &points, &length, &status);
  if (status.code == HRN_INTERNAL) fail("hrn_inspect_seek", &status);
  if (points == NULL) return;
  with_points++;
  if (status.code != HRN_OK || status.warnings != 0) fail("points of an irregular file", &status);
  image_bytes record = copy_bytes(points, length);
  const result plain = sample(plan, key, file, NULL, bytes);
  if (!same(plain, sample(plan, key, file, &record, bytes)) || plain.status.warnings != 0) {
    fail("points that inspection found change the pixels", &plain.status);
  }
  free(record.bytes);
}

static void run(random_state *r) {
  const subject *s = &subjects[random_below(r, IMAGES)];
  const hrn_plan *plan = plans[random_below(r, PLANS)];
  const hrn_key key = {.seed = random_next(r), .sample = run_number};
  hrn_size size = {0};
  hrn_status status;
  if (hrn_plan_size(plan, s->width, s->height, &size, &status) != HRN_OK || size.bytes > 1 << 22) {
    size.bytes = 1 << 16; /* a sliver resized by its shorter side: must be refused, too */
  }
  bool whole, right;
  image_bytes file = some_file(r, s, &whole), record = some_record(r, s, &right);
  const result found = sample(plan, &key, &file, &record, size.bytes);
  /* What a plan draws for the size may still be impossible; the file is not to blame then. */
  if (whole && (found.status.code == HRN_BAD || found.status.code == HRN_TRUNCATED)) {
    fail("a whole file", &found.status);
  }
  if (whole && right && !same(found, sample(plan, &key, &file, NULL, size.bytes))) {
    fail("right points change the pixels", &found.status);
  }
  if (random_below(r, 4) == 0) inspect(r, plan, &key, &file, size.bytes);
  free(file.bytes);
  free(record.bytes);
}

int main(int count, char **arguments) {
  uint64_t runs = 50000;
  long seconds = 0;
  for (int i = 1; i + 1 < count; i += 2) {
    if (strcmp(arguments[i], "-n") == 0) runs = strtoull(arguments[i + 1], NULL, 10);
    if (strcmp(arguments[i], "-t") == 0) seconds = atol(arguments[i + 1]), runs = UINT64_MAX;
    if (strcmp(arguments[i], "-s") == 0) seed = strtoull(arguments[i + 1], NULL, 10);
  }
  random_state r = random_seeded(seed);
  hrn_limits limits = hrn_default_limits();
  limits.max_pixels = 1000000;
  limits.max_decoder_bytes = 32 << 20;
  context = hrn_context_new(&limits);
  if (context == NULL) abort();
  for (int i = 0; i < IMAGES; i++) make_subject(&r, &subjects[i]);
  for (int i = 0; i < PLANS; i++) plans[i] = some_plan(&r);
  signal(SIGVTALRM, too_long);
  const time_t end = time(NULL) + seconds;
  for (run_number = 0; run_number < runs; run_number++) {
    if (run_number % 64 == 0) {
      if (seconds > 0 && time(NULL) >= end) break;
      watch();
    }
    run(&r);
  }
  printf("%llu runs of seed %llu, %llu times with points from inspection:",
         (unsigned long long)run_number, (unsigned long long)seed, (unsigned long long)with_points);
  print_codes(codes);
  printf("\n");
  for (int i = 0; i < IMAGES; i++) {
    free(subjects[i].file.bytes);
    for (int k = 0; k < RECORDS; k++) free(subjects[i].record[k].bytes);
  }
  for (int i = 0; i < PLANS; i++) hrn_plan_free(plans[i]);
  hrn_context_free(context);
  return 0;
}
