/* blur.c: a Gaussian blur as torchvision gives it for PIL images, which it blurs as tensors: single
 * precision, the image mirrored at its edges without repeating the edge, rounded half to even.
 *
 * torchvision convolves with a two-dimensional kernel; two one-dimensional passes add up in
 * another order, so a value may differ by one.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "dispatch.h"
#include "pixels.h"

/* Weights of one axis, which add up to one. What is below the least normal number moves no sum that
 * is rounded to a byte, but its products take a CPU a hundred cycles each, so it is none. */
static void weigh(float *weight, int32_t size, double sigma) {
  double sum = 0;
  const double half = (size - 1) * 0.5;
  for (int32_t k = 0; k < size; k++) sum += exp(-0.5 * pow((k - half) / sigma, 2));
  for (int32_t k = 0; k < size; k++) {
    weight[k] = (float)(exp(-0.5 * pow((k - half) / sigma, 2)) / sum);
    if (weight[k] < FLT_MIN) weight[k] = 0;
  }
}

static int32_t mirrored(int32_t at, int32_t length) {
  if (at < 0) at = -at;
  return at < length ? at : 2 * (length - 1) - at;
}

void hrn_blur_down_scalar(const uint8_t *const *row, const float *weight, int32_t size,
                          size_t count, float *line) {
  memset(line, 0, 4 * count * sizeof *line);
  for (int32_t k = 0; k < size; k++) {
    const uint8_t *value = row[k];
    const float w = weight[k];
    for (size_t n = 0; n < 4 * count; n++) line[n] += w * (float)value[n];
  }
}

void hrn_blur_across_scalar(const float *line, const float *weight, int32_t size, size_t count,
                            uint8_t *out) {
  for (size_t x = 0; x < count; x++, line += 4, out += 4) {
    float sum[4] = {0, 0, 0, 0};
    for (int32_t k = 0; k < size; k++) {
      const float *pixel = line + 4 * (ptrdiff_t)k;
      for (int32_t c = 0; c < 4; c++) sum[c] += weight[k] * pixel[c];
    }
    /* Weights are positive and add up to one, so no sum is below 0 or rounds above 255. */
    for (int32_t c = 0; c < 3; c++) out[c] = (uint8_t)lrintf(sum[c]);
  }
}

/* How many weights on either side are 0, and need no product. */
static int32_t outer_zeros(const float *weight, int32_t size) {
  int32_t zeros = 0;
  while (zeros < size / 2 && weight[zeros] == 0) zeros++;
  return zeros;
}

int hrn_gaussian_blur(hrn_context *context, const hrn_pixel_op *op, const hrn_image *image,
                      const hrn_image *out, hrn_status *status) {
  const hrn_pixel_kernels *kernels = hrn_kernels_chosen()->pixels;
  int32_t across = op->i[0], down = op->i[1];
  const int32_t width = image->width, height = image->height;
  if (across / 2 >= width || down / 2 >= height) {
    return hrn_fail(status, HRN_ARGUMENT, -1,
                    "a blur kernel of %dx%d pixels needs an image of more than %dx%d; this one has "
                    "%dx%d",
                    across, down, across / 2, down / 2, width, height);
  }
  /* The rows that are added up, both kernels, and a line with half a kernel on either side. */
  const size_t rows = (size_t)down * sizeof(uint8_t *);
  const size_t line = ((size_t)width + (size_t)across - 1) * 4;
  uint8_t *scratch =
      hrn_scratch(context, HRN_SCRATCH_FILTER,
                  rows + (line + (size_t)across + (size_t)down) * sizeof(float), status);
  if (scratch == NULL) return status->code;
  const uint8_t **row = (const uint8_t **)(void *)scratch;
  float *sums = (float *)(void *)(scratch + rows);
  float *weight_x = sums + line, *weight_y = weight_x + across;
  weigh(weight_x, across, op->p[0]);
  weigh(weight_y, down, op->p[1]);
  const int32_t zeros_x = outer_zeros(weight_x, across), zeros_y = outer_zeros(weight_y, down);
  weight_x += zeros_x, across -= 2 * zeros_x;
  weight_y += zeros_y, down -= 2 * zeros_y;
  const int32_t half = across / 2;
  float *first = sums + 4 * (size_t)half;
  for (int32_t y = 0; y < height; y++) {
    for (int32_t k = 0; k < down; k++) {
      row[k] = image->pixels + (size_t)mirrored(y + k - down / 2, height) * image->stride;
    }
    kernels->blur_down(row, weight_y, down, (size_t)width, first);
    for (int32_t k = 1; k <= half; k++) {
      memcpy(first - 4 * (size_t)k, first + 4 * (size_t)k, 4 * sizeof(float));
      memcpy(first + 4 * (size_t)(width - 1 + k), first + 4 * (size_t)(width - 1 - k),
             4 * sizeof(float));
    }
    kernels->blur_across(sums, weight_x, across, (size_t)width,
                         out->pixels + (size_t)y * out->stride);
  }
  return HRN_OK;
}
