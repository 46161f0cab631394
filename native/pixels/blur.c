/* blur.c: a Gaussian blur as torchvision's functional.gaussian_blur makes it for PIL images, which
 * it blurs as tensors: in single precision, with the image mirrored at its edges without repeating
 * the edge, rounded half to even.
 *
 * torch convolves with a two-dimensional kernel, one fused multiply-add after the other in the
 * order of rows. Two one-dimensional passes add in another order, and are ten times faster for a
 * kernel of 23x23. So they go first. Only where their result is so close to a tie that the other
 * order might round it to the other side, the sum is made again as torch makes it.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "pixels.h"

/* Half the distance from one float to the next, for numbers from 1 to 2. */
#define UNIT 0x1p-24

/* At most one value in eight is made again. */
#define MOST_MARGIN 0.0625

/* torch's sum of a vector of floats: 4 accumulators take turns. Each has one lane below 8 values,
 * else 8 lanes. What is left over is added one by one, before the lanes. */
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

/* Computes the weights of one axis, which add up to one except for rounding. The exponential is a
 * double's, rounded. torch's own (MKL's) is another float in one case of two hundred.
 *
 * A weight below the least normal number changes no sum that rounds to a byte above 0. But each of
 * its products takes a CPU a hundred cycles: 30 ms for an image of 224 x 224. So it is set to 0. */
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

/* The middle of a kernel. At both ends as many weights are left out as add up to less than UNIT /
 * 8. What they would add to a sum of values up to 255 is counted as an error of the two passes. */
static const float *middle(const float *weight, int32_t *size) {
  float left_out = 0;
  while (*size > 1 && (left_out += 2 * weight[0]) < UNIT / 8) {
    weight++;
    *size -= 2;
  }
  return weight;
}

/* How far the two orders of one sum can be apart, as a part that is proportional to the sum and a
 * constant part. A fused addition errs by at most UNIT times what it has reached. That is not more
 * than the whole sum, and not more than 255 times the weights so far. If what it adds is less, it
 * errs by no more than that. An addition of the passes errs by UNIT times the sum, once for itself
 * and once for its product. */
static hrn_blur_doubt doubt_of(const float *across, int32_t width, const float *down,
                               int32_t height, int32_t in_passes) {
  enum { USUAL = 96 }; /* a sum at which both parts together are the least */
  double reached = 0, slope = (in_passes + 3) * UNIT, all = (2 * 255 / 8.0 + 4) * UNIT;
  for (int32_t j = 0; j < height; j++) {
    for (int32_t i = 0; i < width; i++) {
      const double weight = (double)down[j] * (double)across[i];
      reached += weight;
      const double most = 255 * fmin(UNIT * reached, weight);
      if (most < USUAL * UNIT) {
        all += most;
      } else {
        slope += UNIT;
      }
    }
  }
  slope *= 1.01;
  all *= 1.01;
  /* For a kernel of ten thousand weights too many sums would be made twice. */
  if (255 * slope + all > MOST_MARGIN) return (hrn_blur_doubt){0, 1};
  return (hrn_blur_doubt){(float)slope, (float)(0.5 - all)};
}

void hrn_blur_open_scalar(const uint8_t *pixels, size_t count, float *line) {
  for (; count > 0; count--, pixels += 4, line += 3) {
    for (int c = 0; c < 3; c++) line[c] = pixels[c];
  }
}

void hrn_blur_across_scalar(const float *line, const float *weight, int32_t size, size_t count,
                            float *sums) {
  memset(sums, 0, 3 * count * sizeof *sums);
  for (int32_t k = 0; k < size; k++, line += 3) {
    const float w = weight[k];
    for (size_t n = 0; n < 3 * count; n++) sums[n] += w * line[n];
  }
}

size_t hrn_blur_down_scalar(const float *const *row, const float *weight, int32_t size,
                            size_t first, size_t count, hrn_blur_doubt doubt, uint8_t *out,
                            uint32_t *doubtful) {
  enum { BLOCK = 24 };
  size_t doubts = 0;
  for (size_t from = 3 * first; from < 3 * count; from += BLOCK) {
    const size_t values = 3 * count - from < BLOCK ? 3 * count - from : BLOCK;
    float sum[BLOCK] = {0};
    for (int32_t k = 0; k < size; k++) {
      const float *value = row[k] + from, w = weight[k];
      for (size_t n = 0; n < values; n++) sum[n] += w * value[n];
    }
    for (size_t n = 0; n < values; n++) {
      /* Weights are positive and add up to one, so no sum is below 0 or rounds above 255. */
      const float whole = rintf(sum[n]);
      const size_t at = from + n;
      if (fabsf(sum[n] - whole) + doubt.slope * sum[n] > doubt.most) {
        doubtful[doubts++] = (uint32_t)at;
      }
      out[4 * (at / 3) + at % 3] = (uint8_t)whole;
    }
  }
  return doubts;
}

