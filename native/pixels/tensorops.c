/* tensorops.c: torchvision's ops on tensors of bytes, where they differ from its ops on PIL images.
 * They compute in single precision, truncate where Pillow's tables round, keep the image's edges
 * when smoothing, and blend with the fill at the border of a warp. AugMix uses these ops, because
 * torchvision converts a PIL image to a tensor first.
 *
 * The order of operations is torchvision 0.29's (transforms/_functional_tensor.py). Each operation
 * is rounded by itself, as torch's kernels for one operation do. A product of matrices and the
 * sampling of a grid are one kernel each in torch, and their last bits depend on the CPU: with
 * fused multiply-adds a product is rounded together with its sum, without them before it
 * (docs/exactness.md). Here they are fused on any CPU.
 */
#include <string.h>

#include "kernels.h"
#include "pixels.h"

#if defined(__clang__) /* gcc contracts nothing under -std=c11; clang has to be told */
#pragma clang fp contract(off)
#endif

static uint8_t *row_of(const hrn_image *image, int32_t y) {
  return image->pixels + (size_t)y * image->stride;
}

static uint8_t cut_off(float value) {
  const float positive = value > 0 ? value : 0;
  return (uint8_t)(int32_t)(positive < 255 ? positive : 255);
}

/* Blends from `a` (ratio 1) to `b` (ratio 0). Unlike in Pillow, the image is the first argument. */
static uint8_t blend(float a, float b, float ratio, float rest) {
  const float of_a = ratio * a, of_b = rest * b;
  return cut_off(of_a + of_b);
}

/* rgb_to_grayscale, truncated. */
static float grey_of(const uint8_t *pixel) {
  const float red = 0.2989f * (float)pixel[0], green = 0.587f * (float)pixel[1];
  const float blue = 0.114f * (float)pixel[2], two = red + green;
  return (float)(int32_t)(two + blue);
}

static void blend_with_one(hrn_image *image, float other, double factor) {
  const float ratio = (float)factor, rest = (float)(1.0 - factor);
  hrn_table table;
  for (int32_t v = 0; v < 256; v++) table[0][v] = blend((float)v, other, ratio, rest);
  memcpy(table[1], table[0], 256);
  memcpy(table[2], table[0], 256);
  hrn_table_apply(table, image);
}

void hrn_tensor_brightness(hrn_image *image, double factor) { blend_with_one(image, 0, factor); }

/* The mean is of integers. The sum of a row is exact up to 2^24. */
void hrn_tensor_contrast(hrn_image *image, double factor) {
  double sum = 0;
  for (int32_t y = 0; y < image->height; y++) {
    const uint8_t *pixel = row_of(image, y);
    float row = 0;
    for (int32_t x = 0; x < image->width; x++, pixel += 4) row += grey_of(pixel);
    sum += (double)row;
  }
  const double pixels = (double)image->width * (double)image->height;
  blend_with_one(image, (float)(sum / pixels), factor);
}

void hrn_tensor_saturation(hrn_image *image, double factor) {
  const float ratio = (float)factor, rest = (float)(1.0 - factor);
  for (int32_t y = 0; y < image->height; y++) {
    uint8_t *pixel = row_of(image, y);
    for (int32_t x = 0; x < image->width; x++, pixel += 4) {
      const float grey = grey_of(pixel);
      for (int c = 0; c < 3; c++) pixel[c] = blend((float)pixel[c], grey, ratio, rest);
    }
  }
}

/* A sum of thirteenths, with the middle counted five times. It is never halfway between two
 * bytes. */
static float smoothed(const uint8_t *above, const uint8_t *row, const uint8_t *below, size_t at) {
  const int32_t sum = above[at - 4] + above[at] + above[at + 4] + row[at - 4] + 5 * row[at] +
                      row[at + 4] + below[at - 4] + below[at] + below[at + 4];
  return (float)((2 * sum + 13) / 26);
}

