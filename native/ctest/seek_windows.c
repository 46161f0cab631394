/* seek_windows.c: windows decoded from seek points, and without, are libjpeg's pixels.
 *
 *   seek_windows [-n IMAGES] [-w WINDOWS] [-s SEED]
 *
 * Over images of every sampling, coding and restart interval: all windows of images up to 5 x 5
 * pixels, random ones of larger images, each with points of every step. That the points were used,
 * and that no decode began anew, is part of what is checked; and that a decode without points
 * learns those that an inspection finds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../jpeg/hook.h"
#include "reference.h"

static const uint32_t steps[] = {0, 1, 3, 8, 16}; /* 0: without points */
enum { STEPS = sizeof steps / sizeof steps[0], EXHAUSTIVE = 5 };

static long compared, different, not_encoded, with_points, learned;

/* One image under test. */
typedef struct subject {
  const jpeg_form *form;
  enum jpeg_coding coding;
  image_bytes file, record, expected; /* expected: what is to be learned */
  reference whole;
  bool hooked, seeks; /* what the decode must use */
  uint32_t step;
} subject;

static void complain(const subject *s, const hrn_box *box, const char *what, int number) {
  different++;
  if (different > 20) return;
  printf("%s, coding %d, %u x %u, step %u: window %d, %d, %d x %d: %s %d\n", s->form->name,
         s->coding, s->whole.width, s->whole.height, s->step, box->left, box->top, box->width,
         box->height, what, number);
}

/* Points are learned without points alone, and of the files that points can be of. */
static void check_learned(hrn_context *context, const subject *s, const hrn_box *box) {
  image_bytes found = {NULL, 0};
  const uint8_t *bytes = NULL;
  uint32_t crc;
  if (hrn_learned(context, &bytes, &found.length, &crc) != (s->step == 0 && s->hooked)) {
    complain(s, box, "points learned", bytes != NULL);
  } else if (s->step == 0 && s->hooked) {
    learned++;
    if (found.length != s->expected.length || memcmp(bytes, s->expected.bytes, found.length) != 0) {
      complain(s, box, "other points were learned, bytes", (int)found.length);
    }
  }
}

static void compare(hrn_context *context, const subject *s, const hrn_box *box) {
  uint32_t width, height;
  hrn_image image;
  hrn_status status;
  hrn_decode_header(context, s->file.bytes, s->file.length, &width, &height, &status);
  hrn_decode_seek(context, s->record.bytes, s->record.length);
  hrn_decode_learn(context);
  context->jpeg->allowed = true;
  context->jpeg->allowance = UINT64_MAX / 2; /* the tests before this one count for nothing */
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

/* Points of one scan with all components, which more than ten blocks an MCU do not allow. A lone
 * component with factors of its own is left to libjpeg. */
static bool expects_hook(const jpeg_form *form, enum jpeg_coding coding) {
  int blocks = 0;
  for (int i = 0; i < form->components; i++) blocks += form->h[i] * form->v[i];
  if (form->components == 1)
    return blocks == 1 && coding <= CODING_SEPARATE_SCANS && coding != CODING_PROGRESSIVE;
  return coding == CODING_BASELINE && blocks <= 10;
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
    if (s->whole.width <= EXHAUSTIVE && s->whole.height <= EXHAUSTIVE) {
      all_windows(context, s);
    } else {
      some_windows(context, r, s, windows);
    }
    free(s->record.bytes);
  }
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
      "%ld windows compared (%ld images and steps with points; %ld that learned them), "
      "%ld complaints, %ld combinations that libjpeg cannot encode\n",
      compared, with_points, learned, different, not_encoded);
  return compared == 0 || with_points == 0 || learned == 0 || different != 0;
}
