/* irregular.c: entropy data that no encoder writes gets libjpeg's verdict and pixels.
 *
 *   irregular [-n ROUNDS] [-s SEED]
 *
 * The files are written here bit by bit, with tables that have a code for every symbol. For each
 * kind of irregularity: our decoder notices it, the decode begins anew, whole images and windows
 * equal libjpeg's, warnings included, and inspection finds no seek points.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../jpeg/hook.h"
#include "reference.h"
#include "strips.h"

enum kind {
  REGULAR,
  BAD_CODE,
  SIZE_ZERO, /* AC symbols 0x10 to 0xE0 */
  PAST_63,
  ZEROS_PAST_63,
  LARGE_AC,
  LARGE_DC,
  DC_RANGE,
  EARLY_MARKER,
  CUT,
  WRONG_RESTART,
  NO_RESTART,
  FILL_BYTES,
  BYTES_BEFORE_RESTART,
  KINDS
};
static const char *const names[] = {"regular",       "bad code",
                                    "AC of size 0",  "k past 63",
                                    "zeros past 63", "large AC",
                                    "large DC",      "DC range",
                                    "marker",        "cut",
                                    "wrong restart", "no restart",
                                    "fill bytes",    "bytes before a restart"};

typedef struct writer {
  uint8_t bytes[1 << 17];
  size_t length;
  uint32_t bits;
  int count; /* bits not yet written */
  int long_code;
  uint32_t zeros; /* the AC symbol whose code is eight zeros */
} writer;

static writer w;
static int failures;
static long noticed[KINDS], files[KINDS];

/* ---- writing ---- */

static void byte(int value) {
  if (w.length == sizeof w.bytes) abort();
  w.bytes[w.length++] = (uint8_t)value;
}

static void bytes(const char *from, size_t length) {
  for (size_t i = 0; i < length; i++) byte(from[i]);
}

static void put(uint32_t value, int count) {
  for (int i = count - 1; i >= 0; i--) {
    w.bits = w.bits << 1 | (value >> i & 1);
    if (++w.count < 8) continue;
    byte((int)(w.bits & 255));
    if ((w.bits & 255) == 255) byte(0);
    w.count = 0;
  }
}

static void align(uint32_t with) {
  while (w.count != 0) put(with, 1);
}

/* There are 16 DC codes of 5 bits, and 128 AC codes of 8 bits and 128 of `long_code`. Codes that
 * begin with 11 are left over. */
static void tables(void) {
  bytes("\xFF\xC4\0\x23\0", 5);
  for (int length = 1; length <= 16; length++) byte(length == 5 ? 16 : 0);
  for (int symbol = 0; symbol < 16; symbol++) byte(symbol);
  bytes("\xFF\xC4\1\x13\x10", 5);
  for (int length = 1; length <= 16; length++) {
    byte(length == 8 || length == w.long_code ? 128 : 0);
  }
  for (uint32_t code = 0; code < 256; code++) byte((int)(code ^ w.zeros));
}

/* The caller gives the bits of the difference as they are (T.81 F.12). */
static void dc(int size, uint32_t extra) {
  put((uint32_t)size, 5);
  put(extra, size);
}

static void ac(uint32_t symbol, uint32_t extra) {
  const uint32_t code = symbol ^ w.zeros;
  if (code < 128) {
    put(code, 8);
  } else {
    put((128u << (w.long_code - 8)) + code - 128, w.long_code);
  }
  put(extra, (int)(symbol & 15));
}

static void regular_block(random_state *r) {
  const int size = (int)random_below(r, 5);
  dc(size, (uint32_t)random_below(r, 1u << size));
  uint32_t k = 0;
  for (uint64_t n = random_below(r, 12); n > 0; n--) {
    const uint32_t run = (uint32_t)random_below(r, random_below(r, 8) ? 4 : 16);
    const uint32_t ac_size = 1 + (uint32_t)random_below(r, 6);
    if (k + run + 1 > 62) break;
    if (run == 15 && k + 16 < 60 && random_below(r, 2)) {
      ac(0xF0, 0);
      k += 16;
      continue;
    }
    ac(run << 4 | ac_size, (uint32_t)random_below(r, 1u << ac_size));
    k += run + 1;
  }
  ac(0, 0);
}

static void irregular_block(random_state *r, enum kind kind) {
  const uint32_t large = 12 + (uint32_t)random_below(r, 4);
  if (kind == LARGE_DC) {
    dc((int)large, (uint32_t)random_below(r, 1u << large));
  } else {
    dc(2, 1);
  }
  if (kind == BAD_CODE) put(0xFFFF, 16);
  if (kind == SIZE_ZERO) ac((1 + (uint32_t)random_below(r, 14)) << 4, 0);
  if (kind == LARGE_AC) ac((uint32_t)random_below(r, 15) << 4 | large, (1u << large) - 1);
  if (kind == PAST_63 || kind == ZEROS_PAST_63) {
    for (int i = 0; i < 60; i++) ac(1, 1);
    ac(kind == PAST_63 ? 0x51 : 0xF0, kind == PAST_63);
  } else if (kind != SIZE_ZERO) {
    ac(0, 0); /* an end of block, of which the others have no need */
  }
}

