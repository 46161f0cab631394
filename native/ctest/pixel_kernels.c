/* pixel_kernels.c: every instruction set gives the scalar loops' bytes for ops on pixels, and stays
 * inside its buffers, which are allocations of their own. Hue is compared over every colour.
 *
 *   pixel_kernels [-n ROUNDS]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../pixels/kernels.h"
#include "random.h"

static const hrn_pixel_kernels *plain, *simd;

static void *allocate(size_t bytes) {
  void *memory = malloc(bytes);
  if (memory == NULL) abort();
  return memory;
}

/* Noise; shades, whose channels are often alike; or black and white. */
static void fill(random_state *r, uint8_t *memory, size_t bytes) {
  const uint64_t kind = random_below(r, 3);
  for (size_t i = 0; i < bytes; i++) {
    const uint8_t byte = (uint8_t)random_next(r);
    memory[i] = kind == 0 ? byte : kind == 1 ? (uint8_t)(i / 64 + byte % 3) : byte & 1 ? 255 : 0;
  }
}

static uint8_t *some_pixels(random_state *r, size_t count) {
  uint8_t *memory = allocate(4 * count);
  fill(r, memory, 4 * count);
  return memory;
}

static uint8_t *copy_of(const uint8_t *pixels, size_t count) {
  return memcpy(allocate(4 * count), pixels, 4 * count);
}

static size_t some_count(random_state *r) { return 1 + random_below(r, 70); }

/* Factors as people use them, at the ends and far beyond. */
static float some_factor(random_state *r) {
  static const float special[] = {0, 1, 2, 1e9f, 0.5f, 255};
  const float unit = (float)random_below(r, 1 << 24) * 0x1p-24f;
  return random_below(r, 4) ? 3 * unit : special[random_below(r, 6)];
}

/* 1 if the first three bytes of a pixel differ. Frees both. */
static int differ(const char *what, uint8_t *a, uint8_t *b, size_t count) {
  int found = 0;
  for (size_t i = 0; i < count && !found; i++) {
    if (memcmp(a + 4 * i, b + 4 * i, 3) == 0) continue;
    fprintf(stderr, "%s: pixel %zu of %zu: %d %d %d, scalar %d %d %d\n", what, i, count, b[4 * i],
            b[4 * i + 1], b[4 * i + 2], a[4 * i], a[4 * i + 1], a[4 * i + 2]);
    found = 1;
  }
  free(a), free(b);
  return found;
}

static int enhance_round(random_state *r) {
  const size_t count = some_count(r);
  uint8_t *in = some_pixels(r, count), *a[3], *b[3];
  for (int k = 0; k < 3; k++) a[k] = copy_of(in, count), b[k] = copy_of(in, count);
  const float factor = some_factor(r);
  const int32_t from = (int32_t)random_below(r, 256);
  plain->blend(a[0], count, from, factor), simd->blend(b[0], count, from, factor);
  plain->saturate(a[1], count, factor), simd->saturate(b[1], count, factor);
  plain->turn_grey(a[2], count), simd->turn_grey(b[2], count);
  int bad = plain->sum_grey(in, count) != simd->sum_grey(in, count);
  if (bad) fprintf(stderr, "sum_grey\n");
  bad += differ("blend", a[0], b[0], count) + differ("saturate", a[1], b[1], count) +
         differ("turn_grey", a[2], b[2], count);
  free(in);
  return bad;
}

static int extremes_round(random_state *r) {
  const size_t count = some_count(r);
  uint8_t *in = some_pixels(r, count), range[2][8];
  /* There is no range yet, or that of the pixels before these. */
  const int first = random_below(r, 2) == 0;
  for (int k = 0; k < 2; k++) {
    memset(range[k], first ? 255 : 100, 4);
    memset(range[k] + 4, first ? 0 : 100, 4);
  }
  plain->extremes(in, count, range[0], range[0] + 4);
  simd->extremes(in, count, range[1], range[1] + 4);
  free(in);
  const int bad = memcmp(range[0], range[1], 3) != 0 || memcmp(range[0] + 4, range[1] + 4, 3) != 0;
  if (bad) fprintf(stderr, "extremes of %zu pixels\n", count);
  return bad;
}

