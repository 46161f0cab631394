/* mutate.c: gives damaged images to the native package; made to run under sanitizers.
 *
 *   mutate [-n COUNT] [-s SEED] [FILE|DIRECTORY ...]
 *
 * Without files it starts from images that it makes itself. Each round damages a copy that ends at
 * the end of its allocation, so that a read of one byte too many is seen. Besides "no report", this
 * must hold: no call returns HRN_INTERNAL; a file that inspection calls good decodes whole without
 * an error or warning; an old context gives the same answer as a new one.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "../native.h"
#include "codes.h"
#include "images.h"
#include "plans.h"

typedef struct corpus {
  image_bytes *items;
  size_t count, room;
} corpus;

static void add(corpus *c, image_bytes item) {
  if (c->count == c->room) {
    c->room = c->room == 0 ? 64 : 2 * c->room;
    c->items = realloc(c->items, c->room * sizeof *c->items);
    if (c->items == NULL) abort();
  }
  c->items[c->count++] = item;
}

static void add_path(corpus *c, const char *path) {
  struct stat about;
  if (stat(path, &about) != 0) {
    perror(path);
    exit(2);
  }
  if (S_ISDIR(about.st_mode)) {
    DIR *directory = opendir(path);
    struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
      char inner[4096];
      if (entry->d_name[0] == '.') continue;
      snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
      add_path(c, inner);
    }
    if (directory != NULL) closedir(directory);
    return;
  }
  FILE *file = fopen(path, "rb");
  image_bytes item = {malloc((size_t)about.st_size + 1), (size_t)about.st_size};
  if (file == NULL || fread(item.bytes, 1, item.length, file) != item.length) {
    perror(path);
    exit(2);
  }
  fclose(file);
  add(c, item);
}

/* ---- damage ---- */

/* Headers are short and decide most, so they are hit half of the time. */
static size_t place(random_state *r, size_t length) {
  size_t head = length < 700 ? length : 700;
  return random_below(r, 2) == 0 ? random_below(r, head) : random_below(r, length);
}

static void damage_once(random_state *r, image_bytes *b) {
  if (b->length < 4) return;
  size_t at = place(r, b->length), left = b->length - at;
  size_t run = 1 + random_below(r, left < 40 ? left : 40);
  switch (random_below(r, 9)) {
    case 0:
    case 1:
      b->bytes[at] ^= (uint8_t)(1u << random_below(r, 8));
      break;
    case 2:
      b->bytes[at] = (uint8_t)random_next(r);
      break;
    case 3: /* values that lengths and counts fail on */
      b->bytes[at] = "\x00\xFF\x7F\x80\x01\xFE"[random_below(r, 6)];
      break;
    case 4:
      b->length = at + 1;
      break;
    case 5: /* delete */
      memmove(b->bytes + at, b->bytes + at + run, left - run);
      b->length -= run;
      break;
    case 6: /* repeat; there is room for it */
      memmove(b->bytes + at + run, b->bytes + at, left);
      b->length += run;
      break;
    case 7: /* copy from elsewhere */
      memmove(b->bytes + at, b->bytes + random_below(r, b->length - run + 1), run);
      break;
    default: /* a marker: restart, EOI, SOS, DHT, SOF */
      if (left < 2) break;
      b->bytes[at] = 0xFF;
      b->bytes[at + 1] = "\xD0\xD3\xD7\xD9\xDA\xC4\xC0\xC2\xDD\xDB"[random_below(r, 10)];
      break;
  }
}

/* Damages an exact copy. Half of the PNGs get right checksums again, so that the damage gets
 * deeper. */
static image_bytes damaged(random_state *r, const image_bytes *original) {
  enum { ROOM = 16 * 64 };
  image_bytes b = {malloc(original->length + ROOM), original->length};
  if (b.bytes == NULL) abort();
  memcpy(b.bytes, original->bytes, original->length);
  for (uint64_t n = 1 + random_below(r, 6); n > 0; n--) damage_once(r, &b);
  if (random_below(r, 2) == 0) mend_png_checksums(&b);
  uint8_t *exact = malloc(b.length); /* the allocation ends with the file */
  if (exact == NULL) abort();
  memcpy(exact, b.bytes, b.length);
  free(b.bytes);
  b.bytes = exact;
  return b;
}