void hrn_blur_again_scalar(const hrn_blur_window *window, const hrn_blur_value *value,
                           size_t count) {
  for (; count > 0; count--, value++) {
    const int32_t x = (int32_t)(value->at / 3), y = value->row;
    const uint32_t channel = value->at % 3;
    const float *weight = window->weight;
    float sum = 0;
    for (int32_t j = 0; j < window->down; j++, weight += window->step) {
      const int32_t row = hrn_mirrored(y + j - window->down / 2, window->height);
      const uint8_t *pixels = window->pixels + (size_t)row * window->stride;
      for (int32_t i = 0; i < window->across; i++) {
        const int32_t column = hrn_mirrored(x + i - window->across / 2, window->width);
        sum = fmaf(weight[i], (float)pixels[4 * (size_t)column + channel], sum);
      }
    }
    window->out[(size_t)y * window->out_stride + 4 * (size_t)x + channel] = (uint8_t)lrintf(sum);
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

/* How many sums are made again at a time. */
#define TOGETHER 8

/* The memory of one blur: a line of an image with half a kernel on either side; its sums across,
 * for as many rows as a kernel has; both kernels and their product; the rows of sums that are added
 * up; which sums of one row must be made again, and which of all rows. */
typedef struct room {
  float *line, *sums, *across, *down, *both;
  const float **row;
  uint32_t *doubtful;
  hrn_blur_value *again;
} room;

static int take_room(hrn_context *context, int32_t width, int32_t rows, int32_t across,
                     int32_t down, int32_t step, room *found, hrn_status *status) {
  const size_t line = ((size_t)width + (size_t)across - 1) * 3, values = 3 * (size_t)width;
  const size_t sums = values * (size_t)rows, both = (size_t)step * (size_t)down;
  const size_t floats = line + sums + (size_t)across + (size_t)down + both;
  const size_t rows_bytes = (size_t)down * sizeof(float *);
  const size_t again = (values + TOGETHER) * sizeof(hrn_blur_value);
  uint8_t *scratch =
      hrn_scratch(context, HRN_SCRATCH_FILTER,
                  rows_bytes + again + floats * sizeof(float) + values * sizeof(uint32_t), status);
  if (scratch == NULL) return status->code;
  found->row = (const float **)(void *)scratch;
  found->again = (hrn_blur_value *)(void *)(scratch + rows_bytes);
  found->line = (float *)(void *)(scratch + rows_bytes + again);
  found->sums = found->line + line;
  found->across = found->sums + sums;
  found->down = found->across + across;
  found->both = found->down + down;
  found->doubtful = (uint32_t *)(void *)(found->both + both);
  return HRN_OK;
}

/* Multiplies both kernels. */
static void multiply(const float *across, int32_t width, const float *down, int32_t height,
                     int32_t step, float *both) {
  memset(both, 0, (size_t)step * (size_t)height * sizeof *both);
  for (int32_t j = 0; j < height; j++, both += step) {
    for (int32_t i = 0; i < width; i++) {
      const float weight = down[j] * across[i];
      both[i] = weight < FLT_MIN ? 0 : weight;
    }
  }
}

/* Makes the sums across one row of an image. The row is mirrored at both ends of the line. */
static void sum_across(const hrn_pixel_kernels *kernels, const uint8_t *pixels, size_t width,
                       const float *weight, int32_t size, float *line, float *sums) {
  const size_t half = (size_t)size / 2;
  float *first = line + 3 * half, *last = first + 3 * (width - 1);
  kernels->blur_open(pixels, width, first);
  for (size_t n = 3; n <= 3 * half; n += 3) {
    memcpy(first - n, first + n, 3 * sizeof(float));
    memcpy(last + n, last - n, 3 * sizeof(float));
  }
  kernels->blur_across(line, weight, size, width, sums);
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
  const int32_t kept = down < height ? down : height;
  const int32_t step = (across + HRN_BLUR_STEP - 1) / HRN_BLUR_STEP * HRN_BLUR_STEP;
  room r = {0};
  if (take_room(context, width, kept, across, down, step, &r, status) != HRN_OK) {
    return status->code;
  }
  weigh(r.across, across, blur->sigma[0]);
  weigh(r.down, down, blur->sigma[1]);
  const float *all_x = trimmed(r.across, &across), *all_y = trimmed(r.down, &down);
  multiply(all_x, across, all_y, down, step, r.both);
  const hrn_blur_window window = {image->pixels, out->pixels, image->stride, out->stride, width,
                                  height,        r.both,      across,        down,        step};
  int32_t passed_x = across, passed_y = down;
  const float *weight_x = middle(all_x, &passed_x), *weight_y = middle(all_y, &passed_y);
  const hrn_blur_doubt doubt = doubt_of(all_x, across, all_y, down, passed_x + passed_y);
  const size_t values = 3 * (size_t)width;
  size_t waiting = 0;
  int32_t summed = 0; /* number of rows summed; the last ones are kept */
  for (int32_t y = 0; y < height; y++) {
    for (; summed < height && summed <= y + passed_y / 2; summed++) {
      sum_across(kernels, image->pixels + (size_t)summed * image->stride, (size_t)width, weight_x,
                 passed_x, r.line, r.sums + values * (size_t)(summed % kept));
    }
    for (int32_t k = 0; k < passed_y; k++) {
      const int32_t row = hrn_mirrored(y + k - passed_y / 2, height);
      r.row[k] = r.sums + values * (size_t)(row % kept);
    }
    const size_t doubts = kernels->blur_down(r.row, weight_y, passed_y, 0, (size_t)width, doubt,
                                             out->pixels + (size_t)y * out->stride, r.doubtful);
    for (size_t n = 0; n < doubts; n++) r.again[waiting++] = (hrn_blur_value){y, r.doubtful[n]};
    const size_t ready = waiting / TOGETHER * TOGETHER;
    kernels->blur_again(&window, r.again, ready);
    waiting -= ready;
    memmove(r.again, r.again + ready, waiting * sizeof *r.again);
  }
  kernels->blur_again(&window, r.again, waiting);
  return HRN_OK;
}