/* An image of one or two pixels a side stays as it is. */
void hrn_tensor_sharpness(const hrn_image *image, const hrn_image *out, double factor) {
  const float ratio = (float)factor, rest = (float)(1.0 - factor);
  const int32_t width = image->width, height = image->height;
  const int small = width <= 2 || height <= 2;
  for (int32_t y = 0; y < height; y++) {
    const uint8_t *row = row_of(image, y);
    uint8_t *to = row_of(out, y);
    memcpy(to, row, 4 * (size_t)width);
    if (small) continue;
    const int inner = y > 0 && y < height - 1;
    for (size_t at = 0; at < 4 * (size_t)width; at++) {
      const int edge = !inner || at < 4 || at >= 4 * ((size_t)width - 1);
      const float value = (float)row[at];
      const float other =
          edge ? value : smoothed(row - image->stride, row, row + image->stride, at);
      to[at] = blend(value, other, ratio, rest);
    }
  }
}

void hrn_tensor_autocontrast(hrn_image *image) {
  uint8_t low[4] = {255, 255, 255, 255}, high[4] = {0, 0, 0, 0};
  for (int32_t y = 0; y < image->height; y++) {
    hrn_extremes_scalar(row_of(image, y), (size_t)image->width, low, high);
  }
  hrn_table table;
  for (int c = 0; c < 3; c++) {
    const int flat = high[c] <= low[c];
    const float least = flat ? 0 : (float)low[c];
    /* torch divides a number by a tensor by multiplying with the inverse. */
    const float inverse = flat ? 1 : 1.0f / (float)(high[c] - low[c]);
    const float scale = flat ? 1 : inverse * 255.0f;
    for (int32_t v = 0; v < 256; v++) table[c][v] = cut_off(((float)v - least) * scale);
  }
  hrn_table_apply(table, image);
}

/* grid_sample with zeros around the image, and one more channel that says how much of a value is
 * from inside. */
typedef struct sampler {
  const hrn_image *image;
  int32_t filter;
  float fill[3];
  int filled;  /* 0: what is outside counts as 0 */
  int version; /* of torchvision, whose versions have two orders of operations */
} sampler;

/* Rounds a number below 2^22 to the nearest integer, halves to even. */
static float whole(float value) { return (value + 12582912.0f) - 12582912.0f; }

/* Multiplies and adds with one rounding, as torch's sampling does with AVX2, and MKL's matrix
 * products on Intel's CPUs with AVX-512. The double's own rounding shows only in one case of
 * 2^29. */
static float multiplied_and_added(float a, float b, float c) {
  return (float)((double)a * (double)b + (double)c);
}

/* Adds one of the four pixels around a place, by its weight. */
static void add(const sampler *s, int32_t x, int32_t y, float weight, float sums[4]) {
  if (x < 0 || x >= s->image->width || y < 0 || y >= s->image->height) return;
  const uint8_t *pixel = row_of(s->image, y) + 4 * (size_t)x;
  for (int c = 0; c < 3; c++) {
    sums[c] = multiplied_and_added((float)pixel[c], weight, sums[c]);
  }
  sums[3] += weight;
}

static void sample(const sampler *s, float x, float y, uint8_t out[4]) {
  float sums[4] = {0, 0, 0, 0};
  out[3] = 0;
  /* This also refuses NaN, before it becomes an integer. */
  if (x > -1 && x < (float)s->image->width && y > -1 && y < (float)s->image->height) {
    if (s->filter == HRN_NEAREST) {
      add(s, (int32_t)whole(x), (int32_t)whole(y), 1, sums);
    } else {
      const int32_t left = x < 0 ? -1 : (int32_t)x, top = y < 0 ? -1 : (int32_t)y;
      const float w = x - (float)left, n = y - (float)top, e = 1 - w, south = 1 - n;
      add(s, left, top, e * south, sums);
      add(s, left + 1, top, w * south, sums);
      add(s, left, top + 1, e * n, sums);
      add(s, left + 1, top + 1, w * n, sums);
    }
  }
  const float inside = sums[3], outside = 1 - inside;
  for (int c = 0; c < 3; c++) {
    float value = sums[c];
    if (s->filled && s->filter == HRN_NEAREST) {
      value = inside < 0.5f ? s->fill[c] : value;
    } else if (s->filled && s->version == 2) {
      const float beyond = value - s->fill[c], share = beyond * inside;
      value = share + s->fill[c];
    } else if (s->filled) {
      const float of_image = value * inside, of_fill = outside * s->fill[c];
      value = of_image + of_fill;
    }
    out[c] = cut_off(whole(value));
  }
}

