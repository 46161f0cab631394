/* resize.h: Pillow 13's resampling, split into coefficients, kernels, and the driver that orders
 * the passes. The arithmetic is fixed: 22-bit coefficients, 32-bit sums that start at one half, an
 * 8-bit intermediate (python-pillow/Pillow, src/libImaging/Resample.c).
 *
 * torch's resampling of tensors of bytes differs from Pillow's in two things only. An axis's
 * weights have as many bits as its largest weight leaves in an int16, and the horizontal pass is
 * always the first (pytorch/pytorch, aten/src/ATen/native/cpu/UpSampleKernel.cpp).
 */
#ifndef HEADRACE_RESIZE_RESIZE_H
#define HEADRACE_RESIZE_RESIZE_H

#include "../core/cpu.h"
#include "../core/image.h"

/* 32 bits, minus 8 for the pixel and 2 for filters that overshoot. */
#define HRN_COEFFICIENT_BITS 22

/* The bits under HRN_FAST: a weight then fits 16 bits, and one multiply is enough. */
#define HRN_FAST_BITS 14

/* One axis: [from, to) of a line of `input` pixels becomes `output` pixels. A box that was decoded
 * at a fraction of its size may begin or end inside a pixel. Weights reach no further than the
 * line, as with the `box` of Pillow's resize. */
typedef struct hrn_scaling {
  int32_t input, output;
  double from, to;
} hrn_scaling;

/* Outputs are computed in whole groups: 16 pixels are the widest vector. */
#define HRN_TAPS_GROUP 16

/* Bytes of the widest arranged form: 3 digits for 4 channels a weight, and an order of 64 bytes for
 * 4 outputs. */
#define HRN_ARRANGED_WEIGHT 12
#define HRN_ARRANGED_OUTPUT 16

static inline int hrn_is_of_tensors(int filter) {
  return filter == HRN_TENSOR_BILINEAR || filter == HRN_TENSOR_BICUBIC;
}

/* How weights are stored a second time, for kernels that multiply narrow integers. */
typedef enum hrn_split {
  HRN_SPLIT_NONE = 0,  /* some weight is too large to split */
  HRN_SPLIT_WORDS = 1, /* weight = high * 2^11 + low, 0 <= low < 2^11, both int16 */
  HRN_SPLIT_BYTES = 2, /* weight = high * 2^15 + low, 0 <= high < 2^7, 0 <= low < 2^15 */
  HRN_SPLIT_FAST = 3,  /* weight = high * 2^8, int16: no second half */
  HRN_SPLIT_DIGITS = 4 /* weight = (d2 * 2^8 + d1) * 2^8 + d0, int8: see avx512.c */
} hrn_split;

/* Most taps under HRN_SPLIT_BYTES: 128 * 255 + 64 still fits int16. */
#define HRN_BYTE_TAPS 128

/* The coefficients of outputs [output_start, output_start + count) along one axis. Output i is the
 * weighted sum of length[i] inputs from start[i] on. start counts from input_start, so that a
 * buffer that holds only [input_start, input_start + input_length) can be addressed directly. The
 * arrays go on to a whole group of 16 outputs. Those outputs are safe to compute. */
typedef struct hrn_taps {
  int32_t count, output_start;
  int32_t input_start, input_length;
  int32_t most;   /* taps of any output */
  int32_t stride; /* weights an output, `most` rounded up to 4; unused ones are 0 */
  int32_t *start, *length;
  int32_t *weight; /* 22-bit fixed point */
  int32_t bits;    /* bits behind the point that may differ from 0; the others are 0 */
  hrn_split split; /* this and `halves` are made by an instruction set's hrn_arrange_kernel */
  /* 2 * stride an output, in the order in which kernels load them. Horizontal: 4 highs, 4 lows,
   * and so on. Vertical: 2 highs, 2 lows, and so on; under HRN_SPLIT_BYTES the two highs are the
   * four bytes h0 h1 h0 h1. Under HRN_SPLIT_FAST: stride highs an output. Under
   * HRN_SPLIT_DIGITS: bytes, in the order of avx512.c. */
  int16_t *halves;
} hrn_taps;

/* Bytes that hrn_taps_build needs, 0 where they exceed the address space. */
size_t hrn_taps_bytes(const hrn_scaling *scaling, int filter, int32_t count);

/* Computes the weights of outputs [output_start, output_start + count) of a resize in `memory`
 * (64-byte aligned), with `bits` bits behind the point: HRN_COEFFICIENT_BITS or HRN_FAST_BITS. A
 * filter of tensors gets as many bits as torch gives the axis, instead of HRN_COEFFICIENT_BITS. For
 * the horizontal pass all outputs get the same number of taps, by moving starts left, so its
 * kernels need no count for each output. */
void hrn_taps_build(hrn_taps *taps, const hrn_scaling *scaling, int filter, int bits,
                    int32_t output_start, int32_t count, int horizontal, void *memory);

/* Which inputs those outputs depend on. */
void hrn_taps_reach(const hrn_scaling *scaling, int filter, int32_t output_start, int32_t count,
                    int32_t *input_start, int32_t *input_length);

/* Stores the weights a second time, as the kernels of an instruction set need them. */
typedef void (*hrn_arrange_kernel)(hrn_taps *taps, int horizontal);

