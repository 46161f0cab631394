/* coefficients.c: filters, supports and weights. The order of operations makes every double, and so
 * every rounded weight, equal to Pillow's.
 *
 * This must be compiled with -ffp-contract=off: one fused multiply-add changes weights, and so
 * bytes.
 */
#include <math.h>
#include <string.h>

#include "resize.h"

#if defined(__clang__) /* gcc contracts nothing under -std=c11; clang has to be told */
#pragma STDC FP_CONTRACT OFF
#endif

/* Half the width of each filter in input pixels at scale 1. */
static double filter_support(int filter) {
  switch (filter) {
    case HRN_BOX:
      return 0.5;
    case HRN_BICUBIC:
    case HRN_TENSOR_BICUBIC:
      return 2.0;
    case HRN_LANCZOS:
      return 3.0;
    default: /* HRN_BILINEAR, HRN_TENSOR_BILINEAR, HRN_HAMMING */
      return 1.0;
  }
}

/* sin is the C library's, as in Pillow. A polynomial of our own would give other weights. */
static double sinc(double x) {
  if (x == 0.0) return 1.0;
  x *= M_PI;
  return sin(x) / x;
}

static double filter_value(int filter, double x) {
  if (filter == HRN_LANCZOS) return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0;
  /* Only the box is asymmetric: a tap exactly between two outputs belongs to one of them. */
  if (filter == HRN_BOX) return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
  x = fabs(x);
  if (filter == HRN_BILINEAR || filter == HRN_TENSOR_BILINEAR) return x < 1.0 ? 1.0 - x : 0.0;
  if (filter == HRN_HAMMING) {
    if (x == 0.0) return 1.0;
    if (x >= 1.0) return 0.0;
    x *= M_PI;
    /* Pillow writes these two as float32 constants; as doubles, some bytes would differ. */
    return sin(x) / x * (0.54f + 0.46f * cos(x));
  }
  /* Keys' cubic with a = -0.5, evaluated by Horner's rule. */
  const double a = -0.5;
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
  return 0.0;
}

/* The geometry of one axis. */
typedef struct span {
  double from, scale, filter_scale, support;
  int32_t input;
} span;

/* Downscaling stretches the filter over more inputs; upscaling leaves it as it is. */
static span span_of(const hrn_scaling *a, int filter) {
  /* Pillow subtracts in float32. */
  const float length = (float)a->to - (float)a->from;
  span s = {.from = a->from, .scale = (double)length / a->output, .input = a->input};
  s.filter_scale = s.scale < 1.0 ? 1.0 : s.scale;
  s.support = filter_support(filter) * s.filter_scale;
  return s;
}

/* The first input of output i, and how many inputs it has. Pillow truncates instead of taking the
 * floor; values below zero become zero anyway. */
static int32_t first_tap(const span *s, int32_t i, int32_t *length) {
  const double centre = s->from + (i + 0.5) * s->scale;
  int32_t first = (int32_t)(centre - s->support + 0.5);
  int32_t end = (int32_t)(centre + s->support + 0.5);
  if (first < 0) first = 0;
  if (end > s->input) end = s->input;
  *length = end - first;
  return first;
}

/* Bounds first_tap's length: both ends may round away from the centre. */
static int32_t most_taps(const span *s) {
  const double most = ceil(s->support) * 2 + 1;
  return most < s->input ? (int32_t)most : s->input;
}

static int32_t round_up(int32_t n, int32_t to) { return (n + to - 1) / to * to; }

size_t hrn_taps_bytes(const hrn_scaling *scaling, int filter, int32_t count) {
  const span s = span_of(scaling, filter);
  const size_t stride = (size_t)round_up(most_taps(&s), 4);
  const size_t outputs = (size_t)round_up(count, HRN_TAPS_GROUP);
  size_t weights, bytes;
  /* One int32 a weight and its arranged form, two int32 an output, one row of doubles for
   * intermediate values, and five pieces rounded up to cache lines. */
  if (__builtin_mul_overflow(stride, outputs, &weights) ||
      __builtin_mul_overflow(weights, (size_t)(4 + HRN_ARRANGED_WEIGHT), &bytes) ||
      __builtin_add_overflow(bytes, outputs * (8 + HRN_ARRANGED_OUTPUT) + stride * 8 + 5 * 64,
                             &bytes)) {
    return 0;
  }
  return bytes;
}

/* A piece of the caller's memory, rounded up to a cache line: hrn_taps_bytes counted the same. */
static void *carve(uint8_t **memory, size_t bytes) {
  void *piece = *memory;
  *memory += (bytes + 63) / 64 * 64;
  return piece;
}

/* Computes the filter's values for one output. Returns what each must be divided by. A caller
 * divides where it uses a quotient. In a loop of its own the compiler would divide two values at
 * once. That waits until the single values have left the store buffer, 5 us an image. */
static double values_of(const span *s, int filter, int32_t i, int32_t first, int32_t length,
                        double *work) {
  const double centre = s->from + (i + 0.5) * s->scale;
  const double reciprocal = 1.0 / s->filter_scale;
  double sum = 0.0;
  for (int32_t k = 0; k < length; k++) {
    work[k] = filter_value(filter, (k + first - centre + 0.5) * reciprocal);
    sum += work[k];
  }
  return sum == 0.0 ? 1.0 : sum;
}

/* Computes the normalised weights of one output as fixed point with `bits` bits, rounded half away
 * from zero. */
