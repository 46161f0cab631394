/* costs.c: a JPEG that may cost too much is refused from its headers, by every call that decodes.
 *
 * Each function is one statement; a failed one says its line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../native.h"
#include "images.h"

static int failures;
static random_state r = {.state = 5};
static hrn_status status;
static hrn_facts facts;

#define EXPECT(condition)                       \
  do {                                          \
    if (!(condition)) {                         \
      complain(__LINE__, __func__, #condition); \
      return;                                   \
    }                                           \
  } while (0)

static void complain(int line, const char *statement, const char *condition) {
  failures++;
  printf("costs.c:%d: %s: not true: %s (code %d: %s)\n", line, statement, condition, status.code,
         status.text);
}

/* ---- doors ---- */

enum door { INSPECT, WHOLE, CROP, FAST, SAMPLE, BASELINE, ANEW, RAW, DOORS };

static int window(hrn_context *context, const image_bytes *file, int rows, int fast) {
  uint32_t width, height;
  hrn_image image;
  if (hrn_decode_header(context, file->bytes, file->length, &width, &height, &status) != HRN_OK) {
    return status.code;
  }
  hrn_box box = {0, 0, (int32_t)width, rows > 0 ? rows : (int32_t)height};
  if (fast) {
    const int32_t by = hrn_decode_fast(context, 2);
    box.width = (box.width + by - 1) / by;
    box.height = 1;
  }
  return hrn_decode_window(context, &box, &image, &status);
}

static int sample(hrn_context *context, const image_bytes *file) {
  const hrn_op op = {.kind = HRN_OP_RESIZE, .filter = HRN_BILINEAR, .size = {8, 8}};
  const hrn_output output = {.dtype = HRN_UINT8};
  uint8_t pixels[8 * 8 * 3];
  hrn_plan *plan = hrn_plan_new(&op, 1, &output, &status);
  const hrn_job job = {.bytes = file->bytes,
                       .length = file->length,
                       .view_count = 1,
                       .views = {{plan, pixels, sizeof pixels}}};
  hrn_sample(context, &job, &status);
  hrn_plan_free(plan);
  return status.code;
}

static int enter(enum door door, const hrn_limits *limits, const image_bytes *file) {
  hrn_context *context = hrn_context_new(limits);
  const uint8_t *bytes = file->bytes;
  const size_t length = file->length;
  hrn_encoded made;
  switch (door) {
    case INSPECT:
      hrn_inspect(context, bytes, length, HRN_ENTROPY, &facts, &status);
      break;
    case WHOLE:
      window(context, file, 0, 0);
      break;
    case CROP:
      window(context, file, 1, 0);
      break;
    case FAST:
      window(context, file, 0, 1);
      break;
    case SAMPLE:
      sample(context, file);
      break;
    case BASELINE:
      hrn_to_baseline(context, bytes, length, &made, &status);
      break;
    case ANEW:
      hrn_reencode(context, bytes, length, 8, 90, 0, &made, &status);
      break;
    default:
      hrn_to_ppm(context, bytes, length, 0, 0, &made, &status);
      break;
  }
  hrn_context_free(context);
  return status.code;
}

/* ---- statements ---- */