/* ---- checks ---- */

static image_bytes current;
static uint64_t round_number;

static void fail(const char *what, const hrn_status *status) {
  fprintf(stderr, "round %llu: %s: code %d, %u warnings, %s\n", (unsigned long long)round_number,
          what, status->code, status->warnings, status->text);
  FILE *file = fopen("mutate-failure.bin", "wb");
  if (file != NULL) {
    fwrite(current.bytes, 1, current.length, file);
    fclose(file);
  }
  abort();
}

/* Decodes a box; the answer is a checksum of code and pixels. */
static uint32_t decode(hrn_context *context, const hrn_box *wish, hrn_status *status) {
  uint32_t width, height;
  hrn_image image;
  int code = hrn_decode_header(context, current.bytes, current.length, &width, &height, status);
  if (code == HRN_OK) {
    hrn_box box = {0, 0, (int32_t)width, (int32_t)height};
    if (wish != NULL) {
      box.left = wish->left % box.width;
      box.top = wish->top % box.height;
      box.width = 1 + wish->width % (box.width - box.left);
      box.height = 1 + wish->height % (box.height - box.top);
    }
    code = hrn_decode_window(context, &box, &image, status);
  }
  if (code == HRN_INTERNAL) fail("decode", status);
  uint32_t sum = hrn_crc32c(0, (const uint8_t *)&code, sizeof code);
  if (code != HRN_OK) return sum;
  for (int32_t y = 0; y < image.height; y++) {
    for (int32_t x = 0; x < image.width; x++) {
      sum = hrn_crc32c(sum, image.pixels + (size_t)y * image.stride + (size_t)x * 4, 3);
    }
  }
  return sum;
}

static uint64_t answers[CODES];

enum { PLANS = 40 };
static hrn_plan *plans[PLANS];

/* Makes a finished sample, in memory that ends where the sample does, with the points that
 * inspection found. */
static void sample(hrn_context *context, random_state *r, const hrn_facts *facts,
                   const image_bytes *points) {
  const hrn_plan *plan = plans[random_below(r, PLANS)];
  hrn_size size;
  hrn_status status;
  if (facts->width == 0 || facts->height == 0 ||
      hrn_plan_size(plan, facts->width, facts->height, &size, &status) != HRN_OK ||
      size.bytes > 16 << 20) {
    size.bytes = 1;
  }
  uint8_t *to = malloc(size.bytes);
  if (to == NULL) abort();
  const hrn_job job = {.bytes = current.bytes,
                       .length = current.length,
                       .key = {round_number, 0, 0, 0, 0},
                       .seek = points->bytes,
                       .seek_length = points->length,
                       .view_count = 1,
                       .views = {{plan, to, size.bytes}}};
  if (hrn_sample(context, &job, &status) == HRN_INTERNAL) fail("hrn_sample", &status);
  free(to);
}

/* Moves the file as the mask of an image of its size, as a whole and through a window. What both
 * show must be the same. */
static void mask(hrn_context *context, const hrn_facts *facts, const hrn_box *wish) {
  if (facts->width == 0 || facts->height == 0 || (uint64_t)facts->width * facts->height > 1 << 20) {
    return;
  }
  const int32_t width = (int32_t)facts->width, height = (int32_t)facts->height;
  const int32_t left = wish->left % width, top = wish->top % height;
  const int32_t wide = 1 + wish->width % (width - left), high = 1 + wish->height % (height - top);
  uint8_t *all = malloc((size_t)width * (size_t)height);
  uint8_t *part = malloc((size_t)wide * (size_t)high);
  if (all == NULL || part == NULL) abort();
  const hrn_drawn crop = {.width = width,
                          .height = height,
                          .op = {.kind = HRN_OP_CROP, .box = {top, left, high, wide}}};
  hrn_mask work = {.file = current.bytes,
                   .length = current.length,
                   .width = width,
                   .height = height,
                   .to_width = width,
                   .to_height = height,
                   .to = all};
  hrn_status whole, seen;
  if (hrn_move_mask(context, NULL, 0, &work, &whole) == HRN_INTERNAL) fail("a mask", &whole);
  work.to_width = wide;
  work.to_height = high;
  work.to = part;
  hrn_move_mask(context, &crop, 1, &work, &seen);
  if (seen.code == HRN_INTERNAL || (whole.code == HRN_OK && seen.code != HRN_OK)) {
    fail("a window of a mask", &seen);
  }
  for (int32_t y = 0; whole.code == HRN_OK && y < high; y++) {
    const uint8_t *row = all + (size_t)(top + y) * (size_t)width + left;
    if (memcmp(row, part + (size_t)y * (size_t)wide, (size_t)wide) != 0) {
      fail("a window of a mask shows something else", &seen);
    }
  }
  free(all);
  free(part);
}

