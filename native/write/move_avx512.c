/* move_avx512.c: writes an image of an array whose pixels are only moved, 16 columns of a row at a
 * time, with 512-bit vectors. Cutting off, padding and flipping are masks and permutations of
 * bytes. Before that, an image of 32 x 32 took 288 calls of the kernels for rows, which were most
 * of its time.
 *
 * The image is done in groups of 16 columns, and a group row by row, so its masks are the same for
 * all rows.
 */
#include "write.h"

#if defined(__x86_64__)
#include "values_avx512.h"

/* Sixteen columns of the output, from number x on. */
typedef struct columns {
  int32_t x;
  __mmask16 lanes; /* the columns that exist */
  __mmask64 bytes; /* bytes of the pixels that are shown, as they lie in memory */
  int64_t first;   /* from a row's beginning to the first of these bytes, shown or not */
} columns;

/* Bits [from, to) of 64. */
static inline uint64_t bits(int32_t from, int32_t to) {
  if (from >= to) return 0;
  return (~(uint64_t)0 >> (64 - (to - from))) << from;
}

static inline int32_t within(int32_t value, int32_t most) {
  return value < 0 ? 0 : value > most ? most : value;
}

/* A pixel has `size` bytes, 1 or 3; `step` is that or its negative. */
HRN_AVX512_INLINE columns columns_of(const hrn_moved *m, int32_t x, int64_t step, int32_t size) {
  const int32_t from = within(m->left - x, 16), to = within(m->right - x, 16);
  const int32_t low = step > 0 ? from : 16 - to, high = step > 0 ? to : 16 - from;
  const int64_t column = (int64_t)x - m->left + (step > 0 ? 0 : 15);
  return (columns){.x = x,
                   .lanes = (__mmask16)bits(0, within(m->width - x, 16)),
                   .bytes = bits(low * size, high * size),
                   .first = column * step};
}

/* Loads bytes from an address that may lie beside the image's bytes. Those of the mask are inside;
 * the others are not read. */
HRN_AVX512_INLINE __m512i bytes_at(const uint8_t *from, int64_t at, __mmask64 mask, __m512i fill) {
  return _mm512_mask_loadu_epi8(fill, mask, (const void *)((intptr_t)from + at));
}

/* Where channel c of pixel i is among these bytes, as the low byte of lane i. */
HRN_AVX512_INLINE __m512i places_of(int64_t step, int32_t size, int c) {
  const __m512i up = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i pixel = step > 0 ? up : _mm512_sub_epi32(_mm512_set1_epi32(15), up);
  return _mm512_add_epi32(_mm512_mullo_epi32(pixel, _mm512_set1_epi32(size)), _mm512_set1_epi32(c));
}

/* Puts one byte into each lane; its other bytes are 0. */
HRN_AVX512_INLINE __m512i lanes_of(__m512i bytes, __m512i places) {
  return _mm512_maskz_permutexvar_epi8(0x1111111111111111u, places, bytes);
}

HRN_AVX512_INLINE void put(uint8_t *out, const columns *at, __m512i bytes, const factors *f,
                           int32_t dtype) {
  if (dtype == HRN_UINT8) {
    _mm_mask_storeu_epi8(out, at->lanes, _mm512_cvtepi32_epi8(bytes));
  } else {
    store(out, at->lanes, value_of(bytes, f), dtype);
  }
}

/* `step`, `dtype` and `channels` are constants where this is inlined. With pixels of three bytes,
 * all channels come from the same bytes; otherwise each channel has its own. */
HRN_AVX512_INLINE void move_pixels(const hrn_format *format, const hrn_moved *m, uint8_t *to,
                                   int64_t step, int32_t dtype, int channels) {
  const int32_t size = step > 0 ? (int32_t)step : (int32_t)-step;
  const size_t element = dtype == HRN_FLOAT32 ? 4 : dtype == HRN_UINT8 ? 1 : 2;
  const size_t row = (size_t)m->width * element, plane = (size_t)m->height * row;
  factors f[3];
  __m512i places[3], fill[3];
  for (int c = 0; c < channels; c++) {
    f[c] = factors_of(format, c);
    places[c] = places_of(step, size, size == 3 ? c : 0);
    fill[c] = _mm512_set1_epi8((char)m->fill[c]);
  }
  if (size == 3) { /* the fill's channels alternate */
    uint8_t pixels[64];
    for (int i = 0; i < 64; i++) pixels[i] = m->fill[i % 3];
    fill[0] = _mm512_loadu_si512(pixels);
  }
  for (int32_t x = 0; x < m->width; x += 16) {
    const columns at = columns_of(m, x, step, size);
    uint8_t *out = to + (size_t)x * element;
    for (int32_t y = 0; y < m->height; y++, out += row) {
      const int inside = y >= m->top && y < m->bottom;
      const __mmask64 seen = inside ? at.bytes : 0;
      const int64_t from = inside ? (y - m->top) * m->row + at.first : 0;
      __m512i bytes = bytes_at(m->from, from, seen, fill[0]);
      for (int c = 0; c < channels; c++) {
        if (size != 3 && c > 0) bytes = bytes_at(m->from, from + c * m->channel, seen, fill[c]);
        put(out + c * plane, &at, lanes_of(bytes, places[c]), &f[c], dtype);
      }
    }
  }
}

HRN_AVX512_INLINE void move_planes(const hrn_format *format, const hrn_moved *m, uint8_t *to,
                                   int64_t step, int32_t dtype) {
  if (format->channels == 1) {
    move_pixels(format, m, to, step, dtype, 1);
  } else {
    move_pixels(format, m, to, step, dtype, 3);
  }
}

HRN_AVX512_INLINE void move_steps(const hrn_format *format, const hrn_moved *m, uint8_t *to,
                                  int32_t dtype) {
  switch (m->pixel) {
    case 1:
      move_planes(format, m, to, 1, dtype);
      break;
    case -1:
      move_planes(format, m, to, -1, dtype);
      break;
    case 3:
      move_pixels(format, m, to, 3, dtype, 3);
      break;
    default:
      move_pixels(format, m, to, -3, dtype, 3);
  }
}

/* This file writes planes of bytes, float32 and float16, from pixels without gaps. Everything else
 * goes by rows. */
static int is_ours(const hrn_format *format, const hrn_moved *m) {
  const int planes = m->pixel == 1 || m->pixel == -1;
  const int pixels = (m->pixel == 3 || m->pixel == -3) && m->channel == 1 && format->channels == 3;
  if (format->layout != HRN_NCHW || !(planes || pixels)) return 0;
  return format->dtype == HRN_UINT8 ||
         (format->arithmetic && (format->dtype == HRN_FLOAT32 || format->dtype == HRN_FLOAT16));
}

HRN_AVX512 void hrn_move_avx512(const hrn_format *format, const hrn_moved *image, uint8_t *to) {
  if (!is_ours(format, image)) {
    hrn_move_avx2(format, image, to);
    return;
  }
  const hrn_moved m = hrn_moved_as_rows(image);
  switch (format->dtype) {
    case HRN_FLOAT32:
      move_steps(format, &m, to, HRN_FLOAT32);
      break;
    case HRN_FLOAT16:
      move_steps(format, &m, to, HRN_FLOAT16);
      break;
    default:
      move_steps(format, &m, to, HRN_UINT8);
  }
}
#else
/* An empty translation unit is not ISO C. */
typedef int hrn_move_avx512_absent;
#endif
