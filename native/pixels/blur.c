/* blur.c: a Gaussian blur as torchvision's functional.gaussian_blur gives it for PIL images, which
 * it blurs as tensors: single precision, the image mirrored at its edges without repeating the
 * edge, rounded half to even.
 *
 * torch convolves with a two-dimensional kernel, one fused multiply-add after the other in the
 * order of rows. Two one-dimensional passes add up in another order, and are ten times faster for a
 * kernel of 23x23. So they go first, and where their result lies so close to a tie that the other
 * order might round it to the other side, and only there, the sum is made again as torch makes it.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "pixels.h"

/* Half the distance of a float to the next, for numbers from 1 to 2. */
#define UNIT 0x1p-24

/* One value in eight is made anew at most. */
#define MOST_MARGIN 0.0625

/* torch's sum of a vector of floats: 4 accumulators take turns, of one lane below 8 values, else of
 * 8 lanes; what is left over is added one by one, before the lanes. */
static float torch_sum(const float *value, int32_t count) {
  const int32_t lanes = count < 8 ? 1 : 8, vectors = count / lanes, turns = vectors / 4;
  float sums[4][8] = {{0}};
  for (int32_t v = 0; v < vectors; v++) {
    float *sum = sums[v < 4 * turns ? v % 4 : 0];
    for (int32_t lane = 0; lane < lanes; lane++) sum[lane] += value[v * lanes + lane];
  }
  float total = 0;
  for (int32_t k = vectors * lanes; k < count; k++) total += value[k];
  for (int32_t lane = 0; lane < lanes; lane++) {
    float sum = sums[0][lane];
    for (int32_t k = 1; k < 4; k++) sum += sums[k][lane];
    total += sum;
  }
  return total;
}

/* Weights of one axis, which add up to one but for rounding. The exponential is the double's
 * rounded; torch's own (MKL's) is another float in one case of two hundred.
 *
 * A weight below the least normal number changes no sum that rounds to a byte above 0, but each of
 * its products takes a CPU a hundred cycles: 30 ms an image of 224 x 224. So it is set to 0. */
static void weigh(float *weight, int32_t size, double sigma) {
  const float half = (float)(size - 1) * 0.5f;
  for (int32_t k = 0; k < size; k++) {
    const float distance = ((float)k - half) / (float)sigma;
    weight[k] = (float)exp((double)(-0.5f * (distance * distance)));
  }
  const float sum = torch_sum(weight, size);
  for (int32_t k = 0; k < size; k++) {
    weight[k] /= sum;
    if (weight[k] < FLT_MIN) weight[k] = 0;
  }
}

/* How far the two orders of one sum can lie apart, for values up to 255. An addition errs by at
 * most UNIT of what it has come to, and, where that is less, by what it adds. */
