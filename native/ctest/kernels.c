/* kernels.c: every instruction set gives the scalar kernels' bytes, and stays inside its buffers.
 * Rows are allocations of their own, as long as the interface promises and no longer.
 *
 *   kernels [-n ROUNDS]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../resize/resize.h"
#include "../decode/spread.h"
#include "../write/write.h"
#include "random.h"

/* The kernels of one instruction set. */
typedef struct kernels {
  const char *name;
  const hrn_resize_kernels *resize;
  const hrn_write_kernels *write;
  hrn_spread_kernel spread;
} kernels;

static kernels kernels_of(const char *name, enum hrn_level level) {
  return (kernels){name, &hrn_resize_kernels_of[level], &hrn_write_kernels_of[level],
                   hrn_spread_of[level]};
}

static void *allocate(size_t bytes) {
  void *memory = NULL;
  if (posix_memalign(&memory, 64, bytes) != 0) abort();
  return memory;
}

/* Noise, or black and white, which drives filters with negative lobes to their limits. */
static uint8_t *noise(random_state *r, size_t bytes) {
  uint8_t *memory = allocate(bytes);
  const int extreme = random_below(r, 2) == 0;
  for (size_t i = 0; i < bytes; i++) {
    const uint8_t byte = (uint8_t)random_next(r);
    memory[i] = extreme ? (byte & 1 ? 255 : 0) : byte;
  }
  return memory;
}

static int32_t some_length(random_state *r) {
  static const uint64_t most[] = {4, 40, 400, 4000};
  return 1 + (int32_t)random_below(r, most[random_below(r, 4)]);
}

static int differs(const uint8_t *a, const uint8_t *b, size_t pixels) {
  for (size_t i = 0; i < pixels; i++) {
    if (memcmp(a + 4 * i, b + 4 * i, 3) != 0) return 1; /* the fourth byte is undefined */
  }
  return 0;
}

typedef struct axis {
  hrn_scaling scaling;
  int32_t start, count;
  int filter, bits;
} axis;

static axis some_axis(random_state *r) {
  axis a = {.scaling = {.input = some_length(r), .output = some_length(r)}};
  a.scaling.to = a.scaling.input;
  a.bits = random_below(r, 2) ? HRN_COEFFICIENT_BITS : HRN_FAST_BITS;
  /* For a box that was decoded smaller, a part of the outermost pixels is beside it. */
  if (a.bits == HRN_FAST_BITS && a.scaling.input > 2) {
    a.scaling.from = (double)random_below(r, 8) / 8;
    a.scaling.to -= (double)random_below(r, 8) / 8;
  }
  a.filter = 1 + (int)random_below(r, HRN_TENSOR_BICUBIC);
  a.start = (int32_t)random_below(r, (uint64_t)a.scaling.output);
  a.count = 1 + (int32_t)random_below(r, (uint64_t)(a.scaling.output - a.start));
  return a;
}

static int fail(const char *what, const axis *a) {
  fprintf(stderr, "%s: filter %d, %d bits, %g..%g of %d to %d, outputs %d + %d\n", what, a->filter,
          a->bits, a->scaling.from, a->scaling.to, a->scaling.input, a->scaling.output, a->start,
          a->count);
  return 1;
}

static int horizontal_round(random_state *r, const kernels *plain, const kernels *simd) {
  const axis a = some_axis(r);
  void *memory = allocate(hrn_taps_bytes(&a.scaling, a.filter, a.count));
  hrn_taps taps;
  hrn_taps_build(&taps, &a.scaling, a.filter, a.bits, a.start, a.count, 1, memory);
  simd->resize->arrange(&taps, 1);
  const size_t row = (size_t)taps.input_length * 4 + HRN_ROW_PADDING;
  const size_t out = ((size_t)a.count + 15) / 16 * 64;
  uint8_t *in[2] = {noise(r, row), noise(r, row)};
  uint8_t *results[4];
  for (int i = 0; i < 4; i++) results[i] = allocate(out);
  plain->resize->horizontal(&taps, in[0], in[1], results[0], results[1]);
  simd->resize->horizontal(&taps, in[0], in[1], results[2], results[3]);
  const int bad = differs(results[0], results[2], (size_t)a.count) ||
                  differs(results[1], results[3], (size_t)a.count);
  for (int i = 0; i < 4; i++) free(results[i]);
  free(in[0]), free(in[1]), free(memory);
  return bad ? fail("horizontal", &a) : 0;
}

