/* write.h: the last stage. RGBX rows become finished samples: channel order, scale, normalise, cast
 * and layout in one pass. */
#ifndef HEADRACE_WRITE_WRITE_H
#define HEADRACE_WRITE_WRITE_H

#include <stddef.h>

#include "../core/cpu.h"
#include "output.h"
#include "weigh.h"

/* Compiled from hrn_output. A channel has 256 possible values, so tables that are made once with
 * torchvision's own operations are the definition. `arithmetic` says that the factors below were
 * tried on all 256 values of each channel and give the tables' bits. */
typedef struct hrn_format {
  int32_t dtype, layout;
  uint32_t element;  /* bytes */
  uint32_t channels; /* 3; or 1, the first, with HRN_NCHW: both layouts are the same then */
  float value[3][256];
  uint16_t half[3][256]; /* float16 or bfloat16 bits */
  int arithmetic;
  float scale_high, scale_low; /* x = v * (high + low), low 0 for HRN_SCALE_MUL */
  float mean[3];
  float inverse_high[3], inverse_low[3]; /* (x - mean) * (high + low), about 1 / std */
} hrn_format;

/* Stores one finished value in the format's dtype: a rounded float32, or 0..255 for uint8. */
void hrn_format_store(const hrn_format *format, float value, uint8_t *to);

/* The bits of a finished value that has 16 bits: float16 or bfloat16, rounded to nearest, ties to
 * even. */
uint16_t hrn_half_of(int32_t dtype, float value);

void hrn_format_compile(hrn_format *format, const hrn_output *output);

/* Writes `count` pixels from `pixels` as one finished row that starts at `row`. For NCHW, planes
 * are `plane` bytes apart. With `flip` the last pixel comes first. */
typedef void (*hrn_write_kernel)(const hrn_format *format, const uint8_t *pixels, int32_t count,
                                 int flip, uint8_t *row, size_t plane);

void hrn_write_scalar(const hrn_format *, const uint8_t *, int32_t, int, uint8_t *, size_t);
#if defined(__x86_64__)
void hrn_write_avx2(const hrn_format *, const uint8_t *, int32_t, int, uint8_t *, size_t);
void hrn_write_avx512(const hrn_format *, const uint8_t *, int32_t, int, uint8_t *, size_t);
#endif

/* Writes `count` pixels of RGBX to `out`, the last one first. `pixels` and `out` do not overlap. */
typedef void (*hrn_reverse_kernel)(const uint8_t *pixels, int32_t count, uint8_t *out);

void hrn_reverse_scalar(const uint8_t *, int32_t, uint8_t *);
#if defined(__x86_64__)
void hrn_reverse_avx2(const uint8_t *, int32_t, uint8_t *);
#endif

/* Writes the weighted sum of two rows. The result is that of hrn_weigh_kernel on their finished
 * values, but those are not stored. Only for a format of floats with `arithmetic`, and at least
 * HRN_MIX_LEAST pixels. */
enum { HRN_MIX_LEAST = 16 };
typedef void (*hrn_mix_kernel)(const hrn_format *format, const uint8_t *own, const uint8_t *other,
                               const float share[2], int32_t count, uint8_t *row, size_t plane);
#if defined(__x86_64__)
void hrn_mix_avx2(const hrn_format *, const uint8_t *, const uint8_t *, const float[2], int32_t,
                  uint8_t *, size_t);
void hrn_mix_avx512(const hrn_format *, const uint8_t *, const uint8_t *, const float[2], int32_t,
                    uint8_t *, size_t);
#endif

/* Writes `count` values of channel c. Their bytes are `step` apart, and the finished values are
 * `apart` bytes apart. */
typedef void (*hrn_plane_kernel)(const hrn_format *format, int c, const uint8_t *from, int64_t step,
                                 int32_t count, uint8_t *to, size_t apart);
void hrn_plane_scalar(const hrn_format *, int, const uint8_t *, int64_t, int32_t, uint8_t *,
                      size_t);
#if defined(__x86_64__)
void hrn_plane_avx2(const hrn_format *, int, const uint8_t *, int64_t, int32_t, uint8_t *, size_t);
#endif

/* An image of an array whose pixels are moved and nothing else. Output pixels of the columns [left,
 * right) and the rows [top, bottom) show pixels of the array. The first channel of the first of
 * them is at `from`; each further pixel or row is `pixel` or `row` bytes away. All other output
 * pixels show the fill. */
typedef struct hrn_moved {
  const uint8_t *from;
  int64_t row, pixel, channel; /* steps, negative if the image is flipped */
  int32_t width, height;       /* of the output */
  int32_t left, right, top, bottom;
  uint8_t fill[4];
} hrn_moved;

/* The same image as one long row, if the rows of a whole image lie one behind the other. */
hrn_moved hrn_moved_as_rows(const hrn_moved *image);

/* Writes the image as a finished sample. */
typedef void (*hrn_move_kernel)(const hrn_format *format, const hrn_moved *image, uint8_t *to);
void hrn_move_scalar(const hrn_format *, const hrn_moved *, uint8_t *);
#if defined(__x86_64__)
void hrn_move_avx2(const hrn_format *, const hrn_moved *, uint8_t *);
void hrn_move_avx512(const hrn_format *, const hrn_moved *, uint8_t *);
#endif

/* The kernels that finish a sample. */
typedef struct hrn_write_kernels {
  hrn_write_kernel write;
  hrn_reverse_kernel reverse;
  hrn_weigh_kernel weigh;
  hrn_mix_kernel mix; /* NULL: two rows are written, then weighed */
  hrn_move_kernel move;
} hrn_write_kernels;

extern const hrn_write_kernels hrn_write_kernels_of[HRN_LEVELS];

static inline const hrn_write_kernels *hrn_write_kernels_chosen(void) {
  return &hrn_write_kernels_of[hrn_cpu_level()];
}

/* The kernel that writes a row of that format. With one channel a pixel is a lookup, and no vector
 * kernel does that. */
static inline hrn_write_kernel hrn_write_of(const hrn_format *format) {
  return format->channels == 3 ? hrn_write_kernels_chosen()->write : hrn_write_scalar;
}

#endif
