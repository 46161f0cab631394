/* verdicts.c: the package's verdicts on files that are cut, too large, damaged or of another kind.
 *
 * Each function is one statement; a failed one says its line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../native.h"
#include "images.h"

static int failures;

#define EXPECT(condition)                       \
  do {                                          \
    if (!(condition)) {                         \
      complain(__LINE__, __func__, #condition); \
      return;                                   \
    }                                           \
  } while (0)

static random_state r = {.state = 7};
static hrn_status status;
static hrn_facts facts;

static void complain(int line, const char *statement, const char *condition) {
  failures++;
  printf("verdicts.c:%d: %s: not true: %s (code %d, %u warnings: %s)\n", line, statement, condition,
         status.code, status.warnings, status.text);
  fflush(stdout);
}

static const jpeg_form *form(const char *name) {
  for (int i = 0; i < jpeg_form_count; i++) {
    if (strcmp(jpeg_forms[i].name, name) == 0) return &jpeg_forms[i];
  }
  abort();
}

static int inspect_within(const hrn_limits *limits, const uint8_t *bytes, size_t length) {
  hrn_context *context = hrn_context_new(limits);
  /* An exact copy, so that a sanitizer sees a read behind its end. */
  uint8_t *exact = malloc(length + (length == 0));
  memcpy(exact, bytes, length);
  hrn_inspect(context, exact, length, HRN_ENTROPY, &facts, &status);
  free(exact);
  hrn_context_free(context);
  return status.code;
}

static int inspect(const uint8_t *bytes, size_t length) {
  hrn_limits limits = hrn_default_limits();
  return inspect_within(&limits, bytes, length);
}

/* Decodes the whole image in `context`. */
static int decode(hrn_context *context, const image_bytes *file, hrn_image *image) {
  uint32_t width, height;
  if (hrn_decode_header(context, file->bytes, file->length, &width, &height, &status) != HRN_OK) {
    return status.code;
  }
  hrn_box box = {0, 0, (int32_t)width, (int32_t)height};
  return hrn_decode_window(context, &box, image, &status);
}

static size_t find(const image_bytes *file, const char *what, size_t length) {
  for (size_t i = 0; i + length <= file->length; i++) {
    if (memcmp(file->bytes + i, what, length) == 0) return i;
  }
  abort();
}

/* ---- truncation ---- */

static void jpeg_cut_anywhere_before_its_last_mcu_is_truncated(void) {
  static const enum jpeg_coding codings[] = {CODING_BASELINE, CODING_PROGRESSIVE,
                                             CODING_SEPARATE_SCANS, CODING_ARITHMETIC};
  for (size_t k = 0; k < 4; k++) {
    for (uint32_t restart = 0; restart < 3; restart += 2) {
      image_bytes file = make_jpeg(&r, form("4:2:0"), codings[k], restart, 50, 40, 75);
      for (size_t cut = 3; cut + 2 < file.length; cut++) {
        inspect(file.bytes, cut);
        EXPECT(status.code == HRN_TRUNCATED);
        EXPECT(status.offset == (int64_t)cut);
        EXPECT(strstr(status.text, "the file is truncated") != NULL);
      }
      free(file.bytes);
    }
  }
}

static void jpeg_without_eoi_is_good_with_a_warning(void) {
  for (int k = 0; k < jpeg_form_count; k++) {
    image_bytes file = make_jpeg(&r, &jpeg_forms[k], CODING_SEPARATE_SCANS, 0, 33, 21, 75);
    for (size_t missing = 1; missing <= 2; missing++) {
      EXPECT(inspect(file.bytes, file.length - missing) == HRN_OK);
      EXPECT(status.warnings > 0);
    }
    free(file.bytes);
  }
}

static void window_above_the_cut_decodes_and_one_below_is_truncated(void) {
  image_bytes file = make_jpeg(&r, form("4:2:0"), CODING_BASELINE, 0, 160, 160, 90);
  hrn_limits limits = hrn_default_limits();
  hrn_context *context = hrn_context_new(&limits);
  uint32_t width, height;
  hrn_image image;
  file.length /= 2;
  hrn_box top = {0, 0, 160, 20}, bottom = {0, 140, 160, 20};
  hrn_decode_header(context, file.bytes, file.length, &width, &height, &status);
  EXPECT(hrn_decode_window(context, &top, &image, &status) == HRN_OK);
  hrn_decode_header(context, file.bytes, file.length, &width, &height, &status);
  EXPECT(hrn_decode_window(context, &bottom, &image, &status) == HRN_TRUNCATED);
  hrn_context_free(context);
  free(file.bytes);
}