/* How blocks are divided into restarts or rows does not matter to the data: a run of blocks is a
 * run. */
typedef struct shape {
  int components, h, v; /* sampling factors of the first component */
  uint32_t width, height, restart;
} shape;

/* What is under test: the bytes of `w`, in memory that ends where they do. */
static image_bytes file;

static void write_header(const shape *s) {
  w.length = 0;
  w.count = 0;
  bytes("\xFF\xD8\xFF\xDB\0\x43\0", 7);
  for (int i = 0; i < 64; i++) byte(1 + i / 8);
  bytes("\xFF\xC0\0", 3);
  byte(8 + 3 * s->components);
  byte(8);
  byte((int)(s->height >> 8)), byte((int)s->height), byte((int)(s->width >> 8)),
      byte((int)s->width);
  byte(s->components);
  for (int i = 0; i < s->components; i++) {
    byte(i + 1), byte(i == 0 ? s->h << 4 | s->v : 0x11), byte(0);
  }
  tables();
  if (s->restart > 0) {
    bytes("\xFF\xDD\0\4", 4);
    byte((int)(s->restart >> 8)), byte((int)s->restart);
  }
  bytes("\xFF\xDA\0", 3);
  byte(6 + 2 * s->components), byte(s->components);
  for (int i = 0; i < s->components; i++) byte(i + 1), byte(0);
  bytes("\0\x3F\0", 3);
}

static uint32_t divide_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

static void write_restart(random_state *r, uint32_t number, enum kind kind) {
  align(1);
  if (kind == NO_RESTART) return;
  if (kind == FILL_BYTES) byte(0xFF);
  if (kind == BYTES_BEFORE_RESTART) byte((int)random_below(r, 255)), byte(7);
  byte(0xFF),
      byte(0xD0 + (int)((number + (kind == WRONG_RESTART ? 1 + random_below(r, 6) : 0)) % 8));
}

/* A file with one irregularity of the kind, in or before MCU `where`. */
static void write_file(random_state *r, const shape *s, enum kind kind, uint32_t where) {
  const bool alone = s->components == 1;
  const uint32_t columns = divide_up(s->width, 8 * (uint32_t)(alone ? 1 : s->h));
  const uint32_t mcus = columns * divide_up(s->height, 8 * (uint32_t)(alone ? 1 : s->v));
  const int blocks = alone ? 1 : s->h * s->v + 2;
  int climbed[3] = {0};
  size_t cut = 0;
  write_header(s);
  for (uint32_t mcu = 0; mcu < mcus; mcu++) {
    const bool here = mcu == where;
    if (s->restart > 0 && mcu > 0 && mcu % s->restart == 0) {
      const bool at_restart =
          mcu / s->restart == 1 + where / s->restart % divide_up(mcus, s->restart);
      write_restart(r, mcu / s->restart - 1, at_restart ? kind : REGULAR);
    }
    if (here && kind == EARLY_MARKER) {
      /* Zeros are codes, so with them the data goes on in the padding. */
      const bool last = random_below(r, 2);
      align(last ? 0 : 1), bytes("\xFF\xD9", 2);
      if (last) cut = w.length;
    }
    for (int i = 0; i < blocks; i++) {
      if (kind == DC_RANGE && mcu >= where) {
        /* The DC value goes up to 17 * 2047, one step out of range, and down again. Most points are
         * before or behind that. */
        const int component = alone || i < s->h * s->v ? 0 : i - s->h * s->v + 1;
        dc(11, climbed[component]++ % 34 < 17 ? 2047 : 0), ac(0, 0);
      } else if (here && i == 0 && kind >= BAD_CODE && kind <= LARGE_DC) {
        irregular_block(r, kind);
      } else {
        regular_block(r);
      }
    }
    if (here && kind == CUT) cut = w.length;
  }
  align(1);
  bytes("\xFF\xD9", 2);
  if (cut != 0) w.length = cut;
  file = copy_bytes(w.bytes, w.length);
}

/* ---- what must hold ---- */

static void complain(enum kind kind, const shape *s, const char *what, const hrn_status *status) {
  if (failures++ > 20) return;
  printf("%s, %d components %dx%d, %u x %u, restart %u: %s (code %d, %u warnings, %s)\n",
         names[kind], s->components, s->h, s->v, s->width, s->height, s->restart, what,
         status->code, status->warnings, status->text);
}

/* Decodes a window at once, or as the resizer takes it: rows that were given before the irregular
 * place came are then given again. */
static void compare_once(hrn_context *context, enum kind kind, const shape *s,
                         const reference *whole, const hrn_box *box, bool all, int32_t at_once) {
  uint32_t width, height;
  hrn_image image;
  hrn_status status;
  hrn_decode_header(context, file.bytes, file.length, &width, &height, &status);
  if (at_once > 0) {
    decode_in_strips(context, box, at_once, &image, &status);
  } else {
    hrn_decode_window(context, box, &image, &status);
  }
  if (status.code == HRN_OK) {
    if (all && !whole->dry && status.warnings != whole->warnings) {
      complain(kind, s, "other warnings", &status);
    }
    if (reference_differs(whole, box, &image) >= 0) complain(kind, s, "other pixels", &status);
  } else if (status.code != HRN_TRUNCATED || !whole->dry) {
    complain(kind, s, "another verdict", &status);
  }
  if (at_once > 0) free(image.pixels);
}