/* Computes out[x] for every output of `taps`, for two rows at a time (row1 may be row0). Reads may
 * run over the row's end by less than HRN_ROW_PADDING bytes. Writes whole groups of 16 pixels. */
typedef void (*hrn_horizontal_kernel)(const hrn_taps *taps, const uint8_t *row0,
                                      const uint8_t *row1, uint8_t *out0, uint8_t *out1);

/* Computes one output row: the weighted sum of rows `first`, `first` + stride, ... of `bytes` bytes
 * each. Reads and writes may run over the end by less than HRN_ROW_PADDING bytes. */
typedef void (*hrn_vertical_kernel)(const hrn_taps *taps, int32_t output, const uint8_t *first,
                                    size_t stride, uint8_t *out, size_t bytes);

void hrn_arrange_scalar(hrn_taps *, int);
void hrn_horizontal_scalar(const hrn_taps *, const uint8_t *, const uint8_t *, uint8_t *,
                           uint8_t *);
void hrn_vertical_scalar(const hrn_taps *, int32_t, const uint8_t *, size_t, uint8_t *, size_t);
#if defined(__x86_64__)
void hrn_arrange_avx2(hrn_taps *, int);
void hrn_horizontal_avx2(const hrn_taps *, const uint8_t *, const uint8_t *, uint8_t *, uint8_t *);
void hrn_vertical_avx2(const hrn_taps *, int32_t, const uint8_t *, size_t, uint8_t *, size_t);
void hrn_arrange_avx512(hrn_taps *, int);
void hrn_horizontal_avx512(const hrn_taps *, const uint8_t *, const uint8_t *, uint8_t *,
                           uint8_t *);
void hrn_vertical_avx512(const hrn_taps *, int32_t, const uint8_t *, size_t, uint8_t *, size_t);
#endif

typedef struct hrn_resize_kernels {
  hrn_arrange_kernel arrange;
  hrn_horizontal_kernel horizontal;
  hrn_vertical_kernel vertical;
} hrn_resize_kernels;

extern const hrn_resize_kernels hrn_resize_kernels_of[HRN_LEVELS];

static inline const hrn_resize_kernels *hrn_resize_kernels_chosen(void) {
  return &hrn_resize_kernels_of[hrn_cpu_level()];
}

/* A resize of which only a window of the output is wanted. A pass that does not change the length
 * is skipped: it has no taps (count 0), and the window is copied. */
typedef struct hrn_resize {
  int horizontal, vertical; /* which passes run */
  int vertical_first;
  hrn_taps x, y;
  hrn_box output; /* the wanted window of the resized image */
  hrn_box input;  /* the part of the image that it depends on */
} hrn_resize;

/* Which pass of a resize comes first. Versions of Pillow differ in that. */
enum hrn_passes {
  HRN_PASSES_CHEAPER = 0, /* 13: the vertical one if it saves more than twice what the other does */
  HRN_PASSES_TALL = 1,    /* 12.2: the vertical one if the height shrinks and is over 100 widths */
  HRN_PASSES_HORIZONTAL = 2 /* before 12.2: the horizontal one */
};

/* Plans both axes and computes the coefficients in HRN_SCRATCH_COEFFICIENTS. `bits` is as above,
 * `passes` is an enum hrn_passes. */
int hrn_resize_prepare(hrn_context *context, const hrn_scaling *x, const hrn_scaling *y, int filter,
                       int bits, int passes, const hrn_box *window, hrn_resize *resize,
                       hrn_status *status);

/* Only finds the output and input of such a plan, without coefficients. */
void hrn_resize_reach(const hrn_scaling *x, const hrn_scaling *y, int filter, const hrn_box *window,
                      hrn_resize *resize);

/* Where finished rows go. Row numbers count from the top of the wanted window and come in order;
 * the pixels are valid during the call. */
typedef struct hrn_sink hrn_sink;
struct hrn_sink {
  void (*row)(const hrn_sink *sink, int32_t row, const uint8_t *pixels);
};

/* How many rows of the input must be in memory together: all of them if the vertical pass reads the
 * input, two if the horizontal one does. */
int32_t hrn_resize_at_once(const hrn_resize *resize);

/* Runs the resize on `input`, whose rows are exactly those of resize->input. */
int hrn_resize_run(hrn_context *context, const hrn_resize *resize, hrn_rows *input,
                   const hrn_sink *sink, hrn_status *status);

/* reduce.c: Pillow's reduction by whole factors. This is the largest factor. */
enum { HRN_MAX_FACTOR = 1 << 16 };

static inline int32_t hrn_divide_up(int32_t length, int32_t factor) {
  return length / factor + (length % factor != 0);
}

/* The pixels of an image of width x height that a window of the reduced image is made of. */
hrn_box hrn_reduce_reach(int32_t across, int32_t down, int32_t width, int32_t height,
                         const hrn_box *window);

/* Gives the sink pixels that are each the mean of across x down pixels of `input`. In the last
 * column and row a mean is of as many pixels as there are. */
int hrn_reduce_run(hrn_context *context, int32_t across, int32_t down, hrn_rows *input,
                   const hrn_sink *sink, hrn_status *status);

#endif