static void check(hrn_context *context, const hrn_limits *limits, random_state *r) {
  hrn_facts facts;
  hrn_status verdict, status;
  const uint8_t *seek;
  image_bytes points = {NULL, 0};
  hrn_inspect_seek(context, current.bytes, current.length, HRN_SEEK_STEP, &facts, &seek,
                   &points.length, &verdict);
  if (seek != NULL) {
    points.bytes = malloc(points.length);
    if (points.bytes == NULL) abort();
    memcpy(points.bytes, seek, points.length);
  }
  if (verdict.code == HRN_INTERNAL) fail("inspect", &verdict);
  answers[verdict.code]++;
  sample(context, r, &facts, &points);
  free(points.bytes);

  uint32_t old = decode(context, NULL, &status);
  if (verdict.code == HRN_OK && verdict.warnings == 0 &&
      (status.code != HRN_OK || status.warnings != 0)) {
    fail("inspection calls it good, decoding does not", &status);
  }
  hrn_box box = {(int32_t)(random_next(r) >> 33), (int32_t)(random_next(r) >> 33),
                 (int32_t)(random_next(r) >> 33), (int32_t)(random_next(r) >> 33)};
  decode(context, &box, &status);
  if (verdict.code == HRN_OK && status.code != HRN_OK) fail("a window of a good file", &status);
  mask(context, &facts, &box);

  if (round_number % 16 == 0) {
    hrn_context *fresh = hrn_context_new(limits);
    if (fresh == NULL) abort();
    if (decode(fresh, NULL, &status) != old) fail("an old context answers otherwise", &status);
    hrn_context_free(fresh);
  }
}

int main(int count, char **arguments) {
  uint64_t rounds = 10000, seed = 1;
  corpus c = {NULL, 0, 0};
  for (int i = 1; i < count; i++) {
    if (strcmp(arguments[i], "-n") == 0 && i + 1 < count) {
      rounds = strtoull(arguments[++i], NULL, 10);
    } else if (strcmp(arguments[i], "-s") == 0 && i + 1 < count) {
      seed = strtoull(arguments[++i], NULL, 10);
    } else {
      add_path(&c, arguments[i]);
    }
  }
  random_state r = random_seeded(seed);
  if (c.count == 0) {
    for (int i = 0; i < 400; i++) add(&c, made_image(&r));
  }
  hrn_limits limits = hrn_default_limits();
  for (int i = 0; i < PLANS; i++) plans[i] = some_plan(&r);
  limits.max_pixels = 4000000;
  limits.max_decoder_bytes = 64 << 20;
  hrn_context *context = hrn_context_new(&limits);
  if (context == NULL) abort();
  for (round_number = 0; round_number < rounds; round_number++) {
    current = damaged(&r, &c.items[random_below(&r, c.count)]);
    check(context, &limits, &r);
    free(current.bytes);
  }
  hrn_context_free(context);
  for (int i = 0; i < PLANS; i++) hrn_plan_free(plans[i]);
  printf("%llu damaged images:", (unsigned long long)rounds);
  print_codes(answers);
  printf("\n");
  for (size_t i = 0; i < c.count; i++) free(c.items[i].bytes);
  free(c.items);
  return 0;
}
