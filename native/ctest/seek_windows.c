/* seek_windows.c: windows that are decoded from seek points, and without, have libjpeg's pixels.
 *
 *   seek_windows [-n IMAGES] [-w WINDOWS] [-s SEED]
 *
 * It goes over images of every sampling, coding and restart interval: all windows of images up to 5
 * x 5 pixels, random ones of larger images, each with points of every step, and with those of the
 * first rows alone. It also checks that the points were used, and that no decode began anew. And it
 * checks that a decode without points, or without those of the last rows, learns those that an
 * inspection finds: with an allowance at least those of all rows but the last twelfth, and
 * otherwise those of the rows that it went through.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../jpeg/hook.h"
#include "reference.h"

static const uint32_t steps[] = {0, 1, 3, 8, 16}; /* 0: without points */
enum { STEPS = sizeof steps / sizeof steps[0], EXHAUSTIVE = 5 };

static long compared, different, not_encoded, with_points, learned, partly;

/* One image under test. */
typedef struct subject {
  const jpeg_form *form;
  enum jpeg_coding coding;
  image_bytes file, record, expected; /* expected: what is to be learned */
  reference whole;
  bool hooked, seeks; /* what the decode must use */
  uint32_t step;
  uint32_t first_rows; /* rows that the record has points of; 0: all */
  bool poor;           /* no allowance */
} subject;

static void complain(const subject *s, const hrn_box *box, const char *what, int number) {
  different++;
  if (different > 20) return;
  printf("%s, coding %d, %u x %u, step %u: window %d, %d, %d x %d: %s %d\n", s->form->name,
         s->coding, s->whole.width, s->whole.height, s->step, box->left, box->top, box->width,
         box->height, what, number);
}

static uint32_t rows_of(const uint8_t *record) { return record[10] | (uint32_t)record[11] << 8; }

/* Makes a record of the first rows of another one. */
static image_bytes first_rows(const image_bytes *whole, uint32_t rows) {
  const uint8_t *b = whole->bytes;
  const uint32_t a_row = b[8] | (uint32_t)b[9] << 8, components = b[3], step = b[1];
  hrn_seek seek;
  if (!hrn_seek_open(&seek, b, whole->length, a_row * step, rows_of(b), components)) abort();
  hrn_seek_point *points = calloc((size_t)rows * a_row, sizeof *points);
  if (points == NULL) abort();
  for (uint32_t i = 0; i < rows * a_row; i++) hrn_seek_at(&seek, i / a_row, i % a_row, points + i);
  image_bytes record = {NULL, hrn_seek_pack(points, a_row, rows, components, step, NULL, 0)};
  record.bytes = malloc(record.length);
  if (record.bytes == NULL) abort();
  hrn_seek_pack(points, a_row, rows, components, step, record.bytes, record.length);
  free(points);
  return record;
}

/* Points must be learned if the window needs some that are missing, and if the file can have
 * points. */
static void check_learned(hrn_context *context, const subject *s, const hrn_box *box) {
  const uint8_t *bytes = NULL;
  size_t length = 0;
  uint32_t crc;
  const bool found = hrn_learned(context, &bytes, &length, &crc);
  const hrn_hook *hook = context->jpeg->hook;
  const uint32_t all = s->hooked ? rows_of(s->expected.bytes) : 0, enough = all - all / 12;
  const bool may =
      s->hooked && (s->step == 0 || (s->first_rows > 0 && s->first_rows < enough && hook->onward));
  if (found && bytes == NULL) {
    complain(s, box, "called unlearnable", 0);
  } else if (s->poor ? found && !may : found != may) {
    complain(s, box, "points learned", found);
  } else if (found) {
    const uint32_t rows = rows_of(bytes);
    if (rows > all || rows <= s->first_rows || (!s->poor && rows < enough)) {
      complain(s, box, "rows learned", (int)rows);
      return;
    }
    const image_bytes expected = first_rows(&s->expected, rows);
    if (rows == all) learned++;
    if (rows < all) partly++;
    if (length != expected.length || memcmp(bytes, expected.bytes, length) != 0) {
      complain(s, box, "other points were learned, bytes", (int)length);
    }
    free(expected.bytes);
  }
}

/* What was noted for the last image, often this one, must not replace what is noted now. */
static void forget_points(hrn_context *context, const subject *s) {
  const size_t size = (size_t)s->whole.width * s->whole.height * sizeof(hrn_seek_point) / 64 +
                      sizeof(hrn_seek_point);
  hrn_status ignored;
  void *noted = hrn_scratch(context, HRN_SCRATCH_POINTS, size, &ignored);
  if (noted != NULL) memset(noted, 0x5A, size);
}

static void compare(hrn_context *context, const subject *s, const hrn_box *box) {
  uint32_t width, height;
  hrn_image image;
  hrn_status status;
  forget_points(context, s);
  hrn_decode_header(context, s->file.bytes, s->file.length, &width, &height, &status);
  hrn_decode_seek(context, s->record.bytes, s->record.length);
  hrn_decode_learn(context);
  context->jpeg->allowed = true;
  context->jpeg->allowance = s->poor ? 0 : UINT64_MAX / 2; /* earlier tests do not count */
  hrn_decode_window(context, box, &image, &status);
  compared++;
  if (status.code != HRN_OK || status.warnings != 0) {
    complain(s, box, "failed with code", status.code);
    return;
  }
  const hrn_hook *hook = context->jpeg->hook;
  if ((hook != NULL) != s->hooked) complain(s, box, "hooked is", hook != NULL);
  if (hook != NULL && hook->irregular) complain(s, box, "began anew", 0);
  if (hook != NULL && hook->has_seek != s->seeks) complain(s, box, "points used", hook->has_seek);
  const int32_t row = reference_differs(&s->whole, box, &image);
  if (row >= 0) complain(s, box, "differs in row", row);
  check_learned(context, s, box);
}