static void compare(hrn_context *context, enum kind kind, const shape *s, const reference *whole,
                    const hrn_box *box, bool all) {
  compare_once(context, kind, s, whole, box, all, 0);
  compare_once(context, kind, s, whole, box, all, 2 + (int32_t)s->width % 30);
}

static void test(hrn_context *context, random_state *r, enum kind kind, const shape *s,
                 uint32_t where) {
  write_file(r, s, kind, where);
  reference whole = reference_decode(&file);
  hrn_facts facts;
  hrn_status status;
  const uint8_t *record;
  size_t length;
  hrn_box box = {0, 0, (int32_t)s->width, (int32_t)s->height};
  if (whole.failed) abort(); /* every header of this program is right */
  if (context->jpeg->kept_hook != NULL) context->jpeg->kept_hook->irregular = false;
  compare(context, kind, s, &whole, &box, true);
  const bool lone = s->components == 1 && s->h * s->v > 1;
  const bool irregular = context->jpeg->kept_hook != NULL && context->jpeg->kept_hook->irregular;
  files[kind]++;
  noticed[kind] += irregular;
  if (irregular && (kind == REGULAR || lone)) complain(kind, s, "called irregular", &status);

  hrn_inspect_seek(context, file.bytes, file.length, 1 + (uint32_t)random_below(r, 9), &facts,
                   &record, &length, &status);
  if (irregular && record != NULL) complain(kind, s, "has seek points", &status);
  if (kind == REGULAR && (record != NULL) == lone) complain(kind, s, "points", &status);
  /* Inspection reads on to EOI and may warn of bytes left over there. */
  if (!whole.dry && (status.code != HRN_OK || status.warnings < whole.warnings)) {
    complain(kind, s, "another verdict of inspection", &status);
  }
  for (int n = 0; n < 6; n++) {
    box.width = 1 + (int32_t)random_below(r, s->width);
    box.height = 1 + (int32_t)random_below(r, s->height);
    box.left = (int32_t)random_below(r, s->width - (uint32_t)box.width + 1);
    box.top = (int32_t)random_below(r, s->height - (uint32_t)box.height + 1);
    compare(context, kind, s, &whole, &box, false);
  }
  reference_free(&whole);
  free(file.bytes);
}

int main(int count, char **arguments) {
  long rounds = 6000;
  uint64_t seed = 1;
  for (int i = 1; i + 1 < count; i += 2) {
    if (strcmp(arguments[i], "-n") == 0) rounds = atol(arguments[i + 1]);
    if (strcmp(arguments[i], "-s") == 0) seed = strtoull(arguments[i + 1], NULL, 10);
  }
  static const int shapes[][3] = {{1, 1, 1}, {1, 2, 2}, {1, 2, 1}, {3, 1, 1},
                                  {3, 2, 1}, {3, 2, 2}, {3, 1, 2}, {3, 4, 1}};
  random_state r = random_seeded(seed);
  hrn_limits limits = hrn_default_limits();
  hrn_context *context = hrn_context_new(&limits);
  if (context == NULL) abort();
  for (long n = 0; n < rounds; n++) {
    const enum kind kind = (enum kind)(n % KINDS);
    const int *of = shapes[n / KINDS % 8];
    shape s = {of[0],
               of[1],
               of[2],
               1 + (uint32_t)random_below(&r, 120),
               1 + (uint32_t)random_below(&r, 90),
               0};
    if (random_below(&r, 3) == 0 || kind >= WRONG_RESTART) {
      s.restart = 1 + (uint32_t)random_below(&r, 6);
    }
    if (kind >= WRONG_RESTART || kind == DC_RANGE) s.width += 150, s.height += 30;
    if (kind == DC_RANGE) s.restart = 0;
    w.zeros = random_below(&r, 2) ? 0x8A : 0;   /* end of block, or one in the middle of one */
    w.long_code = random_below(&r, 2) ? 9 : 13; /* inside the index of our tables, and longer */
    const uint32_t columns = divide_up(s.width, 8 * (uint32_t)s.h);
    const uint32_t mcus = columns * divide_up(s.height, 8 * (uint32_t)s.v);
    test(context, &r, kind, &s, (uint32_t)random_below(&r, kind == DC_RANGE ? 1 : mcus));
  }
  hrn_context_free(context);
  for (int kind = 0; kind < KINDS; kind++) {
    printf("%-22s noticed in %ld of %ld files\n", names[kind], noticed[kind], files[kind]);
    /* Lone components with sampling factors of their own, a quarter of the files, are left to
     * libjpeg anyway. */
    if (kind != REGULAR && noticed[kind] < files[kind] / 2) failures++;
  }
  printf("%d statements failed\n", failures);
  return failures != 0;
}