static int hue_round(random_state *r) {
  const size_t count = some_count(r);
  uint8_t *a = some_pixels(r, count), *b = copy_of(a, count);
  const uint8_t turn = (uint8_t)random_next(r);
  plain->turn_hue(a, count, turn), simd->turn_hue(b, count, turn);
  return differ("turn_hue", a, b, count);
}

static int sharpen_round(random_state *r) {
  const size_t count = some_count(r), row = 4 * (count + 2);
  uint8_t *in[3], *a = allocate(4 * count), *b = allocate(4 * count);
  for (int k = 0; k < 3; k++) in[k] = some_pixels(r, count + 2);
  if (random_below(r, 4) == 0) memset(in[0], 255, row), memset(in[1], 255, row);
  const float factor = some_factor(r);
  plain->sharpen(in[0] + 4, in[1] + 4, in[2] + 4, count, factor, a);
  simd->sharpen(in[0] + 4, in[1] + 4, in[2] + 4, count, factor, b);
  for (int k = 0; k < 3; k++) free(in[k]);
  return differ("sharpen", a, b, count);
}

static int32_t some_kernel(random_state *r, size_t length, size_t most) {
  const size_t bound = 2 * length - 1 < most ? 2 * length - 1 : most;
  return 1 + 2 * (int32_t)random_below(r, bound / 2 + 1);
}

/* Makes values of an image again, in doubt or not, with a kernel as large as the image allows. */
static int blur_again_round(random_state *r) {
  enum { MOST = 9, STEP = 12 };
  const size_t width = some_count(r), height = 1 + random_below(r, 20);
  const size_t beside = random_below(r, 3), count = height * (width + beside);
  float weight[MOST * STEP] = {0};
  hrn_blur_window window = {.width = (int32_t)width, .height = (int32_t)height, .weight = weight};
  window.stride = window.out_stride = 4 * (width + beside);
  window.across = some_kernel(r, width, MOST), window.down = some_kernel(r, height, MOST);
  window.step = (window.across + HRN_BLUR_STEP - 1) / HRN_BLUR_STEP * HRN_BLUR_STEP;
  for (int32_t j = 0; j < window.down; j++) {
    for (int32_t k = 0; k < window.across; k++) {
      const float part = 1 / (float)(window.down * window.across);
      weight[j * window.step + k] = (float)random_below(r, 1 << 20) * 0x1p-20f * part;
    }
  }
  hrn_blur_value *value = allocate(3 * width * height * sizeof *value);
  size_t values = 0;
  const uint64_t one_in = 1 + random_below(r, 50);
  for (size_t n = 0; n < 3 * width * height; n++) {
    if (random_below(r, one_in) != 0) continue;
    value[values++] = (hrn_blur_value){(int32_t)(n / 3 / width), (uint32_t)(n % (3 * width))};
  }
  uint8_t *in = some_pixels(r, count), *a = some_pixels(r, count), *b = copy_of(a, count);
  window.pixels = in, window.out = a;
  plain->blur_again(&window, value, values);
  window.out = b;
  simd->blur_again(&window, value, values);
  free(in), free(value);
  return differ("blur_again", a, b, count);
}

/* Compares the values of rows, their sums across, and the sums of those, of which some are in
 * doubt. */
