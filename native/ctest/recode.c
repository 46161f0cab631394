/* recode.c: tests what the package writes anew: images that are encoded once more, and files that
 * are made baseline.
 *
 *   recode [-n COUNT]
 *
 * First every kind of JPEG that libjpeg can write, at odd sizes, is made baseline and compared
 * coefficient by coefficient and pixel by pixel. Then COUNT damaged images go both ways: whatever
 * inspection calls good must stay good. Made to run under sanitizers, which see a leak on any way
 * out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../native.h"
#include "images.h"

static random_state r = {.state = 11};
static hrn_status status;
static hrn_context *context, *other;

static void expect(int truth, const char *what, const char *of) {
  if (truth) return;
  fprintf(stderr, "recode: not true: %s: %s (code %d, %u warnings: %s)\n", what, of, status.code,
          status.warnings, status.text);
  abort();
}

/* Size and checksum of all pixels; 0 if there are none. */
static uint32_t pixels(hrn_context *in, const uint8_t *bytes, size_t length) {
  uint32_t size[2];
  hrn_image image;
  if (hrn_decode_header(in, bytes, length, &size[0], &size[1], &status) != HRN_OK) return 0;
  hrn_box box = {0, 0, (int32_t)size[0], (int32_t)size[1]};
  if (hrn_decode_window(in, &box, &image, &status) != HRN_OK) return 0;
  uint32_t sum = hrn_crc32c(0, (const uint8_t *)size, sizeof size);
  for (int32_t y = 0; y < image.height; y++) {
    for (int32_t x = 0; x < image.width; x++) {
      sum = hrn_crc32c(sum, image.pixels + (size_t)y * image.stride + (size_t)x * 4, 3);
    }
  }
  return sum;
}

static hrn_facts facts_of(hrn_context *in, const uint8_t *bytes, size_t length) {
  hrn_facts facts;
  hrn_inspect(in, bytes, length, HRN_ENTROPY, &facts, &status);
  return facts;
}

static int good(void) { return status.code == HRN_OK && status.warnings == 0; }

/* ---- baseline ---- */

/* A checksum of all APPn and COM segments before the first scan, in their order. */
static uint32_t metadata(const uint8_t *bytes, size_t length) {
  uint32_t sum = 0;
  for (size_t at = 2; at + 4 <= length && bytes[at + 1] != 0xDA;) {
    const size_t size = 2 + ((size_t)bytes[at + 2] << 8 | bytes[at + 3]);
    if (bytes[at] != 0xFF || size > length - at) break;
    const int kept = bytes[at + 1] >= 0xE0 && bytes[at + 1] <= 0xFE;
    if (kept) sum = hrn_crc32c(sum, bytes + at, size);
    at += size;
  }
  return sum;
}

/* 1 if the file was made baseline. It must then be the same image. */
static int to_baseline(const image_bytes *file, const char *name) {
  hrn_encoded made;
  const hrn_facts before = facts_of(context, file->bytes, file->length);
  const int was_good = good();
  const uint32_t sum = pixels(context, file->bytes, file->length);
  hrn_to_baseline(context, file->bytes, file->length, &made, &status);
  expect(status.code != HRN_INTERNAL, "no internal error", name);
  if (made.bytes == NULL) return 0;
  const image_bytes copy = copy_bytes(made.bytes, made.length);
  const hrn_facts after = facts_of(other, copy.bytes, copy.length);
  if (was_good) expect(good(), "a good file becomes a good one", name);
  expect(after.process == HRN_PROCESS_BASELINE, "it is baseline now", name);
  expect(before.process != HRN_PROCESS_BASELINE, "it was not", name);
  expect(after.sampling == before.sampling && after.channels == before.channels &&
             after.orientation == before.orientation,
         "the other facts stay", name);
  expect(metadata(copy.bytes, copy.length) == metadata(file->bytes, file->length) || !was_good,
         "the metadata stay", name);
  if (was_good) expect(pixels(other, copy.bytes, copy.length) == sum, "the pixels stay", name);
  free(copy.bytes);
  return 1;
}

/* Blocks in an MCU of all components. With more than ten, a baseline file would need several scans,
 * which would not help anybody. */
static int blocks(const jpeg_form *form) {
  int sum = 0;
  for (int i = 0; i < form->components; i++) sum += form->h[i] * form->v[i];
  return sum;
}

