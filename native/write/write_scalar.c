/* write_scalar.c: the tables that define the finished values, and the plain C writer. */
#include <math.h>
#include <string.h>

#include "write.h"

#if defined(__clang__) /* gcc contracts nothing under -std=c11; clang has to be told */
#pragma STDC FP_CONTRACT OFF
#endif

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* float32 to bfloat16, to nearest, ties to even. The only NaN that gets here is that of infinity
 * times 0 in a weighted sum, and its mantissa has no bits that could carry. Infinity stays
 * infinity. */
static uint16_t bfloat16_of(float value) {
  const uint32_t bits = bits_of(value);
  return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/* float32 to IEEE 754 binary16, to nearest, ties to even. */
static uint16_t float16_of(float value) {
  const uint32_t bits = bits_of(value), sign = (bits >> 16) & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return (uint16_t)(sign | 0x7e00);  /* NaN */
  if (rest >= 0x47800000) return (uint16_t)(sign | 0x7c00); /* 2^16 and above, infinity */
  uint32_t mantissa = rest & 0x7fffff, shift = 13, base;
  if (rest >= 0x38800000) { /* 2^-14: a normal half; rebias 127 to 15 */
    base = ((rest >> 23) - 112) << 10;
  } else {
    const uint32_t exponent = rest >> 23;
    if (exponent < 102) return (uint16_t)sign; /* below half of the least subnormal */
    mantissa |= 0x800000;
    shift = 126 - exponent;
    base = 0;
  }
  const uint32_t half = 1u << (shift - 1), low = mantissa & ((1u << shift) - 1);
  uint32_t result = base + (mantissa >> shift);
  /* A carry out of the mantissa gives the next exponent, up to infinity, because the encoding is
   * ordered. */
  if (low > half || (low == half && (result & 1))) result++;
  return (uint16_t)(sign | result);
}

uint16_t hrn_half_of(int32_t dtype, float value) {
  return dtype == HRN_FLOAT16 ? float16_of(value) : bfloat16_of(value);
}

void hrn_format_store(const hrn_format *format, float value, uint8_t *to) {
  uint16_t half;
  switch (format->dtype) {
    case HRN_UINT8:
      *to = (uint8_t)value;
      return;
    case HRN_FLOAT32:
      memcpy(to, &value, sizeof value);
      return;
    default:
      half = hrn_half_of(format->dtype, value);
      memcpy(to, &half, sizeof half);
      return;
  }
}

/* 1 / divisor as the sum of two floats, accurate to about 48 bits. */
static void reciprocal(double divisor, float *high, float *low) {
  *high = (float)(1.0 / divisor);
  *low = (float)(1.0 / divisor - (double)*high);
}

/* Whether multiplying gives the right bits for all 256 values of a channel. */
static int multiplies(const hrn_format *format, int c) {
  for (int v = 0; v < 256; v++) {
    const float f = (float)v;
    const float x = fmaf(f, format->scale_high, f * format->scale_low);
    const float d = x - format->mean[c];
    const float y = fmaf(d, format->inverse_high[c], d * format->inverse_low[c]);
    if (bits_of(y) != bits_of(format->value[c][v])) return 0;
  }
  return 1;
}

/* Tries to divide by multiplying: d * (high + low) with one fused rounding. The result is correctly
 * rounded unless the quotient lies within about 2^-24 of its last place from a tie. Overflow,
 * underflow and signed zeros behave differently as well. So all 768 values are compared, bit by
 * bit. If one of them is that near to a tie, as -0.2133333 / 0.24 is, a last place more or less of
 * `low` makes it right, and is far from the tie of any other value. */
static void try_arithmetic(hrn_format *format, const hrn_output *output) {
  enum { PLACES = 4 };
  if (output->scale == HRN_SCALE_DIV) {
    reciprocal(255.0, &format->scale_high, &format->scale_low);
  } else {
    format->scale_high = (float)(1.0 / 255.0);
  }
  format->arithmetic = 1;
  for (int c = 0; c < 3; c++) {
    format->inverse_high[c] = 1.0f;
    if (output->normalize) {
      format->mean[c] = output->mean[c];
      reciprocal(output->std[c], &format->inverse_high[c], &format->inverse_low[c]);
    }
    const float low = format->inverse_low[c];
    float less = low, more = low;
    int found = multiplies(format, c);
    for (int place = 0; place < PLACES && !found; place++) {
      format->inverse_low[c] = less = nextafterf(less, -INFINITY);
      found = multiplies(format, c);
      if (found) break;
      format->inverse_low[c] = more = nextafterf(more, INFINITY);
      found = multiplies(format, c);
    }
    if (!found) format->arithmetic = 0;
  }
}

void hrn_format_compile(hrn_format *format, const hrn_output *output) {
  memset(format, 0, sizeof *format);
  format->dtype = output->dtype;
  format->channels = output->grey ? 1 : 3;
  format->layout = output->grey ? HRN_NCHW : output->layout;
  format->element = output->dtype == HRN_UINT8 ? 1 : output->dtype == HRN_FLOAT32 ? 4 : 2;
  for (int c = 0; c < 3; c++) {
    for (int v = 0; v < 256; v++) {
      /* ToTensor divides by 255; v2's ToDtype multiplies by 1/255 rounded to float32. */
      float x =
          output->scale == HRN_SCALE_DIV ? (float)v / 255.0f : (float)v * (float)(1.0 / 255.0);
      if (output->normalize) x = (x - output->mean[c]) / output->std[c];
      format->value[c][v] = x;
      format->half[c][v] = hrn_half_of(output->dtype, x);
    }
  }
  try_arithmetic(format, output);
}

void hrn_reverse_scalar(const uint8_t *pixels, int32_t count, uint8_t *out) {
  for (int32_t x = 0; x < count; x++) {
    memcpy(out + 4 * (size_t)x, pixels + 4 * (size_t)(count - 1 - x), 4);
  }
}

/* `channels` is the constant 1 or 3 where this is inlined, so each gets a loop of its own. */
static inline void write_channels(const hrn_format *format, const uint8_t *pixels, int32_t count,
                                  int flip, uint8_t *row, size_t plane, size_t channels) {
  const size_t element = format->element;
  const size_t step = format->layout == HRN_NCHW ? element : 3 * element;
  const size_t channel = format->layout == HRN_NCHW ? plane : element;
  for (int32_t x = 0; x < count; x++) {
    const uint8_t *pixel = pixels + 4 * (size_t)(flip ? count - 1 - x : x);
    uint8_t *out = row + (size_t)x * step;
    for (size_t c = 0; c < channels; c++, out += channel) {
      if (element == 4) {
        memcpy(out, &format->value[c][pixel[c]], 4);
      } else if (element == 2) {
        memcpy(out, &format->half[c][pixel[c]], 2);
      } else {
        *out = pixel[c];
      }
    }
  }
}

void hrn_write_scalar(const hrn_format *format, const uint8_t *pixels, int32_t count, int flip,
                      uint8_t *row, size_t plane) {
  if (format->channels == 3) {
    write_channels(format, pixels, count, flip, row, plane, 3);
  } else {
    write_channels(format, pixels, count, flip, row, plane, 1);
  }
}
