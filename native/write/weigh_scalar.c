/* weigh_scalar.c: weighted sums in plain C. They define the results of the other kernels. */
#include <string.h>

#include "weigh.h"
#include "write.h"

#if defined(__clang__) /* gcc contracts nothing under -std=c11; clang has to be told */
#pragma STDC FP_CONTRACT OFF
#endif

static float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* IEEE 754 binary16 to float32, which can hold all its values. */
static float float_of_half(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000) << 16, mantissa = half & 0x3ff;
  const uint32_t exponent = (half >> 10) & 0x1f;
  if (exponent == 0x1f) return float_of_bits(sign | 0x7f800000 | mantissa << 13);
  if (exponent == 0) { /* a multiple of 2^-24 */
    const float magnitude = (float)mantissa * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

static void weigh_halves(int32_t dtype, const uint16_t *own, const uint16_t *other, float own_share,
                         float other_share, size_t count, uint16_t *out) {
  for (size_t k = 0; k < count; k++) {
    float product[2];
    const uint16_t value[2] = {own[k], other[k]};
    const float share[2] = {own_share, other_share};
    for (int side = 0; side < 2; side++) {
      const float wide = dtype == HRN_FLOAT16 ? float_of_half(value[side])
                                              : float_of_bits((uint32_t)value[side] << 16);
      const uint16_t rounded = hrn_half_of(dtype, wide * share[side]);
      product[side] =
          dtype == HRN_FLOAT16 ? float_of_half(rounded) : float_of_bits((uint32_t)rounded << 16);
    }
    out[k] = hrn_half_of(dtype, product[0] + product[1]);
  }
}

void hrn_weigh_scalar(int32_t dtype, const void *own, const void *other, float own_share,
                      float other_share, size_t count, void *out) {
  if (dtype != HRN_FLOAT32) {
    weigh_halves(dtype, own, other, own_share, other_share, count, out);
    return;
  }
  const float *a = own, *b = other;
  float *to = out;
  for (size_t k = 0; k < count; k++) {
    const float mine = a[k] * own_share, partners = b[k] * other_share;
    to[k] = mine + partners;
  }
}