static void every_kind_becomes_baseline(void) {
  static const uint32_t sizes[][2] = {{1, 1},   {7, 9},   {16, 16}, {17, 33},
                                      {50, 40}, {97, 63}, {200, 3}, {3, 200}};
  int made = 0, baseline = 0;
  for (int k = 0; k < jpeg_form_count; k++) {
    const jpeg_form *form = &jpeg_forms[k];
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
      for (int coding = CODING_BASELINE; coding <= CODING_ARITHMETIC; coding++) {
        for (uint32_t restart = 0; restart < 4; restart += 3) {
          image_bytes file = make_jpeg(&r, form, (enum jpeg_coding)coding, restart, sizes[s][0],
                                       sizes[s][1], 30 + (int)random_below(&r, 71));
          if (file.length == 0) continue;
          const int converted = to_baseline(&file, form->name);
          const int wanted = (coding == CODING_PROGRESSIVE || coding == CODING_ARITHMETIC) &&
                             (blocks(form) <= 10 || form->components == 1);
          if (wanted)
            expect(converted, "every progressive and arithmetic file is made", form->name);
          if (!wanted && blocks(form) <= 10) expect(!converted, "no baseline one is", form->name);
          made++;
          baseline += converted;
          free(file.bytes);
        }
      }
    }
  }
  printf("%d files, %d of them made baseline\n", made, baseline);
}

/* ---- markers ---- */

static image_bytes with_inserted(const image_bytes *file, size_t at, const char *what,
                                 size_t length) {
  image_bytes both = {malloc(file->length + length), file->length + length};
  if (both.bytes == NULL) abort();
  memcpy(both.bytes, file->bytes, at);
  memcpy(both.bytes + at, what, length);
  memcpy(both.bytes + at + length, file->bytes + at, file->length - at);
  return both;
}

static size_t find(const uint8_t *bytes, size_t length, const char *what, size_t size,
                   size_t from) {
  for (size_t i = from; i + size <= length; i++) {
    if (memcmp(bytes + i, what, size) == 0) return i;
  }
  return 0;
}

static void markers_and_what_is_behind_eoi_are_kept(void) {
  static const char several[] =
      "\xFF\xFE\x00\x05one"
      "\xFF\xE1\x00\x22"
      "Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
      "\xFF\xED\x00\x06"
      "four"
      "\xFF\xFE\x00\x02";
  image_bytes plain = make_jpeg(&r, &jpeg_forms[2], CODING_PROGRESSIVE, 0, 40, 30, 80);
  image_bytes marked = with_inserted(&plain, 20, several, sizeof several - 1); /* behind JFIF */
  image_bytes file = with_inserted(&marked, marked.length, "behind", 6);
  hrn_encoded made;
  expect(to_baseline(&file, "markers"), "it is made baseline", "markers");
  hrn_to_baseline(context, file.bytes, file.length, &made, &status);
  /* SOI, JFIF and the rest, byte for byte and in the same order. */
  expect(memcmp(made.bytes, file.bytes, 20 + sizeof several - 1) == 0, "same", "header");
  expect(memcmp(made.bytes + made.length - 8,
                "\xFF\xD9"
                "behind",
                8) == 0,
         "same", "end");
  expect(facts_of(other, made.bytes, made.length).orientation == 6, "EXIF is read", "markers");
  free(file.bytes);

  /* Between two scans an Adobe marker means nothing. Before the frame it would say what the colours
   * are. */
  size_t first = find(plain.bytes, plain.length, "\xFF\xDA", 2, 0);
  size_t second = find(plain.bytes, plain.length, "\xFF\xDA", 2, first + 2);
  size_t tables = find(plain.bytes, plain.length, "\xFF\xC4", 2, first + 2);
  if (tables != 0 && tables < second) second = tables;
  file = with_inserted(&plain, second,
                       "\xFF\xEE\x00\x0E"
                       "Adobe\0\x64\0\0\0\0\0",
                       16);
  facts_of(context, file.bytes, file.length);
  expect(good(), "such a file is good", "marker between scans");
  expect(!to_baseline(&file, "marker between scans"), "it is left alone", "marker between scans");
  free(file.bytes);

  /* The file is cut before its last scan and ended there. It is good, and libjpeg smooths over what
   * is missing. */
  size_t last = second;
  for (size_t at = second; at != 0; at = find(plain.bytes, plain.length, "\xFF\xDA", 2, at + 2)) {
    last = at;
  }
  file = copy_bytes(plain.bytes, last + 2);
  file.bytes[last + 1] = 0xD9;
  facts_of(context, file.bytes, file.length);
  expect(good(), "such a file is good", "incomplete");
  expect(!to_baseline(&file, "incomplete"), "it is left alone", "incomplete");
  free(file.bytes);
  free(plain.bytes);
  free(marked.bytes);
}

/* ---- encoded anew ---- */