/* Markers in the place of codes, codes that do not exist, and what is between the last MCU and EOI.
 * With one scan, the window's decoder has to read as far as the inspection does. */
static void damaged_jpeg_has_one_verdict_when_it_is_inspected_and_when_it_is_decoded_whole(void) {
  static const uint8_t values[] = {0xFF, 0xD8, 0xD9, 0xDA, 0xC0, 0x8B, 0x01};
  hrn_limits limits = hrn_default_limits();
  hrn_context *context = hrn_context_new(&limits);
  int refused = 0;
  for (int k = 0; k < jpeg_form_count; k++) {
    for (uint32_t restart = 0; restart < 3; restart += 2) {
      image_bytes file = make_jpeg(&r, &jpeg_forms[k], CODING_BASELINE, restart, 50, 40, 75);
      const size_t scan = find(&file, "\xFF\xDA", 2) + 14;
      for (size_t at = file.length - 3; at > scan; at -= at > file.length - 30 ? 1 : 23) {
        const uint8_t was[2] = {file.bytes[at], file.bytes[at + 1]};
        const uint8_t marker = values[random_below(&r, sizeof values)];
        hrn_image image;
        file.bytes[at] = 0xFF;
        if (at + 3 < file.length) file.bytes[at + 1] = marker;
        const int verdict = inspect(file.bytes, file.length);
        EXPECT(decode(context, &file, &image) == verdict);
        refused += verdict == HRN_BAD;
        memcpy(file.bytes + at, was, sizeof was);
      }
      free(file.bytes);
    }
  }
  EXPECT(refused > 100);
  hrn_context_free(context);
}

static void png_cut_in_its_image_data_is_truncated(void) {
  for (int interlaced = 0; interlaced < 2; interlaced++) {
    image_bytes file = make_png(&r, 2, 8, interlaced, 20, 20);
    /* IEND has 12 bytes, zlib's checksum and IDAT's 4 each; one byte more belongs to the rows. */
    for (size_t cut = 8; cut + 12 + 4 + 4 + 1 < file.length; cut++) {
      EXPECT(inspect(file.bytes, cut) == HRN_TRUNCATED);
      EXPECT(strstr(status.text, "the file is truncated") != NULL);
    }
    free(file.bytes);
  }
}

/* ---- limits ---- */

static void pixels_are_limited_before_anything_is_allocated(void) {
  image_bytes file = make_jpeg(&r, form("4:4:4"), CODING_PROGRESSIVE, 0, 16, 16, 75);
  size_t frame = find(&file, "\xFF\xC2", 2);
  memcpy(file.bytes + frame + 5, "\xFF\xDC\xFF\xDC", 4); /* 65,500 x 65,500 */
  EXPECT(inspect(file.bytes, file.length) == HRN_LIMIT);
  EXPECT(strstr(status.text, "max_pixels is 89478485") != NULL);
  EXPECT(facts.width == 65500 && facts.height == 65500);
  memset(file.bytes + frame + 5, 0xFF, 4); /* one more than libjpeg takes */
  EXPECT(inspect(file.bytes, file.length) == HRN_LIMIT);
  EXPECT(facts.width == 65535 && facts.height == 65535);
  free(file.bytes);
}

static void scans_are_limited_and_ten_thousand_end_at_once(void) {
  image_bytes file = make_jpeg(&r, form("grey"), CODING_PROGRESSIVE, 0, 800, 800, 50);
  size_t scan = 0;
  for (size_t i = 0; i + 1 < file.length; i++) { /* the last scan, again and again */
    if (file.bytes[i] == 0xFF && file.bytes[i + 1] == 0xDA) scan = i;
  }
  enum { COPIES = 10000, SCAN = 40 };
  uint8_t *bomb = calloc(1, file.length + COPIES * SCAN + 2);
  size_t length = scan;
  memcpy(bomb, file.bytes, scan);
  for (int i = 0; i < COPIES; i++, length += SCAN) {
    memcpy(bomb + length, file.bytes + scan, SCAN); /* hardly any data each */
  }
  memcpy(bomb + length, "\xFF\xD9", 2);
  clock_t start = clock();
  EXPECT(inspect(bomb, length + 2) == HRN_LIMIT);
  EXPECT(strstr(status.text, "max_scans") != NULL);
  EXPECT(clock() - start < CLOCKS_PER_SEC);
  hrn_limits limits = hrn_default_limits();
  EXPECT(inspect(file.bytes, file.length) == HRN_OK);
  limits.max_scans = facts.scans;
  EXPECT(inspect_within(&limits, file.bytes, file.length) == HRN_OK);
  limits.max_scans--;
  EXPECT(inspect_within(&limits, file.bytes, file.length) == HRN_LIMIT);
  free(bomb);
  free(file.bytes);
}

