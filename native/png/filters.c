/* filters.c: undoes the filter of a PNG's row. Each byte was stored as a difference to a guess from
 * its neighbours (PNG 9.2).
 *
 * A byte depends only on those to its left and above it, so nothing to the right of a window is
 * ever undone. Sub, Average and Paeth go from pixel to pixel, and each pixel waits for the one
 * before it. With the usual 3 and 4 bytes a pixel, all channels of a pixel are done together,
 * without a branch. SSE2 is part of every x86-64. Other machines use the plain loops, which give
 * the same bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "png.h"

/* The neighbour that is nearest to left + above - corner. Ties go in the order left, above, corner
 * (PNG 9.4). Encoder and decoder must agree on that. */
static uint8_t paeth(int left, int above, int corner) {
  int guess = left + above - corner;
  int to_left = abs(guess - left), to_above = abs(guess - above), to_corner = abs(guess - corner);
  if (to_left <= to_above && to_left <= to_corner) return (uint8_t)left;
  return (uint8_t)(to_above <= to_corner ? above : corner);
}

/* This is inlined once for each usual step, so that the compiler knows the step and keeps a pixel
 * in registers. */
static inline __attribute__((always_inline)) void undo(int filter, uint8_t *row,
                                                       const uint8_t *above, size_t bytes,
                                                       size_t step) {
  size_t first = bytes < step ? bytes : step; /* bytes without a left neighbour */
  switch (filter) {
    case 1: /* Sub */
      for (size_t i = step; i < bytes; i++) row[i] = (uint8_t)(row[i] + row[i - step]);
      break;
    case 2: /* Up */
      for (size_t i = 0; i < bytes; i++) row[i] = (uint8_t)(row[i] + above[i]);
      break;
    case 3: /* Average */
      for (size_t i = 0; i < first; i++) row[i] = (uint8_t)(row[i] + above[i] / 2);
      for (size_t i = step; i < bytes; i++) {
        row[i] = (uint8_t)(row[i] + (row[i - step] + above[i]) / 2);
      }
      break;
    case 4: /* Paeth; with no left neighbour the guess is the byte above */
      for (size_t i = 0; i < first; i++) row[i] = (uint8_t)(row[i] + above[i]);
      for (size_t i = step; i < bytes; i++) {
        row[i] = (uint8_t)(row[i] + paeth(row[i - step], above[i], above[i - step]));
      }
      break;
    default:
      break;
  }
}

void hrn_png_undo_scalar(int filter, uint8_t *row, const uint8_t *above, size_t bytes,
                         size_t step) {
  switch (step) {
    case 1:
      undo(filter, row, above, bytes, 1);
      break;
    case 3:
      undo(filter, row, above, bytes, 3);
      break;
    case 4:
      undo(filter, row, above, bytes, 4);
      break;
    default:
      undo(filter, row, above, bytes, step);
      break;
  }
}

#ifdef __SSE2__
#include <emmintrin.h>

/* Loads a pixel of `step` bytes, 3 or 4. No byte beyond it is read or written. Three bytes are put
 * together in a register. If they were copied to the stack in two pieces, they could not be loaded
 * in one before both are written, and each pixel would wait for that. */
static inline __attribute__((always_inline)) __m128i load(const uint8_t *from, size_t step) {
  uint32_t pixel;
  if (step == 4) {
    memcpy(&pixel, from, 4);
  } else {
    uint16_t low;
    memcpy(&low, from, 2);
    pixel = (uint32_t)low | (uint32_t)from[2] << 16;
  }
  return _mm_cvtsi32_si128((int32_t)pixel);
}

static inline __attribute__((always_inline)) void store(uint8_t *to, __m128i pixel, size_t step) {
  const uint32_t bytes = (uint32_t)_mm_cvtsi128_si32(pixel);
  if (step == 4) {
    memcpy(to, &bytes, 4);
    return;
  }
  const uint16_t low = (uint16_t)bytes;
  memcpy(to, &low, 2);
  to[2] = (uint8_t)(bytes >> 16);
}