static int vertical_round(random_state *r, const kernels *plain, const kernels *simd) {
  const axis a = some_axis(r);
  void *memory = allocate(hrn_taps_bytes(&a.scaling, a.filter, a.count));
  hrn_taps taps;
  hrn_taps_build(&taps, &a.scaling, a.filter, a.bits, a.start, a.count, 0, memory);
  simd->resize->arrange(&taps, 0);
  const size_t bytes = 4 * (1 + random_below(r, 50));
  const size_t out = bytes + HRN_ROW_PADDING;
  uint8_t *in = noise(r, (size_t)taps.input_length * bytes + HRN_ROW_PADDING);
  uint8_t *results[2] = {allocate(out), allocate(out)};
  int bad = 0;
  for (int32_t y = 0; y < a.count && !bad; y += 1 + (int32_t)random_below(r, 9)) {
    const uint8_t *first = in + (size_t)taps.start[y] * bytes;
    plain->resize->vertical(&taps, y, first, bytes, results[0], bytes);
    simd->resize->vertical(&taps, y, first, bytes, results[1], bytes);
    bad = memcmp(results[0], results[1], bytes) != 0;
  }
  free(results[0]), free(results[1]), free(in), free(memory);
  return bad ? fail("vertical", &a) : 0;
}

/* Means and deviations as people use them, extreme ones, and ones that make the arithmetic fail. */
static float some_float(random_state *r) {
  static const float usual[] = {0.485f, 0.456f, 0.406f, 0.229f, 0.224f, 0.225f, 0.5f, 1.0f};
  const float unit = (float)(1 + random_below(r, 1u << 24)) * 0x1p-24f;
  switch (random_below(r, 4)) {
    case 0:
      return unit;
    case 1:
      return ldexpf(unit - 0.5f, (int)random_below(r, 250) - 125);
    default:
      return usual[random_below(r, 8)];
  }
}

static int write_round(random_state *r, const kernels *plain, const kernels *simd,
                       uint64_t *by_arithmetic) {
  hrn_output output = {.dtype = (int32_t)random_below(r, 4),
                       .layout = (int32_t)random_below(r, 2),
                       .scale = (int32_t)random_below(r, 2)};
  output.normalize = output.dtype != HRN_UINT8 && random_below(r, 4) != 0;
  for (int c = 0; c < 3; c++) {
    output.mean[c] = some_float(r);
    output.std[c] = some_float(r);
    if (output.std[c] == 0) output.std[c] = 1;
  }
  hrn_format format;
  hrn_format_compile(&format, &output);
  *by_arithmetic += (uint64_t)format.arithmetic;
  const int32_t count = some_length(r) % 500 + 1;
  const int flip = (int)random_below(r, 2);
  const size_t bytes = (size_t)count * 3 * format.element;
  const size_t plane = output.layout == HRN_NCHW ? (size_t)count * format.element : 0;
  const size_t skipped = random_below(r, 40) * format.element; /* rows of a patch begin anywhere */
  uint8_t *in = noise(r, (size_t)count * 4 + HRN_ROW_PADDING);
  uint8_t *results[2] = {allocate(skipped + bytes), allocate(skipped + bytes)};
  for (int k = 0; k < 2; k++) memset(results[k], 0x5a, skipped + bytes);
  plain->write->write(&format, in, count, flip, results[0] + skipped, plane);
  simd->write->write(&format, in, count, flip, results[1] + skipped, plane);
  const int bad = memcmp(results[0], results[1], skipped + bytes) != 0;
  free(results[0]), free(results[1]), free(in);
  if (bad) {
    fprintf(stderr, "write: dtype %d layout %d scale %d normalize %d count %d flip %d\n",
            output.dtype, output.layout, output.scale, output.normalize, count, flip);
  }
  return bad;
}