static void memory_is_limited_for_coefficients_and_pixels_together(void) {
  image_bytes file = make_jpeg(&r, form("4:4:4"), CODING_PROGRESSIVE, 0, 512, 512, 50);
  const size_t coefficients = 512 * 512 * 3 * 2, pixels = 512 * 512 * 4;
  hrn_limits limits = hrn_default_limits();
  limits.max_decoder_bytes = coefficients / 2;
  EXPECT(inspect_within(&limits, file.bytes, file.length) == HRN_LIMIT);
  EXPECT(strstr(status.text, "max_decoder_bytes") != NULL);
  limits.max_decoder_bytes = coefficients + pixels / 2;
  EXPECT(inspect_within(&limits, file.bytes, file.length) == HRN_OK);
  hrn_context *context = hrn_context_new(&limits);
  hrn_image image;
  EXPECT(decode(context, &file, &image) == HRN_LIMIT);
  EXPECT(strstr(status.text, "max_decoder_bytes") != NULL);
  hrn_context_free(context);
  free(file.bytes);
}

static void record_bytes_are_limited(void) {
  image_bytes file = make_png(&r, 0, 8, 0, 9, 9);
  hrn_limits limits = hrn_default_limits();
  limits.max_record_bytes = file.length;
  EXPECT(inspect_within(&limits, file.bytes, file.length) == HRN_OK);
  limits.max_record_bytes--;
  EXPECT(inspect_within(&limits, file.bytes, file.length) == HRN_LIMIT);
  free(file.bytes);
}

/* ---- kinds ---- */

static void kinds_that_are_not_decoded_are_named(void) {
  image_bytes file = make_jpeg(&r, form("4:4:4"), CODING_BASELINE, 0, 16, 16, 75);
  size_t frame = find(&file, "\xFF\xC0", 2);
  file.bytes[frame + 4] = 12;
  EXPECT(inspect(file.bytes, file.length) == HRN_UNSUPPORTED);
  EXPECT(strcmp(status.text, "12-bit JPEG") == 0 && facts.bits == 12 && facts.width == 16);
  file.bytes[frame + 4] = 8;
  file.bytes[frame + 1] = 0xC3;
  EXPECT(inspect(file.bytes, file.length) == HRN_UNSUPPORTED);
  EXPECT(strstr(status.text, "lossless JPEG") != NULL && facts.process == HRN_PROCESS_LOSSLESS);
  static const struct {
    const char *bytes, *name;
  } others[] = {{"\0\0\0\x18"
                 "ftypavif....",
                 "AVIF"},
                {"\xFF\x4F\xFF\x51........", "JPEG 2000"},
                {"\xFF\x0A..........", "JPEG XL"},
                {"\0\0\0\x18"
                 "ftypheic....",
                 "HEIC"},
                {"%PDF-1.7....", "PDF"},
                {"\x1F\x8B..........", "gzip"},
                {"\0\0\1\0........", "ICO"}};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    EXPECT(inspect((const uint8_t *)others[i].bytes, 12) == HRN_UNSUPPORTED);
    EXPECT(strncmp(status.text, others[i].name, strlen(others[i].name)) == 0);
  }
  EXPECT(inspect((const uint8_t *)"no image at all", 15) == HRN_BAD);
  EXPECT(inspect((const uint8_t *)"", 0) == HRN_TRUNCATED);
  free(file.bytes);
}