static inline __attribute__((always_inline)) void sub(uint8_t *row, size_t bytes, size_t step) {
  __m128i left = _mm_setzero_si128();
  for (size_t i = 0; i < bytes; i += step) {
    left = _mm_add_epi8(load(row + i, step), left);
    store(row + i, left, step);
  }
}

/* The instruction rounds up. If exactly one of the two is odd, the result is one too large. */
static inline __attribute__((always_inline)) void average(uint8_t *row, const uint8_t *above,
                                                          size_t bytes, size_t step) {
  const __m128i ones = _mm_set1_epi8(1);
  __m128i left = _mm_setzero_si128();
  for (size_t i = 0; i < bytes; i += step) {
    const __m128i over = load(above + i, step);
    const __m128i odd = _mm_and_si128(_mm_xor_si128(left, over), ones);
    const __m128i guess = _mm_sub_epi8(_mm_avg_epu8(left, over), odd);
    left = _mm_add_epi8(load(row + i, step), guess);
    store(row + i, left, step);
  }
}

static inline __m128i distance(__m128i a) {
  return _mm_max_epi16(a, _mm_sub_epi16(_mm_setzero_si128(), a));
}

static inline __m128i choose(__m128i mask, __m128i then, __m128i otherwise) {
  return _mm_or_si128(_mm_and_si128(mask, then), _mm_andnot_si128(mask, otherwise));
}

/* This works in 16 bits. above - corner is how far the guess is from the left neighbour, and so
 * on. */
static inline __attribute__((always_inline)) void paeths(uint8_t *row, const uint8_t *above,
                                                         size_t bytes, size_t step) {
  const __m128i zero = _mm_setzero_si128();
  __m128i left = zero, corner = zero;
  for (size_t i = 0; i < bytes; i += step) {
    const __m128i over = _mm_unpacklo_epi8(load(above + i, step), zero);
    const __m128i across = _mm_sub_epi16(over, corner), down = _mm_sub_epi16(left, corner);
    const __m128i to_left = distance(across), to_over = distance(down);
    const __m128i to_corner = distance(_mm_add_epi16(across, down));
    const __m128i least = _mm_min_epi16(to_corner, _mm_min_epi16(to_left, to_over));
    const __m128i guess = choose(_mm_cmpeq_epi16(least, to_left), left,
                                 choose(_mm_cmpeq_epi16(least, to_over), over, corner));
    /* The upper bytes are 0 in both, so a sum of bytes stays one. */
    left = _mm_add_epi8(_mm_unpacklo_epi8(load(row + i, step), zero), guess);
    store(row + i, _mm_packus_epi16(left, left), step);
    corner = over;
  }
}

static inline __attribute__((always_inline)) void undo_pixels(int filter, uint8_t *row,
                                                              const uint8_t *above, size_t bytes,
                                                              size_t step) {
  if (filter == 1) sub(row, bytes, step);
  if (filter == 3) average(row, above, bytes, step);
  if (filter == 4) paeths(row, above, bytes, step);
}
#endif

/* False for a filter that does not exist. If a pixel has 3 or 4 bytes, `bytes` are whole pixels. */
bool hrn_png_unfilter(const hrn_png *png, int filter, uint8_t *row, const uint8_t *above,
                      size_t bytes) {
  size_t step = ((size_t)png->channels * png->bit_depth + 7) / 8; /* of a whole pixel, at least 1 */
  if (filter > 4) return false;
#ifdef __SSE2__
  if (filter != 2 && step == 3) {
    undo_pixels(filter, row, above, bytes, 3);
    return true;
  }
  if (filter != 2 && step == 4) {
    undo_pixels(filter, row, above, bytes, 4);
    return true;
  }
#endif
  hrn_png_undo_scalar(filter, row, above, bytes, step);
  return true;
}