/* With the numbers that programs normalise by, values are computed and not looked up, even if a
 * quotient is next to a tie. */
static int usual_formats(void) {
  static const float usual[][6] = {
      {0.485f, 0.456f, 0.406f, 0.229f, 0.224f, 0.225f},       /* ImageNet */
      {0.4914f, 0.4822f, 0.4465f, 0.2023f, 0.1994f, 0.201f},  /* CIFAR-10 */
      {0.4914f, 0.4822f, 0.4465f, 0.247f, 0.2435f, 0.2616f},  /* CIFAR-10 */
      {0.5071f, 0.4867f, 0.4408f, 0.2675f, 0.2565f, 0.2761f}, /* CIFAR-100 */
      {0.49f, 0.48f, 0.45f, 0.25f, 0.24f, 0.26f},             /* a tie: (68/255 - 0.48) / 0.24 */
      {0.1307f, 0.1307f, 0.1307f, 0.3081f, 0.3081f, 0.3081f}, /* MNIST */
      {0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f},
  };
  int bad = 0;
  for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
    hrn_output output = {.dtype = HRN_FLOAT32, .normalize = 1};
    memcpy(output.mean, usual[i], sizeof output.mean);
    memcpy(output.std, usual[i] + 3, sizeof output.std);
    hrn_format format;
    hrn_format_compile(&format, &output);
    if (format.arithmetic) continue;
    fprintf(stderr, "mean %g: its values are looked up\n", (double)usual[i][0]);
    bad = 1;
  }
  return bad;
}

/* The input ends with its last pixel, so a sanitizer sees a load that goes too far. */
static int spread_round(random_state *r, const kernels *plain, const kernels *simd) {
  const int32_t count = some_length(r) % 300 + 1;
  uint8_t *in = noise(r, (size_t)count * 3);
  uint8_t *results[2] = {allocate((size_t)count * 4), allocate((size_t)count * 4)};
  plain->spread(in, count, results[0]);
  simd->spread(in, count, results[1]);
  const int bad = differs(results[0], results[1], (size_t)count);
  if (bad) fprintf(stderr, "spread: %d pixels\n", count);
  free(in), free(results[0]), free(results[1]);
  return bad;
}

/* The input begins and ends with its pixels. */
static int reverse_round(random_state *r, const kernels *plain, const kernels *simd) {
  const int32_t count = some_length(r) % 300 + 1;
  const size_t bytes = (size_t)count * 4;
  uint8_t *in = noise(r, bytes);
  uint8_t *results[2] = {allocate(bytes), allocate(bytes)};
  plain->write->reverse(in, count, results[0]);
  simd->write->reverse(in, count, results[1]);
  const int bad = memcmp(results[0], results[1], bytes) != 0;
  if (bad) fprintf(stderr, "reverse: %d pixels\n", count);
  free(in), free(results[0]), free(results[1]);
  return bad;
}

/* Any bits except those of NaN. The kernels' callers have only one NaN: that of infinity times
 * 0. */
static int weigh_round(random_state *r, const kernels *plain, const kernels *simd) {
  const int32_t dtype = HRN_FLOAT16 + (int32_t)random_below(r, 3);
  const size_t element = dtype == HRN_FLOAT32 ? 4 : 2, count = random_below(r, 100);
  uint8_t *in[2], *results[2];
  for (int k = 0; k < 2; k++) {
    in[k] = noise(r, count * element + 1);
    results[k] = allocate(count * element + 1);
    for (size_t i = 0; i < count; i++) { /* an exponent of ones only for infinity */
      uint8_t *top = in[k] + i * element + element - 1;
      if ((*top & 0x7c) != 0x7c) continue;
      if (random_below(r, 8)) {
        *top &= 0xbf;
        continue;
      }
      memset(in[k] + i * element, 0, element);
      *top = dtype == HRN_FLOAT16 ? 0x7c : 0x7f;
      if (dtype != HRN_FLOAT16) top[-1] = 0x80;
    }
  }
  const double share = random_below(r, 4) ? (double)random_below(r, 1001) / 1000 : 1;
  plain->write->weigh(dtype, in[0], in[1], (float)share, (float)(1 - share), count, results[0]);
  simd->write->weigh(dtype, in[0], in[1], (float)share, (float)(1 - share), count, results[1]);
  const int bad = memcmp(results[0], results[1], count * element) != 0;
  if (bad) fprintf(stderr, "weigh: dtype %d, %zu values, share %g\n", dtype, count, share);
  for (int k = 0; k < 2; k++) free(in[k]), free(results[k]);
  return bad;
}

