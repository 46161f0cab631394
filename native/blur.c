/* blur.c: a Gaussian blur as torchvision gives it for PIL images, which it blurs as tensors: single
 * precision, the image mirrored at its edges without repeating the edge, rounded half to even.
 *
 * torchvision convolves with a two-dimensional kernel; two one-dimensional passes add up in
 * another order, so a value may differ by one.
 */
#include <math.h>
#include <string.h>

#include "pixels.h"

/* Weights of one axis, which add up to one. */
static void weigh(float *weight, int32_t size, double sigma) {
  double sum = 0;
  const double half = (size - 1) * 0.5;
  for (int32_t k = 0; k < size; k++) sum += exp(-0.5 * pow((k - half) / sigma, 2));
  for (int32_t k = 0; k < size; k++) {
    weight[k] = (float)(exp(-0.5 * pow((k - half) / sigma, 2)) / sum);
  }
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

static void blur_across(const float *line, int32_t width, const float *weight, int32_t size,
                        uint8_t *row) {
  for (int32_t x = 0; x < width; x++) {
    float sum[4] = {0, 0, 0, 0};
    for (int32_t k = 0; k < size; k++) {
      const float *pixel = line + 4 * (ptrdiff_t)(x + k);
      for (int32_t c = 0; c < 4; c++) sum[c] += weight[k] * pixel[c];
    }
    /* Weights are positive and add up to one, so no sum is below 0 or rounds above 255. */
    for (int32_t c = 0; c < 3; c++) row[4 * (size_t)x + (size_t)c] = (uint8_t)lrintf(sum[c]);
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
  float *first = scratch + 4 * (size_t)half;
  for (int32_t y = 0; y < height; y++) {
    blur_down(image, y, weight_y, down, first);
    for (int32_t k = 1; k <= half; k++) {
      memcpy(first - 4 * (size_t)k, first + 4 * (size_t)k, 4 * sizeof(float));
      memcpy(first + 4 * (size_t)(width - 1 + k), first + 4 * (size_t)(width - 1 - k),
             4 * sizeof(float));
    }
    blur_across(scratch, width, weight_x, across, out->pixels + (size_t)y * out->stride);
  }
  return HRN_OK;
}