static void sampling_is_named_for_every_form(void) {
  static const struct {
    const char *name;
    int sampling;
  } names[] = {{"4:4:4", HRN_SAMPLING_444},         {"4:2:2", HRN_SAMPLING_422},
               {"4:2:0", HRN_SAMPLING_420},         {"4:4:0", HRN_SAMPLING_440},
               {"4:1:1", HRN_SAMPLING_411},         {"4:1:0", HRN_SAMPLING_OTHER},
               {"4:4:4 in 2x2", HRN_SAMPLING_444},  {"grey 2x2", HRN_SAMPLING_GREY},
               {"CMYK", HRN_SAMPLING_444},          {"YCCK 4:2:0", HRN_SAMPLING_420},
               {"chroma finer", HRN_SAMPLING_OTHER}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    image_bytes file = make_jpeg(&r, form(names[i].name), CODING_SEPARATE_SCANS, 3, 30, 30, 80);
    EXPECT(inspect(file.bytes, file.length) == HRN_OK);
    EXPECT(facts.sampling == names[i].sampling && facts.restart_interval == 3);
    free(file.bytes);
  }
}

static void file_cut_in_its_signature_is_truncated_whatever_its_kind(void) {
  static const struct {
    const char *bytes;
    size_t length;
  } signatures[] = {{"\xFF\xD8\xFF", 3}, {"\x89PNG\r\n\x1A\n", 8},
                    {"P5 ", 3},          {"P6 ", 3},
                    {"GIF87a", 6},       {"GIF89a", 6},
                    {"II*\0", 4},        {"MM\0*", 4},
                    {"BM", 2},           {"RIFF\1\2\3\4WEBPVP8", 15}};
  for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++) {
    for (size_t cut = 0; cut < signatures[i].length; cut++) {
      EXPECT(inspect((const uint8_t *)signatures[i].bytes, cut) == HRN_TRUNCATED);
      EXPECT(status.offset == (int64_t)cut && facts.codec == HRN_CODEC_UNKNOWN);
    }
  }
  /* Short files that begin like none of them. */
  static const char *const others[] = {"GIF88", "GIF8x", "IM", "MI", "BN", "RIFX", "RIFF1234WEBX"};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    EXPECT(inspect((const uint8_t *)others[i], strlen(others[i])) == HRN_BAD);
  }
  EXPECT(inspect((const uint8_t *)"RIFF1234WAVE", 12) == HRN_UNSUPPORTED);
}

/* ---- damage ---- */

static void png_with_a_wrong_checksum_is_bad(void) {
  image_bytes file = make_png(&r, 2, 8, 0, 20, 20);
  static const char *const chunks[] = {"IHDR", "IDAT"};
  for (int i = 0; i < 2; i++) {
    size_t at = find(&file, chunks[i], 4) + 4;
    file.bytes[at + 3] ^= 1;
    EXPECT(inspect(file.bytes, file.length) == HRN_BAD);
    EXPECT(strstr(status.text, chunks[i]) != NULL && strstr(status.text, "checksum") != NULL);
    file.bytes[at + 3] ^= 1;
  }
  free(file.bytes);
}

/* libjpeg looks at a table when a decode begins, which an inspection of plain data never does. */
static void jpeg_with_a_code_of_ones_alone_is_bad_when_it_is_inspected_and_when_decoded(void) {
  hrn_limits limits = hrn_default_limits();
  hrn_context *context = hrn_context_new(&limits);
  image_bytes file = make_jpeg(&r, form("grey"), CODING_BASELINE, 0, 30, 30, 75);
  /* The standard's table for DC: 12 codes, one of 9 bits. */
  const size_t table = find(&file, "\xFF\xC4\x00\x1F\x00", 5), symbols = table + 5 + 16;
  image_bytes longer = {malloc(file.length + 1), file.length + 1};
  hrn_image image;
  memcpy(longer.bytes, file.bytes, symbols + 12);
  memcpy(longer.bytes + symbols + 13, file.bytes + symbols + 12, file.length - symbols - 12);
  longer.bytes[table + 3]++;
  longer.bytes[table + 4 + 9]++;
  longer.bytes[symbols + 12] = 12;
  EXPECT(inspect(file.bytes, file.length) == HRN_OK && status.warnings == 0);
  EXPECT(inspect(longer.bytes, longer.length) == HRN_BAD);
  EXPECT(decode(context, &longer, &image) == HRN_BAD);
  hrn_context_free(context);
  free(longer.bytes);
  free(file.bytes);
}