/* Compares two rows that are mixed at once with two that are written and then weighed. Both rows
 * end with their last pixel. */
static int mix_round(random_state *r, const kernels *plain, const kernels *simd) {
  hrn_output output = {.dtype = HRN_FLOAT16 + (int32_t)random_below(r, 3),
                       .layout = (int32_t)random_below(r, 2),
                       .normalize = 1};
  for (int c = 0; c < 3; c++) {
    output.mean[c] = 0.3f + 0.1f * (float)c;
    output.std[c] = 0.225f;
  }
  hrn_format format;
  hrn_format_compile(&format, &output);
  const int32_t count = HRN_MIX_LEAST + (int32_t)random_below(r, 300);
  const size_t pixels = (size_t)count, plane = pixels * format.element, bytes = 3 * plane;
  const float share[2] = {(float)random_below(r, 1001) / 1000, 0.7f};
  uint8_t *in[2], *written[2], *results[2];
  for (int k = 0; k < 2; k++) {
    in[k] = noise(r, 4 * pixels);
    written[k] = allocate(bytes);
    results[k] = allocate(bytes);
    plain->write->write(&format, in[k], count, 0, written[k], plane);
  }
  plain->write->weigh(format.dtype, written[0], written[1], share[0], share[1], 3 * pixels,
                      results[0]);
  if (format.arithmetic) simd->write->mix(&format, in[0], in[1], share, count, results[1], plane);
  const int bad = format.arithmetic && memcmp(results[0], results[1], bytes) != 0;
  if (bad) fprintf(stderr, "mix: dtype %d layout %d %d\n", output.dtype, output.layout, count);
  for (int k = 0; k < 2; k++) free(in[k]), free(written[k]), free(results[k]);
  return bad;
}

/* An image of an array as it is in memory, in bytes that begin and end with its own. A sanitizer
 * sees a read beside them. */
typedef struct array {
  uint8_t *bytes;
  int32_t width, height, channels;
  int64_t row, pixel, channel, origin;
} array;

static array some_array(random_state *r) {
  array a = {.width = some_length(r) % 40 + 1, .height = some_length(r) % 40 + 1};
  a.channels = random_below(r, 3) == 0 ? 1 : 3;
  const int planes = (int)random_below(r, 2);
  a.pixel = planes ? 1 : a.channels;
  a.row = a.width * a.pixel;
  a.channel = planes ? a.height * a.row : 1;
  /* Red last; the last column first; the last row first. */
  if (random_below(r, 6) == 0) a.origin += (a.channels - 1) * a.channel, a.channel = -a.channel;
  if (random_below(r, 6) == 0) a.origin += (a.width - 1) * a.pixel, a.pixel = -a.pixel;
  if (random_below(r, 6) == 0) a.origin += (a.height - 1) * a.row, a.row = -a.row;
  a.bytes = noise(r, (size_t)a.width * (size_t)a.height * (size_t)a.channels);
  return a;
}