static void reencode(const image_bytes *file, const char *name) {
  const hrn_facts before = facts_of(context, file->bytes, file->length);
  const int was_good = good();
  const int32_t side = (int32_t)random_below(&r, 60), quality = 1 + (int32_t)random_below(&r, 100);
  const int32_t orientation = (int32_t)random_below(&r, 9);
  hrn_encoded made;
  hrn_reencode(context, file->bytes, file->length, side, quality, orientation, &made, &status);
  expect(status.code != HRN_INTERNAL, "no internal error", name);
  if (was_good) expect(status.code == HRN_OK, "a good image is encoded", name);
  expect((status.code == HRN_OK) == (made.bytes != NULL), "bytes and code agree", name);
  if (made.bytes == NULL) return;
  const image_bytes copy = copy_bytes(made.bytes, made.length);
  const hrn_facts after = facts_of(other, copy.bytes, copy.length);
  expect(good() && after.process == HRN_PROCESS_BASELINE, "what is made is good", name);
  expect(after.sampling == HRN_SAMPLING_420 || after.sampling == HRN_SAMPLING_GREY, "4:2:0", name);
  expect(after.orientation == (orientation > 1 ? orientation : 0), "orientation stays", name);
  uint32_t shorter = before.width < before.height ? before.width : before.height;
  uint32_t now = after.width < after.height ? after.width : after.height;
  if (side > 0 && shorter > (uint32_t)side) shorter = (uint32_t)side;
  expect(now == shorter, "the shorter side is as asked, and never longer", name);
  /* Another context must give the same, whatever it did before. */
  hrn_reencode(other, file->bytes, file->length, side, quality, orientation, &made, &status);
  expect(made.length == copy.length && memcmp(made.bytes, copy.bytes, copy.length) == 0,
         "any context writes the same bytes", name);
  free(copy.bytes);
}

static void limits_and_wrong_arguments_are_answers(void) {
  hrn_encoded made;
  image_bytes file = make_jpeg(&r, &jpeg_forms[0], CODING_PROGRESSIVE, 0, 600, 600, 30);
  hrn_limits limits = hrn_default_limits();
  limits.max_record_bytes = file.length + 100;
  hrn_context *small = hrn_context_new(&limits);
  for (int again = 0; again < 2; again++) { /* an error leaves nothing behind */
    hrn_reencode(small, file.bytes, file.length, 0, 100, 0, &made, &status);
    expect(status.code == HRN_LIMIT && made.bytes == NULL, "it is too long", "record limit");
    expect(strstr(status.text, "max_record_bytes") != NULL, "it says so", "record limit");
  }
  hrn_context_free(small);
  limits = hrn_default_limits();
  limits.max_decoder_bytes = 100000;
  small = hrn_context_new(&limits);
  hrn_to_baseline(small, file.bytes, file.length, &made, &status);
  expect(status.code == HRN_LIMIT && made.bytes == NULL, "it says so", "memory limit");
  hrn_context_free(small);
  expect(hrn_reencode(context, file.bytes, file.length, -1, 90, 0, &made, &status) == HRN_ARGUMENT,
         "refused", "resize");
  expect(hrn_reencode(context, file.bytes, file.length, 0, 101, 0, &made, &status) == HRN_ARGUMENT,
         "refused", "quality");
  expect(hrn_reencode(context, file.bytes, file.length, 0, 90, 9, &made, &status) == HRN_ARGUMENT,
         "refused", "orientation");
  free(file.bytes);
}

static void damaged_images_give_answers(uint64_t rounds) {
  for (uint64_t n = 0; n < rounds; n++) {
    image_bytes file = made_image(&r);
    for (uint64_t k = random_below(&r, 4); k > 0; k--) {
      file.bytes[random_below(&r, file.length)] ^= (uint8_t)(1u << random_below(&r, 8));
    }
    if (random_below(&r, 8) == 0) file.length = 1 + random_below(&r, file.length);
    mend_png_checksums(&file);
    const image_bytes copy = copy_bytes(file.bytes, file.length);
    to_baseline(&copy, "damaged");
    reencode(&copy, "damaged");
    free(copy.bytes);
    free(file.bytes);
  }
  printf("%llu damaged images\n", (unsigned long long)rounds);
}

int main(int count, char **arguments) {
  uint64_t rounds = 5000;
  if (count > 2 && strcmp(arguments[1], "-n") == 0) rounds = strtoull(arguments[2], NULL, 10);
  hrn_limits limits = hrn_default_limits();
  limits.max_pixels = 4000000; /* a damaged header may ask for many */
  context = hrn_context_new(&limits);
  other = hrn_context_new(&limits);
  if (context == NULL || other == NULL) abort();
  every_kind_becomes_baseline();
  markers_and_what_is_behind_eoi_are_kept();
  limits_and_wrong_arguments_are_answers();
  damaged_images_give_answers(rounds);
  hrn_context_free(context);
  hrn_context_free(other);
  return 0;
}