static void jpeg_sampled_in_fractions_is_unsupported_when_it_is_inspected_and_when_decoded(void) {
  hrn_limits limits = hrn_default_limits();
  hrn_context *context = hrn_context_new(&limits);
  image_bytes file = make_jpeg(&r, form("RGB 4:2:0"), CODING_BASELINE, 0, 8, 8, 75);
  const size_t frame = find(&file, "\xFF\xC0", 2);
  hrn_image image;
  EXPECT(inspect(file.bytes, file.length) == HRN_OK && status.warnings == 0);
  /* One MCU of six blocks, as before. */
  file.bytes[frame + 11] = 0x31;
  file.bytes[frame + 14] = 0x21;
  EXPECT(inspect(file.bytes, file.length) == HRN_UNSUPPORTED);
  EXPECT(decode(context, &file, &image) == HRN_UNSUPPORTED);
  hrn_context_free(context);
  free(file.bytes);
}

/* libjpeg keeps tables from file to file if it can. */
static void pixels_do_not_depend_on_the_file_before(void) {
  image_bytes one = make_jpeg(&r, form("4:2:0"), CODING_PROGRESSIVE, 0, 40, 40, 10);
  image_bytes two = make_jpeg(&r, form("4:2:0"), CODING_PROGRESSIVE, 0, 40, 40, 95);
  hrn_limits limits = hrn_default_limits();
  hrn_image image;
  for (size_t i = 0; i + 1 < two.length; i++) { /* take its Huffman tables away */
    if (two.bytes[i] == 0xFF && two.bytes[i + 1] == 0xC4) two.bytes[i + 1] = 0xFE;
  }
  hrn_context *fresh = hrn_context_new(&limits), *used = hrn_context_new(&limits);
  EXPECT(decode(fresh, &two, &image) == HRN_BAD);
  EXPECT(decode(used, &one, &image) == HRN_OK);
  EXPECT(decode(used, &two, &image) == HRN_BAD);
  EXPECT(decode(used, &one, &image) == HRN_OK);
  hrn_context_free(fresh);
  hrn_context_free(used);
  free(one.bytes);
  free(two.bytes);
}

/* ---- PPM ---- */

static void ppm_headers_get_the_verdict_that_they_deserve(void) {
  static const struct {
    const char *file;
    int code;
    uint32_t width, height;
  } files[] = {
      {"P6 2 1 255 rgbrgb", HRN_OK, 2, 1},
      {"P5\n2\v3\f255\rabcdef", HRN_OK, 2, 3},
      {"P6#no comment here\n2 1 255 rgbrgb", HRN_BAD, 0, 0},
      {"P6 #2 3\n 2 # 4\r1\n#\n255\nrgbrgb and more", HRN_OK, 2, 1},
      {"P6 1#2\n0 1 255 0123456789abcdef0123456789abcd", HRN_OK, 10, 1},
      {"P6 2 1 255 rgbrg", HRN_TRUNCATED, 2, 1},
      {"P6 2 1 255", HRN_TRUNCATED, 0, 0},
      {"P6 2 1 # 255 rgbrgb", HRN_TRUNCATED, 0, 0},
      {"P6 ", HRN_TRUNCATED, 0, 0},
      {"P6 0 1 255 rgb", HRN_BAD, 0, 0},
      {"P6 -1 1 255 rgb", HRN_BAD, 0, 0},
      {"P6 +1 1 255 rgb", HRN_BAD, 0, 0},
      {"P6 1_0 1 255 rgb", HRN_BAD, 0, 0},
      {"P6 00000000001 1 255 rgb", HRN_BAD, 0, 0},
      {"P6 0000000001 1 255 rgb", HRN_OK, 1, 1},
      {"P6 1 1 0 rgb", HRN_BAD, 0, 0},
      {"P6 1 1 65536 rgb", HRN_BAD, 0, 0},
      {"P6 1 1 65535 rrggbb", HRN_UNSUPPORTED, 0, 0},
      {"P6 1 1 254 rgb", HRN_UNSUPPORTED, 0, 0},
      {"P6 9999999999 9999999999 255 rgb", HRN_LIMIT, 0, 0},
      {"P6 4294967296 1 255 rgb", HRN_LIMIT, 0, 1},
      {"P5 4294967295 1 255 g", HRN_LIMIT, 4294967295u, 1},
      {"P3 1 1 255 1 2 3", HRN_UNSUPPORTED, 0, 0},
      {"P4 8 1 x", HRN_UNSUPPORTED, 0, 0},
      {"P7\nWIDTH 1", HRN_UNSUPPORTED, 0, 0},
      {"P61 1 255 rgb", HRN_BAD, 0, 0},
  };
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    /* Without its last zero: the record ends where the text does. */
    const size_t length = strlen(files[i].file);
    uint8_t *exact = malloc(length);
    if (exact == NULL) abort();
    memcpy(exact, files[i].file, length);
    inspect(exact, length);
    if (status.code != files[i].code || facts.width != files[i].width ||
        facts.height != files[i].height) {
      printf("\"%s\": %d %u x %u, %s\n", files[i].file, status.code, facts.width, facts.height,
             status.text);
      failures++;
    }
    free(exact);
  }
}