static void weigh(const span *s, int filter, int bits, int32_t i, int32_t first, int32_t length,
                  double *work, int32_t *weight) {
  const double sum = values_of(s, filter, i, first, length, work);
  for (int32_t k = 0; k < length; k++) {
    const double fixed = work[k] / sum * (1 << bits);
    weight[k] = (int32_t)(fixed < 0 ? fixed - 0.5 : fixed + 0.5);
  }
}

/* How many bits torch gives an axis's weights: as many as the largest weight of all outputs leaves
 * in an int16, but at most 22 (pytorch/pytorch, aten/src/ATen/native/cpu/UpSampleKernel.cpp). */
static int tensor_bits(const span *s, int filter, int32_t outputs, double *work) {
  double largest = 0.0;
  for (int32_t i = 0; i < outputs; i++) {
    int32_t length;
    const int32_t first = first_tap(s, i, &length);
    const double sum = values_of(s, filter, i, first, length, work);
    for (int32_t k = 0; k < length; k++) {
      if (work[k] / sum > largest) largest = work[k] / sum;
    }
  }
  int bits = 0;
  while (bits < HRN_COEFFICIENT_BITS && (int)(0.5 + largest * (2 << bits)) < 1 << 15) bits++;
  return bits;
}

/* With HRN_FAST_BITS the rounding would change the brightness visibly. So the largest weight takes
 * what all weights together lack. */
static void complete(int bits, int32_t length, int32_t *weight) {
  int32_t sum = 0, largest = 0;
  for (int32_t k = 0; k < length; k++) {
    sum += weight[k];
    if (weight[k] > weight[largest]) largest = k;
  }
  weight[largest] += (1 << bits) - sum;
}

/* The scalar kernels know only one precision, so the missing bits are zeros. */
static void widen(int bits, int32_t length, int32_t *weight) {
  for (int32_t k = 0; k < length; k++) weight[k] *= 1 << (HRN_COEFFICIENT_BITS - bits);
}

/* Starts and ends never decrease. */
void hrn_taps_reach(const hrn_scaling *scaling, int filter, int32_t output_start, int32_t count,
                    int32_t *input_start, int32_t *input_length) {
  const span s = span_of(scaling, filter);
  int32_t length;
  *input_start = first_tap(&s, output_start, &length);
  const int32_t last = first_tap(&s, output_start + count - 1, &length);
  *input_length = last + length - *input_start;
}

void hrn_taps_build(hrn_taps *taps, const hrn_scaling *scaling, int filter, int bits,
                    int32_t output_start, int32_t count, int horizontal, void *memory) {
  const span s = span_of(scaling, filter);
  uint8_t *rest = memory;
  double *work = carve(&rest, (size_t)round_up(most_taps(&s), 4) * sizeof *work);
  const int32_t outputs = round_up(count, HRN_TAPS_GROUP);
  const int tensor = bits == HRN_COEFFICIENT_BITS && hrn_is_of_tensors(filter);
  if (tensor) bits = tensor_bits(&s, filter, scaling->output, work);
  taps->start = carve(&rest, (size_t)outputs * 4);
  taps->length = carve(&rest, (size_t)outputs * 4);
  taps->count = count;
  taps->output_start = output_start;

  int32_t most = 1;
  for (int32_t i = 0; i < count; i++) {
    taps->start[i] = first_tap(&s, output_start + i, &taps->length[i]);
    if (taps->length[i] > most) most = taps->length[i];
  }
  hrn_taps_reach(scaling, filter, output_start, count, &taps->input_start, &taps->input_length);
  taps->most = most;
  taps->stride = round_up(most, 4);

  const size_t weights = (size_t)outputs * (size_t)taps->stride;
  taps->weight = carve(&rest, weights * 4);
  taps->halves = carve(&rest, weights * HRN_ARRANGED_WEIGHT + outputs * HRN_ARRANGED_OUTPUT);
  memset(taps->weight, 0, weights * 4);
  for (int32_t i = 0; i < count; i++) {
    int32_t *weight = taps->weight + (size_t)i * (size_t)taps->stride;
    const int32_t first = taps->start[i];
    int32_t moved = 0;
    taps->start[i] = first - taps->input_start;
    if (horizontal) {
      /* For two taps there is a kernel that looks at two only. All others look at whole strides. */
      const int32_t last = taps->input_length - (most <= 2 ? 2 : taps->stride);
      const int32_t start = taps->start[i] < last ? taps->start[i] : last > 0 ? last : 0;
      moved = taps->start[i] > start ? taps->start[i] - start : 0;
      taps->start[i] -= moved;
    }
    weigh(&s, filter, bits, output_start + i, first, taps->length[i], work, weight + moved);
    if (bits == HRN_FAST_BITS && !tensor) complete(bits, taps->length[i], weight + moved);
    if (bits < HRN_COEFFICIENT_BITS) widen(bits, taps->length[i], weight + moved);
    if (horizontal) taps->length[i] = taps->stride;
  }
  /* Groups of outputs are computed as a whole. Outputs past the end read what is there. */
  for (int32_t i = count; i < outputs; i++) {
    taps->start[i] = taps->start[count - 1];
    taps->length[i] = 0;
  }
  taps->bits = bits;
  taps->split = HRN_SPLIT_NONE;
}

void hrn_arrange_scalar(hrn_taps *taps, int horizontal) { (void)taps, (void)horizontal; }