static int blur_round(random_state *r) {
  enum { MOST = 25 };
  const size_t count = some_count(r);
  const int32_t size = 1 + 2 * (int32_t)random_below(r, MOST / 2 + 1);
  const size_t line = count + (size_t)size - 1;
  float weight[MOST], all = 0, *values[2], *sums[2];
  const float *row[MOST];
  for (int32_t k = 0; k < size; k++) {
    weight[k] = (float)random_below(r, 1 << 20) * (random_below(r, 4) ? 1 : 1e-12f);
    all += weight[k];
  }
  for (int32_t k = 0; k < size; k++) weight[k] = all > 0 ? weight[k] / all * 0.999999f : 0;
  for (int k = 0; k < 2; k++) {
    values[k] = allocate(12 * line);
    sums[k] = allocate(12 * count * (size_t)size);
  }
  int bad = 0;
  for (int32_t k = 0; k < size; k++) {
    uint8_t *pixels = some_pixels(r, line);
    plain->blur_open(pixels, line, values[0]), simd->blur_open(pixels, line, values[1]);
    bad |= memcmp(values[0], values[1], 12 * line) != 0;
    const size_t at = 3 * count * (size_t)k;
    plain->blur_across(values[0], weight, size, count, sums[0] + at);
    simd->blur_across(values[0], weight, size, count, sums[1] + at);
    bad |= memcmp(sums[0] + at, sums[1] + at, 12 * count) != 0;
    row[k] = sums[0] + at;
    free(pixels);
  }
  if (bad) fprintf(stderr, "blur_open, blur_across: %zu pixels, %d weights\n", count, size);
  uint8_t *a = allocate(4 * count), *b = allocate(4 * count);
  uint32_t *doubtful[2] = {allocate(12 * count), allocate(12 * count)};
  const hrn_blur_doubt doubt = {(float)random_below(r, 3) * 1e-3f,
                                0.5f - (float)random_below(r, 3) * 0.2f};
  const size_t first = random_below(r, 4) ? 0 : random_below(r, count);
  fill(r, a, 4 * count), memcpy(b, a, 4 * count);
  const size_t doubts = plain->blur_down(row, weight, size, first, count, doubt, a, doubtful[0]);
  if (simd->blur_down(row, weight, size, first, count, doubt, b, doubtful[1]) != doubts ||
      memcmp(doubtful[0], doubtful[1], doubts * sizeof(uint32_t)) != 0) {
    fprintf(stderr, "blur_down: %zu values in doubt\n", doubts);
    bad = 1;
  }
  bad += differ("blur_down", a, b, count);
  for (int k = 0; k < 2; k++) free(values[k]), free(sums[k]), free(doubtful[k]);
  return bad;
}

static int64_t some_place(random_state *r, int32_t length) {
  static const int64_t far[] = {1, 40, (int64_t)1 << 31, (int64_t)1 << 40};
  const int64_t reach = random_below(r, 4) ? 2 * length : far[random_below(r, 4)];
  return (int64_t)random_below(r, 2 * (uint64_t)reach * 65536) - reach * 65536;
}

static int nearest_round(random_state *r) {
  hrn_nearest_row row = {.width = (int32_t)some_count(r), .height = (int32_t)some_count(r)};
  /* A window of wider rows, the last of which ends with the window. */
  const size_t beside = random_below(r, 3), count = some_count(r);
  row.stride = 4 * ((size_t)row.width + beside);
  const size_t pixels = (size_t)(row.height - 1) * row.stride / 4 + (size_t)row.width;
  uint8_t *in = some_pixels(r, pixels);
  row.pixels = in;
  fill(r, row.fill, 4);
  row.x = some_place(r, row.width), row.y = some_place(r, row.height);
  row.step_x = some_place(r, 1), row.step_y = random_below(r, 3) ? some_place(r, 1) : 0;
  uint8_t *a = allocate(4 * count), *b = allocate(4 * count);
  plain->nearest(&row, count, a), simd->nearest(&row, count, b);
  free(in);
  return differ("nearest", a, b, count);
}