static void a_block_too_many_is_refused_through_every_door_and_the_last_one_taken(void) {
  static const enum jpeg_coding codings[] = {CODING_BASELINE, CODING_PROGRESSIVE,
                                             CODING_SEPARATE_SCANS, CODING_ARITHMETIC};
  for (int form = 0; form < jpeg_form_count; form++) {
    for (int coding = 0; coding < 4; coding++) {
      image_bytes file = make_jpeg(&r, &jpeg_forms[form], codings[coding], 0, 70, 50, 60);
      if (file.length == 0) continue;
      hrn_limits limits = hrn_default_limits();
      uint64_t refused = 1, taken = limits.max_scan_blocks;
      while (taken - refused > 1) {
        limits.max_scan_blocks = refused + (taken - refused) / 2;
        if (enter(INSPECT, &limits, &file) == HRN_OK) {
          taken = limits.max_scan_blocks;
        } else {
          EXPECT(status.code == HRN_LIMIT);
          refused = limits.max_scan_blocks;
        }
      }
      for (int door = 0; door < DOORS; door++) {
        /* A baseline file is left alone before anybody looks at its scans. */
        const int looks = door != BASELINE || facts.process != HRN_PROCESS_BASELINE;
        limits.max_scan_blocks = taken;
        /* BAD, because as a baseline file it would need several scans. */
        EXPECT(enter((enum door)door, &limits, &file) == HRN_OK || status.code == HRN_BAD);
        limits.max_scan_blocks = refused;
        EXPECT(!looks || enter((enum door)door, &limits, &file) == HRN_LIMIT);
        EXPECT(!looks || strstr(status.text, "max_scan_blocks") != NULL);
      }
      free(file.bytes);
    }
  }
}

/* The file up to its first scan's header, with another size in its frame. */
static image_bytes header_of(enum jpeg_coding coding, uint32_t side) {
  image_bytes file = make_jpeg(&r, &jpeg_forms[0], coding, 0, 16, 16, 75);
  for (size_t at = 2; at + 9 < file.length; at++) {
    const uint8_t *p = file.bytes + at;
    if (p[0] == 0xFF && (p[1] == 0xC2 || p[1] == 0xC9) && p[2] == 0) {
      const uint8_t size[4] = {(uint8_t)(side >> 8), (uint8_t)side, (uint8_t)(side >> 8),
                               (uint8_t)side};
      memcpy(file.bytes + at + 5, size, 4);
    }
    if (p[0] == 0xFF && p[1] == 0xDA) file.length = at + 2 + p[3];
  }
  return file;
}

/* Without a byte of image data every file would be truncated, if reading the data had begun. */
static void what_the_header_tells_is_refused_before_image_data_is_read(void) {
  const struct {
    enum jpeg_coding coding;
    uint32_t side;
    uint64_t memory, blocks;
    int code;
    const char *word;
  } cases[] = {
      {CODING_PROGRESSIVE, 9459, 512u << 20, 64u << 20, HRN_LIMIT, "max_decoder_bytes"},
      {CODING_PROGRESSIVE, 512, 512 * 512 / 64 * 128, 64u << 20, HRN_LIMIT, "max_decoder_bytes"},
      {CODING_PROGRESSIVE, 512, 512u << 20, 512 * 512 / 64 - 1, HRN_LIMIT, "max_scan_blocks"},
      {CODING_ARITHMETIC, 8200, 512u << 20, 64u << 20, HRN_LIMIT, "max_scan_blocks"},
      {CODING_PROGRESSIVE, 512, 512u << 20, 64u << 20, HRN_TRUNCATED, "truncated"},
      {CODING_ARITHMETIC, 512, 512u << 20, 64u << 20, HRN_TRUNCATED, "truncated"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    image_bytes file = header_of(cases[i].coding, cases[i].side);
    hrn_limits limits = hrn_default_limits();
    limits.max_decoder_bytes = cases[i].memory;
    limits.max_scan_blocks = cases[i].blocks;
    for (int door = 0; door < DOORS; door++) {
      /* The second case has room for the coefficients and none for a row. */
      if (i == 1 && (door == INSPECT || door == BASELINE)) continue;
      EXPECT(enter((enum door)door, &limits, &file) == cases[i].code);
      EXPECT(strstr(status.text, cases[i].word) != NULL);
    }
    free(file.bytes);
  }
}

int main(void) {
  a_block_too_many_is_refused_through_every_door_and_the_last_one_taken();
  what_the_header_tells_is_refused_before_image_data_is_read();
  printf("%d statements failed\n", failures);
  return failures != 0;
}
