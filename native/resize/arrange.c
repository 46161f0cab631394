/* arrange.c: splits a filter's weights into what AVX2 multiplies, integers of 16 bits. */
#include "resize.h"

#if defined(__x86_64__)

/* The choice depends on the weights, not on the filter: bilinear and box weights are never
 * negative, and the bytes kernel needs that. */
static hrn_split split_for(const hrn_taps *taps, int horizontal) {
  const size_t weights = (size_t)taps->count * (size_t)taps->stride;
  int32_t least = 0, greatest = 0;
  for (size_t k = 0; k < weights; k++) {
    if (taps->weight[k] < least) least = taps->weight[k];
    if (taps->weight[k] > greatest) greatest = taps->weight[k];
  }
  /* Normalised weights reach +-16 only if a filter's lobes nearly cancel at an edge. */
  if (least < -(1 << 26) || greatest >= 1 << 26) return HRN_SPLIT_NONE;
  return horizontal || least < 0 || taps->most > HRN_BYTE_TAPS ? HRN_SPLIT_WORDS : HRN_SPLIT_BYTES;
}

/* weight = high * 2^11 + low. >> of a negative value is arithmetic in every compiler that builds
 * this (C11 6.5.7 leaves it to them). So it is a floor, and low is never negative. */
static void split_words(const hrn_taps *taps, size_t weights, size_t group) {
  for (size_t k = 0; k < weights; k++) {
    int16_t *out = taps->halves + k / group * (2 * group) + k % group;
    out[0] = (int16_t)(taps->weight[k] >> 11);
    out[group] = (int16_t)(taps->weight[k] & 2047);
  }
}

/* weight = high * 2^15 + low. A weight of 2^22 is replaced by 2^22 - 1, because it alone would need
 * an eighth bit for its high part. Such a tap has weight 1, and stands alone or beside taps that
 * round away. 2^22 - 1 gives the same result: v - v / 2^22 + 1/2 rounds down to v. */
static void split_bytes(const hrn_taps *taps, size_t weights) {
  const int32_t most = (1 << HRN_COEFFICIENT_BITS) - 1;
  for (size_t k = 0; k < weights; k += 2) {
    const int32_t a = taps->weight[k] < most ? taps->weight[k] : most;
    const int32_t b = taps->weight[k + 1] < most ? taps->weight[k + 1] : most;
    int16_t *out = taps->halves + 2 * k;
    out[0] = out[1] = (int16_t)(a >> 15 | b >> 15 << 8);
    out[2] = (int16_t)(a & 32767);
    out[3] = (int16_t)(b & 32767);
  }
}

/* Weights of at most +-2 lose nothing here. Only those of a filter's lobes at an odd edge are
 * larger. */
static hrn_split split_fast(const hrn_taps *taps, size_t weights) {
  for (size_t k = 0; k < weights; k++) {
    const int32_t high = taps->weight[k] >> (HRN_COEFFICIENT_BITS - HRN_FAST_BITS);
    if (high < INT16_MIN || high > INT16_MAX) return HRN_SPLIT_NONE;
    taps->halves[k] = (int16_t)high;
  }
  return HRN_SPLIT_FAST;
}

void hrn_arrange_avx2(hrn_taps *taps, int horizontal) {
  const int32_t groups = (taps->count + HRN_TAPS_GROUP - 1) / HRN_TAPS_GROUP;
  const size_t weights = (size_t)groups * HRN_TAPS_GROUP * (size_t)taps->stride;
  if (taps->bits == HRN_FAST_BITS) {
    taps->split = split_fast(taps, weights);
    return;
  }
  taps->split = split_for(taps, horizontal);
  if (taps->split == HRN_SPLIT_WORDS) split_words(taps, weights, horizontal ? 4 : 2);
  if (taps->split == HRN_SPLIT_BYTES) split_bytes(taps, weights);
}

#endif