/* A place inside, on a pixel's edge or middle, on the border or beyond it, or nowhere. */
static double some_double_place(random_state *r, int32_t length) {
  const double whole = (double)random_below(r, (uint64_t)length + 4) - 2;
  switch (random_below(r, 8)) {
    case 0:
      return whole;
    case 1:
      return whole + 0.5;
    case 2:
      return random_below(r, 2) ? nextafter(whole, -1e9) : nextafter(whole + 0.5, -1e9);
    case 3:
      return random_below(r, 4) ? whole : random_below(r, 2) ? NAN : 1e300;
    default:
      return whole + (double)random_below(r, 1ull << 40) * 0x1p-40;
  }
}

static int filter_round(random_state *r) {
  enum { MOST = 70 };
  double x[MOST], y[MOST];
  hrn_places places = {.width = (int32_t)some_count(r), .height = (int32_t)some_count(r)};
  if (random_below(r, 4) == 0) places.width = 1 + (int32_t)random_below(r, 4);
  if (random_below(r, 4) == 0) places.height = 1 + (int32_t)random_below(r, 4);
  const size_t beside = random_below(r, 3), count = some_count(r);
  places.stride = 4 * ((size_t)places.width + beside);
  const size_t pixels = (size_t)(places.height - 1) * places.stride / 4 + (size_t)places.width;
  uint8_t *in = some_pixels(r, pixels), *fill = some_pixels(r, count);
  for (size_t k = 0; k < count; k++) {
    x[k] = some_double_place(r, places.width);
    y[k] = some_double_place(r, places.height);
  }
  places.pixels = in, places.x = x, places.y = y;
  uint8_t *a[2], *b[2];
  for (int k = 0; k < 2; k++) a[k] = copy_of(fill, count), b[k] = copy_of(fill, count);
  plain->bilinear(&places, count, a[0]), simd->bilinear(&places, count, b[0]);
  plain->bicubic(&places, count, a[1]), simd->bicubic(&places, count, b[1]);
  free(in), free(fill);
  return differ("bilinear", a[0], b[0], count) + differ("bicubic", a[1], b[1], count);
}

/* Compares all 2^24 colours, in rows of one red and green. Each red has a turn of its own, the
 * first one none. */
static int every_hue(void) {
  enum { ROW = 256 * 256 };
  for (uint32_t red = 0; red < 256; red++) {
    uint8_t *a = allocate(4 * ROW);
    for (uint32_t k = 0; k < ROW; k++) {
      const uint8_t pixel[4] = {(uint8_t)red, (uint8_t)(k >> 8), (uint8_t)k, 255};
      memcpy(a + 4 * (size_t)k, pixel, 4);
    }
    uint8_t *b = copy_of(a, ROW);
    const uint8_t turn = (uint8_t)(red * 37);
    plain->turn_hue(a, ROW, turn), simd->turn_hue(b, ROW, turn);
    if (differ("every hue", a, b, ROW)) return 1;
  }
  return 0;
}

int main(int count, char **arguments) {
  uint64_t rounds = 5000;
  if (count == 3 && strcmp(arguments[1], "-n") == 0) rounds = strtoull(arguments[2], NULL, 10);
  const enum hrn_level other = hrn_cpu_level_named("avx2");
  if (other == HRN_LEVELS) {
    puts("this CPU has no other instruction set than scalar");
    return 0;
  }
  plain = &hrn_pixel_kernels_of[HRN_LEVEL_SCALAR];
  simd = &hrn_pixel_kernels_of[other];
  random_state r = random_seeded(11);
  for (uint64_t round = 0; round < rounds; round++) {
    if (enhance_round(&r) + extremes_round(&r) + hue_round(&r) + sharpen_round(&r) +
            blur_round(&r) + blur_again_round(&r) + nearest_round(&r) + filter_round(&r) !=
        0) {
      fprintf(stderr, "round %llu\n", (unsigned long long)round);
      return 1;
    }
  }
  if (every_hue()) return 1;
  printf("%llu rounds and every colour equal\n", (unsigned long long)rounds);
  return 0;
}