static void ppm_cut_in_its_pixels_is_truncated_whatever_the_window(void) {
  image_bytes file = make_ppm(&r, 3, 1, 20, 20);
  hrn_limits limits = hrn_default_limits();
  hrn_context *context = hrn_context_new(&limits);
  EXPECT(inspect(file.bytes, file.length) == HRN_OK && facts.orientation == 6);
  for (size_t cut = 3; cut < file.length; cut++) {
    uint32_t width, height;
    EXPECT(inspect(file.bytes, cut) == HRN_TRUNCATED);
    EXPECT(hrn_decode_header(context, file.bytes, cut, &width, &height, &status) == HRN_TRUNCATED);
    EXPECT(status.offset == (int64_t)cut);
  }
  hrn_context_free(context);
  free(file.bytes);
}

/* ---- orientation ---- */

static void orientation_is_read_in_both_byte_orders_and_nothing_else(void) {
  static const uint8_t little[] = {0xFF, 0xE1, 0, 34, 'E', 'x', 'i', 'f', 0,    0, 'I', 'I',
                                   42,   0,    8, 0,  0,   0,   1,   0,   0x12, 1, 3,   0,
                                   1,    0,    0, 0,  0,   0,   0,   0,   0,    0, 0,   0};
  static const uint8_t big[] = {0xFF, 0xE1, 0, 34, 'E', 'x', 'i', 'f', 0, 0,    'M', 'M',
                                0,    42,   0, 0,  0,   8,   0,   1,   1, 0x12, 0,   3,
                                0,    0,    0, 1,  0,   0,   0,   0,   0, 0,    0,   0};
  image_bytes file = make_jpeg(&r, form("grey"), CODING_BASELINE, 0, 9, 9, 80);
  for (int order = 0; order < 2; order++) {
    const uint8_t *exif = order ? big : little;
    for (int value = 0; value < 12; value++) {
      uint8_t *with = malloc(file.length + 36);
      memcpy(with, file.bytes, 2);
      memcpy(with + 2, exif, 36);
      memcpy(with + 38, file.bytes + 2, file.length - 2);
      with[2 + 28 + order] = (uint8_t)value;
      EXPECT(inspect(with, file.length + 36) == HRN_OK);
      EXPECT(facts.orientation == (value >= 1 && value <= 8 ? value : 0));
      memset(with + 2 + 14, 0xFF, 4); /* a directory far outside */
      EXPECT(inspect(with, file.length + 36) == HRN_OK);
      EXPECT(facts.orientation == 0);
      free(with);
    }
  }
  free(file.bytes);
}

int main(void) {
  jpeg_cut_anywhere_before_its_last_mcu_is_truncated();
  jpeg_without_eoi_is_good_with_a_warning();
  window_above_the_cut_decodes_and_one_below_is_truncated();
  damaged_jpeg_has_one_verdict_when_it_is_inspected_and_when_it_is_decoded_whole();
  png_cut_in_its_image_data_is_truncated();
  pixels_are_limited_before_anything_is_allocated();
  scans_are_limited_and_ten_thousand_end_at_once();
  memory_is_limited_for_coefficients_and_pixels_together();
  record_bytes_are_limited();
  kinds_that_are_not_decoded_are_named();
  file_cut_in_its_signature_is_truncated_whatever_its_kind();
  sampling_is_named_for_every_form();
  png_with_a_wrong_checksum_is_bad();
  jpeg_with_a_code_of_ones_alone_is_bad_when_it_is_inspected_and_when_decoded();
  jpeg_sampled_in_fractions_is_unsupported_when_it_is_inspected_and_when_decoded();
  pixels_do_not_depend_on_the_file_before();
  ppm_headers_get_the_verdict_that_they_deserve();
  ppm_cut_in_its_pixels_is_truncated_whatever_the_window();
  orientation_is_read_in_both_byte_orders_and_nothing_else();
  printf("%d statements failed\n", failures);
  return failures != 0;
}