/* Pixel centres are counted from the middle of the image, places in the grid from -1 to 1. */
void hrn_tensor_affine(const hrn_pixel_op *op, const hrn_image *image, const hrn_image *out) {
  const sampler s = {image,
                     op->filter,
                     {(float)op->fill[0], (float)op->fill[1], (float)op->fill[2]},
                     op->args.tensor_affine.filled,
                     1};
  const double *coefficients = op->args.tensor_affine.coefficients;
  const float half[2] = {0.5f * (float)image->width, 0.5f * (float)image->height};
  float grid[2][3];
  for (int axis = 0; axis < 2; axis++) {
    for (int k = 0; k < 3; k++) grid[axis][k] = (float)coefficients[3 * axis + k] / half[axis];
  }
  /* For so few numbers torch's product rounds each operation (its contraction of below 400). */
  const int small = (int64_t)image->width * image->height <= 66;
  for (int32_t y = 0; y < out->height; y++) {
    uint8_t *pixel = row_of(out, y);
    const float down = (float)y + 0.5f - half[1];
    for (int32_t x = 0; x < out->width; x++, pixel += 4) {
      const float across = (float)x + 0.5f - half[0];
      float place[2];
      for (int axis = 0; axis < 2; axis++) {
        const float first = across * grid[axis][0];
        const float second =
            small ? first + down * grid[axis][1] : multiplied_and_added(down, grid[axis][1], first);
        const float sum = second + grid[axis][2];
        place[axis] = multiplied_and_added(sum + 1, half[axis], -0.5f);
      }
      sample(&s, place[0], place[1], pixel);
    }
  }
}

/* torch.linspace((1 - length) / length, (length - 1) / length, length)[at], which torch computes
 * from both ends. */
float hrn_identity(int32_t at, int32_t length) {
  const float start = (float)((1.0 - length) / length), end = (float)((length - 1.0) / length);
  if (length == 1) return start;
  const float step = (end - start) / (float)(length - 1);
  return at < length / 2 ? multiplied_and_added(step, (float)at, start)
                         : multiplied_and_added(-step, (float)(length - 1 - at), end);
}

void hrn_displaced_place(const float displacement[2], int32_t x, int32_t y, int32_t width,
                         int32_t height, float place[2]) {
  const int32_t at[2] = {x, y}, length[2] = {width, height};
  for (int axis = 0; axis < 2; axis++) {
    const float moved = hrn_identity(at[axis], length[axis]) + displacement[axis];
    place[axis] = multiplied_and_added(moved + 1, (float)length[axis] / 2, -0.5f);
  }
}

void hrn_tensor_displace(const hrn_pixel_op *op, const hrn_outside *outside, const float *field,
                         const hrn_image *image, const hrn_image *out) {
  const sampler s = {image,
                     op->filter,
                     {(float)op->fill[0], (float)op->fill[1], (float)op->fill[2]},
                     outside->filled,
                     outside->version};
  for (int32_t y = 0; y < out->height; y++) {
    uint8_t *pixel = row_of(out, y);
    for (int32_t x = 0; x < out->width; x++, pixel += 4, field += 2) {
      float place[2];
      hrn_displaced_place(field, x, y, image->width, image->height, place);
      sample(&s, place[0], place[1], pixel);
    }
  }
}