static int32_t below(random_state *r, int32_t bound) {
  return (int32_t)random_below(r, (uint64_t)bound);
}

static void all_windows(hrn_context *context, const subject *s) {
  const int32_t width = (int32_t)s->whole.width, height = (int32_t)s->whole.height;
  hrn_box box;
  for (box.left = 0; box.left < width; box.left++) {
    for (box.top = 0; box.top < height; box.top++) {
      for (box.width = 1; box.left + box.width <= width; box.width++) {
        for (box.height = 1; box.top + box.height <= height; box.height++)
          compare(context, s, &box);
      }
    }
  }
}

static void some_windows(hrn_context *context, random_state *r, const subject *s, long windows) {
  const int32_t width = (int32_t)s->whole.width, height = (int32_t)s->whole.height;
  hrn_box box = {0, 0, width, height};
  compare(context, s, &box);
  for (long n = 0; n < windows; n++) {
    box = some_box(r, width, height);
    compare(context, s, &box);
  }
}

/* Points belong to one scan with all components, which more than ten blocks an MCU do not allow. A
 * lone component with sampling factors of its own is left to libjpeg. */
static bool expects_hook(const jpeg_form *form, enum jpeg_coding coding) {
  int blocks = 0;
  for (int i = 0; i < form->components; i++) blocks += form->h[i] * form->v[i];
  if (form->components == 1)
    return blocks == 1 && coding <= CODING_SEPARATE_SCANS && coding != CODING_PROGRESSIVE;
  return coding == CODING_BASELINE && blocks <= 10;
}

static void windows_of(hrn_context *context, random_state *r, const subject *s, long windows) {
  if (s->whole.width <= EXHAUSTIVE && s->whole.height <= EXHAUSTIVE) {
    all_windows(context, s);
  } else {
    some_windows(context, r, s, windows);
  }
}

/* With points of the first rows alone, with an allowance and without. */
static void test_first_rows(hrn_context *context, random_state *r, subject *s, long windows) {
  const uint32_t rows = rows_of(s->expected.bytes);
  for (int n = 0; n < 2 && rows > 1; n++) {
    s->step = HRN_SEEK_STEP;
    s->poor = n == 1;
    s->first_rows = 1 + (uint32_t)below(r, (int32_t)rows - 1);
    s->record = first_rows(&s->expected, s->first_rows);
    windows_of(context, r, s, windows);
    free(s->record.bytes);
  }
  s->first_rows = 0;
  s->poor = false;
}

static void test(hrn_context *context, random_state *r, subject *s, long windows) {
  s->whole = reference_decode(&s->file);
  s->hooked = expects_hook(s->form, s->coding);
  s->expected = seek_record(context, &s->file, HRN_SEEK_STEP);
  for (int i = 0; i < STEPS; i++) {
    s->step = steps[i];
    s->seeks = s->step != 0 && s->hooked;
    s->record = (image_bytes){NULL, 0};
    if (s->step != 0) {
      s->record = seek_record(context, &s->file, s->step);
      const bool found = s->record.bytes != NULL;
      if (found != s->hooked) complain(s, &(hrn_box){0}, "points found", found);
      if (!found) continue;
      with_points++;
    }
    s->poor = s->step == 0 && below(r, 2) == 0;
    windows_of(context, r, s, windows);
    s->poor = false;
    free(s->record.bytes);
  }
  if (s->hooked) test_first_rows(context, r, s, windows);
  reference_free(&s->whole);
  free(s->expected.bytes);
}

int main(int count, char **arguments) {
  long images = 1000, windows = 6;
  uint64_t seed = 1;
  for (int i = 1; i + 1 < count; i += 2) {
    if (strcmp(arguments[i], "-n") == 0) images = atol(arguments[i + 1]);
    if (strcmp(arguments[i], "-w") == 0) windows = atol(arguments[i + 1]);
    if (strcmp(arguments[i], "-s") == 0) seed = strtoull(arguments[i + 1], NULL, 10);
  }
  random_state r = random_seeded(seed);
  hrn_limits limits = hrn_default_limits();
  hrn_context *context = hrn_context_new(&limits);
  if (context == NULL) abort();
  for (long n = 0; n < images; n++) {
    /* Each form in turn, the smallest sizes first; every fifth round of them is not baseline. */
    static const int32_t most[] = {EXHAUSTIVE, 40, 130, 130, 400};
    const int32_t side = most[n * 5 / images];
    const long round = n / jpeg_form_count;
    subject s = {.form = &jpeg_forms[n % jpeg_form_count],
                 .coding = round % 5 == 4 ? (enum jpeg_coding)(round / 5 % 4) : CODING_BASELINE};
    const uint32_t restart = round % 3 == 0 ? 1 + (uint32_t)below(&r, 17) : 0;
    const uint32_t width = 1 + (uint32_t)below(&r, side), height = 1 + (uint32_t)below(&r, side);
    s.file = make_jpeg(&r, s.form, s.coding, restart, width, height, 1 + below(&r, 100));
    if (s.file.length == 0) {
      not_encoded++;
      continue;
    }
    test(context, &r, &s, windows);
    free(s.file.bytes);
  }
  hrn_context_free(context);
  printf(
      "%ld windows compared (%ld images and steps with points; %ld that learned them, %ld some), "
      "%ld complaints, %ld combinations that libjpeg cannot encode\n",
      compared, with_points, learned, partly, different, not_encoded);
  return compared == 0 || with_points == 0 || learned == 0 || partly == 0 || different != 0;
}