/* A part of the image, flipped or not, somewhere on a canvas; or only the canvas. */
static hrn_moved some_move(random_state *r, const array *a) {
  const int whole = random_below(r, 4) == 0;
  const int32_t width = whole ? a->width : 1 + (int32_t)random_below(r, (uint64_t)a->width);
  const int32_t height = whole ? a->height : 1 + (int32_t)random_below(r, (uint64_t)a->height);
  const int32_t x = (int32_t)random_below(r, (uint64_t)(a->width - width + 1));
  const int32_t y = (int32_t)random_below(r, (uint64_t)(a->height - height + 1));
  const int flip_x = (int)random_below(r, 2), flip_y = (int)random_below(r, 2);
  hrn_moved m = {.row = flip_y ? -a->row : a->row,
                 .pixel = flip_x ? -a->pixel : a->pixel,
                 .channel = a->channels == 1 ? 0 : a->channel,
                 .left = whole ? 0 : (int32_t)random_below(r, 20),
                 .top = whole ? 0 : (int32_t)random_below(r, 20),
                 .fill = {(uint8_t)random_next(r), (uint8_t)random_next(r), 7, 255}};
  m.from = a->bytes + a->origin + (x + (flip_x ? width - 1 : 0)) * a->pixel +
           (y + (flip_y ? height - 1 : 0)) * a->row;
  m.right = m.left + width;
  m.bottom = m.top + height;
  m.width = m.right + (whole ? 0 : (int32_t)random_below(r, 20));
  m.height = m.bottom + (whole ? 0 : (int32_t)random_below(r, 20));
  if (random_below(r, 8) == 0) m.right = m.left = m.bottom = m.top = 0;
  return m;
}

static int move_round(random_state *r, const kernels *plain, const kernels *simd) {
  const array a = some_array(r);
  const hrn_moved m = some_move(r, &a);
  hrn_output output = {.dtype = (int32_t)random_below(r, 4),
                       .layout = (int32_t)random_below(r, 2),
                       .grey = (int32_t)random_below(r, 2)};
  output.normalize = output.dtype != HRN_UINT8;
  for (int c = 0; c < 3; c++) {
    output.mean[c] = 0.3f + 0.1f * (float)c;
    output.std[c] = random_below(r, 8) ? 0.225f : some_float(r) + 0x1p-130f;
  }
  hrn_format format;
  hrn_format_compile(&format, &output);
  const size_t bytes = (size_t)m.width * (size_t)m.height * format.channels * format.element;
  uint8_t *results[2] = {allocate(bytes), allocate(bytes)};
  plain->write->move(&format, &m, results[0]);
  simd->write->move(&format, &m, results[1]);
  const int bad = memcmp(results[0], results[1], bytes) != 0;
  if (bad) {
    fprintf(stderr, "move: dtype %d layout %d grey %d, steps %d %d, %d..%d x %d..%d of %d x %d\n",
            output.dtype, output.layout, output.grey, (int)m.pixel, (int)m.row, m.left, m.right,
            m.top, m.bottom, m.width, m.height);
  }
  free(a.bytes), free(results[0]), free(results[1]);
  return bad;
}

/* The same rounds for each instruction set that this CPU has. */
static int compare(const kernels *plain, const kernels *simd, uint64_t rounds) {
  uint64_t by_arithmetic = 0;
  random_state r = random_seeded(7);
  for (uint64_t round = 0; round < rounds; round++) {
    if (horizontal_round(&r, plain, simd) || vertical_round(&r, plain, simd) ||
        write_round(&r, plain, simd, &by_arithmetic) || spread_round(&r, plain, simd) ||
        reverse_round(&r, plain, simd) || weigh_round(&r, plain, simd) ||
        mix_round(&r, plain, simd) || move_round(&r, plain, simd)) {
      fprintf(stderr, "%s, round %llu\n", simd->name, (unsigned long long)round);
      return 1;
    }
  }
  printf("%s: %llu rounds equal, %llu formats by arithmetic\n", simd->name,
         (unsigned long long)rounds, (unsigned long long)by_arithmetic);
  return 0;
}

int main(int count, char **arguments) {
  static const char *const names[] = {"avx2", "avx512"};
  uint64_t rounds = 3000;
  if (count == 3 && strcmp(arguments[1], "-n") == 0) rounds = strtoull(arguments[2], NULL, 10);
  if (usual_formats() != 0) return 1;
  const kernels plain = kernels_of("scalar", HRN_LEVEL_SCALAR);
  for (int i = 0; i < 2; i++) {
    const enum hrn_level level = hrn_cpu_level_named(names[i]);
    if (level == HRN_LEVELS) {
      printf("this CPU has no %s\n", names[i]);
      continue;
    }
    const kernels simd = kernels_of(names[i], level);
    if (compare(&plain, &simd, rounds) != 0) return 1;
  }
  return 0;
}
