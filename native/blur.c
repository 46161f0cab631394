/* blur.c: a Gaussian blur as torchvision's functional.gaussian_blur gives it for PIL images, which
 * it blurs as tensors: single precision, the image mirrored at its edges without repeating the
 * edge, rounded half to even.
 *
 * torch convolves with a two-dimensional kernel, one fused multiply-add after the other in the
 * order of rows. Two one-dimensional passes add up in another order, and are ten times faster for a
 * kernel of 23x23. So they go first, and where their result lies so close to a tie that the other
 * order might round it to the other side, and only there, the sum is made again as torch makes it.
 */
#include <math.h>
#include <string.h>

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
 * rounded; torch's own (MKL's) is another float in one case of two hundred. */
static void weigh(float *weight, int32_t size, double sigma) {
  const float half = (float)(size - 1) * 0.5f;
  for (int32_t k = 0; k < size; k++) {
    const float distance = ((float)k - half) / (float)sigma;
    weight[k] = (float)exp((double)(-0.5f * (distance * distance)));
  }
  const float sum = torch_sum(weight, size);
  for (int32_t k = 0; k < size; k++) weight[k] /= sum;
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

static int32_t mirrored(int32_t at, int32_t length) {
  if (at < 0) at = -at;
  return at < length ? at : 2 * (length - 1) - at;
}

/* One line of sums over the rows around y; four lanes a pixel, of which the last means nothing. */
static void blur_down(const hrn_image *image, int32_t y, const float *weight, int32_t size,
                      float *line) {
  const size_t count = (size_t)image->width * 4;
  memset(line, 0, count * sizeof *line);
  for (int32_t k = 0; k < size; k++) {
    const uint8_t *row =
        image->pixels + (size_t)mirrored(y + k - size / 2, image->height) * image->stride;
    const float w = weight[k];
    for (size_t n = 0; n < count; n++) line[n] += w * (float)row[n];
  }
}

/* A kernel of two axes over an image. */
typedef struct kernel {
  const hrn_image *image;
  const float *across, *down;
  int32_t width, height;
  float margin;
} kernel;

/* One channel of one pixel in torch's order. */
static float sum_in_order(const kernel *k, int32_t x, int32_t y, size_t channel) {
  const hrn_image *image = k->image;
  float sum = 0;
  for (int32_t j = 0; j < k->height; j++) {
    const int32_t row = mirrored(y + j - k->height / 2, image->height);
    const uint8_t *values = image->pixels + (size_t)row * image->stride + channel;
    for (int32_t i = 0; i < k->width; i++) {
      const float weight = k->down[j] * k->across[i];
      const int32_t column = mirrored(x + i - k->width / 2, image->width);
      sum = fmaf(weight, (float)values[4 * (size_t)column], sum);
    }
  }
  return sum;
}

static void blur_across(const kernel *k, const float *line, int32_t y, uint8_t *row) {
  for (int32_t x = 0; x < k->image->width; x++) {
    float sum[4] = {0, 0, 0, 0};
    for (int32_t i = 0; i < k->width; i++) {
      const float *pixel = line + 4 * (ptrdiff_t)(x + i);
      for (int32_t c = 0; c < 4; c++) sum[c] += k->across[i] * pixel[c];
    }
    for (size_t c = 0; c < 3; c++) {
      float value = sum[c];
      if (fabsf(value - rintf(value)) > 0.5f - k->margin) value = sum_in_order(k, x, y, c);
      /* Weights are positive and add up to one, so no sum is below 0 or rounds above 255. */
      row[4 * (size_t)x + c] = (uint8_t)lrintf(value);
    }
  }
}

int hrn_gaussian_blur(hrn_context *context, const hrn_pixel_op *op, const hrn_image *image,
                      const hrn_image *out, hrn_status *status) {
  const int32_t across = op->i[0], down = op->i[1], half = across / 2;
  const int32_t width = image->width, height = image->height;
  if (half >= width || down / 2 >= height) {
    return hrn_fail(status, HRN_ARGUMENT, -1,
                    "a blur kernel of %dx%d pixels needs an image of more than %dx%d; this one has "
                    "%dx%d",
                    across, down, half, down / 2, width, height);
  }
  /* Both kernels, and a line with half a kernel on either side. */
  const size_t line = ((size_t)width + 2 * (size_t)half) * 4;
  float *scratch = hrn_scratch(context, HRN_SCRATCH_FILTER,
                               (line + (size_t)across + (size_t)down) * sizeof(float), status);
  if (scratch == NULL) return status->code;
  float *weight_x = scratch + line, *weight_y = weight_x + across;
  weigh(weight_x, across, op->p[0]);
  weigh(weight_y, down, op->p[1]);
  const kernel k = {image,  weight_x, weight_y,
                    across, down,     margin(weight_x, across, weight_y, down)};
  float *first = scratch + 4 * (size_t)half;
  for (int32_t y = 0; y < height; y++) {
    blur_down(image, y, weight_y, down, first);
    for (int32_t n = 1; n <= half; n++) {
      memcpy(first - 4 * (size_t)n, first + 4 * (size_t)n, 4 * sizeof(float));
      memcpy(first + 4 * (size_t)(width - 1 + n), first + 4 * (size_t)(width - 1 - n),
             4 * sizeof(float));
    }
    blur_across(&k, scratch, y, out->pixels + (size_t)y * out->stride);
  }
  return HRN_OK;
}