static float margin(const float *across, int32_t width, const float *down, int32_t height) {
  double reached = 0, error = (width + height + 3) * UNIT;
  for (int32_t j = 0; j < height; j++) {
    for (int32_t i = 0; i < width; i++) {
      const double weight = (double)down[j] * (double)across[i];
      reached += weight;
      error += fmin(UNIT * reached, weight);
    }
  }
  error *= 255 * 1.01;
  /* Of a kernel of ten thousand weights too many sums would be made twice. */
  return error > MOST_MARGIN ? 0 : (float)error;
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

size_t hrn_blur_across_scalar(const float *line, const float *weight, int32_t size, size_t count,
                              float margin, uint8_t *out, uint32_t *doubtful) {
  size_t doubts = 0;
  for (size_t x = 0; x < count; x++, line += 4) {
    float sum[4] = {0, 0, 0, 0};
    for (int32_t k = 0; k < size; k++) {
      const float *pixel = line + 4 * (ptrdiff_t)k;
      for (int32_t c = 0; c < 4; c++) sum[c] += weight[k] * pixel[c];
    }
    for (size_t c = 0; c < 3; c++) {
      /* Weights are positive and add up to one, so no sum is below 0 or rounds above 255. */
      const float whole = rintf(sum[c]);
      if (fabsf(sum[c] - whole) > 0.5f - margin) doubtful[doubts++] = (uint32_t)(4 * x + c);
      out[4 * x + c] = (uint8_t)whole;
    }
  }
  return doubts;
}

void hrn_blur_again_scalar(const hrn_blur_window *window, const uint32_t *value, size_t count,
                           uint8_t *out) {
  for (size_t n = 0; n < count; n++) {
    const int32_t x = (int32_t)(value[n] / 4);
    const uint32_t channel = value[n] % 4;
    const float *weight = window->weight;
    float sum = 0;
    for (int32_t j = 0; j < window->down; j++) {
      for (int32_t i = 0; i < window->across; i++) {
        const int32_t column = hrn_mirrored(x + i - window->across / 2, window->width);
        sum = fmaf(*weight++, (float)window->row[j][4 * (size_t)column + channel], sum);
      }
    }
    out[value[n]] = (uint8_t)lrintf(sum);
  }
}

/* Leaves out the weights of 0 at both ends. */
static const float *trimmed(const float *weight, int32_t *size) {
  while (*size > 1 && weight[0] == 0) {
    weight++;
    *size -= 2;
  }
  return weight;
}

/* What one blur holds: a line with half a kernel on either side, both kernels and their product,
 * the rows that are added up, and the places of sums to make again. */
typedef struct room {
  float *line, *across, *down, *both;
  const uint8_t **row;
  uint32_t *doubtful;
} room;

static int take_room(hrn_context *context, int32_t width, int32_t across, int32_t down, room *found,
                     hrn_status *status) {
  const size_t line = ((size_t)width + (size_t)across - 1) * 4, values = 3 * (size_t)width;
  const size_t floats = line + (size_t)across + (size_t)down + (size_t)across * (size_t)down;
  const size_t rows = (size_t)down * sizeof(uint8_t *);
  uint8_t *scratch = hrn_scratch(context, HRN_SCRATCH_FILTER,
                                 rows + floats * sizeof(float) + values * sizeof(uint32_t), status);
  if (scratch == NULL) return status->code;
  found->row = (const uint8_t **)(void *)scratch;
  found->line = (float *)(void *)(scratch + rows);
  found->across = found->line + line;
  found->down = found->across + across;
  found->both = found->down + down;
  found->doubtful = (uint32_t *)(void *)(found->line + floats);
  return HRN_OK;
}

int hrn_gaussian_blur(hrn_context *context, const hrn_pixel_blur *blur, const hrn_image *image,
                      const hrn_image *out, hrn_status *status) {
  const hrn_pixel_kernels *kernels = hrn_pixel_kernels_chosen();
  int32_t across = blur->kernel[0], down = blur->kernel[1];
  const int32_t width = image->width, height = image->height;
  if (across / 2 >= width || down / 2 >= height) {
    return hrn_fail(status, HRN_ARGUMENT, -1,
                    "a blur kernel of %dx%d pixels needs an image of more than %dx%d; this one has "
                    "%dx%d",
                    across, down, across / 2, down / 2, width, height);
  }
  room r = {0};
  if (take_room(context, width, across, down, &r, status) != HRN_OK) return status->code;
  weigh(r.across, across, blur->sigma[0]);
  weigh(r.down, down, blur->sigma[1]);
  const float *weight_x = trimmed(r.across, &across), *weight_y = trimmed(r.down, &down);
  const float near = margin(weight_x, across, weight_y, down);
  for (int32_t j = 0; j < down; j++) {
    for (int32_t i = 0; i < across; i++) {
      const float both = weight_y[j] * weight_x[i];
      r.both[j * across + i] = both < FLT_MIN ? 0 : both;
    }
  }
  const hrn_blur_window window = {r.row, r.both, across, down, width};
  const int32_t half = across / 2;
  float *first = r.line + 4 * (size_t)half;
  for (int32_t y = 0; y < height; y++) {
    for (int32_t k = 0; k < down; k++) {
      r.row[k] = image->pixels + (size_t)hrn_mirrored(y + k - down / 2, height) * image->stride;
    }
    kernels->blur_down(r.row, weight_y, down, (size_t)width, first);
    for (int32_t n = 1; n <= half; n++) {
      memcpy(first - 4 * (size_t)n, first + 4 * (size_t)n, 4 * sizeof(float));
      memcpy(first + 4 * (size_t)(width - 1 + n), first + 4 * (size_t)(width - 1 - n),
             4 * sizeof(float));
    }
    uint8_t *line = out->pixels + (size_t)y * out->stride;
    const size_t doubts =
        kernels->blur_across(r.line, weight_x, across, (size_t)width, near, line, r.doubtful);
    kernels->blur_again(&window, r.doubtful, doubts, line);
  }
  return HRN_OK;
}
