/* scalar.c: the two passes in plain C. This is the definition; other instruction sets are
 * compared with it.
 */
#include "resize.h"

static uint8_t clip(int32_t sum) {
  const int32_t value = sum >> HRN_COEFFICIENT_BITS;
  return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void horizontal(const hrn_taps *taps, const uint8_t *row, uint8_t *out) {
  for (int32_t i = 0; i < taps->count; i++) {
    const int32_t *weight = taps->weight + (size_t)i * (size_t)taps->stride;
    const uint8_t *pixel = row + 4 * (size_t)taps->start[i];
    /* The sums are unsigned, because partial sums of filters with negative lobes may wrap. Whole
     * sums never do. */
    uint32_t sum[3];
    sum[0] = sum[1] = sum[2] = 1u << (HRN_COEFFICIENT_BITS - 1);
    const int32_t room = taps->input_length - taps->start[i];
    const int32_t length = taps->length[i] < room ? taps->length[i] : room;
    for (int32_t k = 0; k < length; k++, pixel += 4) {
      for (int c = 0; c < 3; c++) sum[c] += (uint32_t)weight[k] * pixel[c];
    }
    for (int c = 0; c < 3; c++) out[4 * (size_t)i + (size_t)c] = clip((int32_t)sum[c]);
  }
}

void hrn_horizontal_scalar(const hrn_taps *taps, const uint8_t *row0, const uint8_t *row1,
                           uint8_t *out0, uint8_t *out1) {
  horizontal(taps, row0, out0);
  if (row1 != row0) horizontal(taps, row1, out1);
}

void hrn_vertical_scalar(const hrn_taps *taps, int32_t output, const uint8_t *first, size_t stride,
                         uint8_t *out, size_t bytes) {
  const int32_t *weight = taps->weight + (size_t)output * (size_t)taps->stride;
  for (size_t x = 0; x < bytes; x++) {
    uint32_t sum = 1u << (HRN_COEFFICIENT_BITS - 1);
    for (int32_t k = 0; k < taps->length[output]; k++) {
      sum += (uint32_t)weight[k] * first[(size_t)k * stride + x];
    }
    out[x] = clip((int32_t)sum);
  }
}
