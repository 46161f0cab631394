/* maskwarp.c: warps a mask as torchvision's v2 warps a Mask: as a tensor, in single precision. Each
 * output shows the nearest source (torchvision's transforms/v2/functional/_geometry.py, torch's
 * grid_sample). */
#include "maskwarp.h"

#include <math.h>
#include <stddef.h>

/* a * b + c, rounded once at the end, as MKL's matrix products, which torch uses, round it on
 * Intel's CPUs with AVX-512. On other CPUs they round the product, too. Doubles hold the product
 * exactly. */
static float multiply_add(float a, float b, float c) {
  return (float)((double)a * (double)b + (double)c);
}

/* grid_sample(mode="nearest", align_corners=False): which pixel a coordinate from -1 to 1 is in, or
 * -1 for outside. It is written so that NaN is outside. */
static int32_t nearest(float coordinate, int32_t length) {
  const float at = rintf((coordinate + 1) * ((float)length / 2) - 0.5f);
  return at > -1 && at < (float)length ? (int32_t)at : -1;
}

/* torchvision's _affine_grid, whose origin is the middle of the image. */
void hrn_warp_mask_affine(const uint8_t *mask, int32_t width, int32_t height, const double *m,
                          uint8_t *out, int32_t to_width, int32_t to_height, uint8_t fill) {
  const double half[2] = {width * 0.5, height * 0.5};
  float theta[2][3];
  for (int axis = 0; axis < 2; axis++) {
    const double *row = m + 3 * axis;
    double shift = row[2] + row[0] * to_width * 0.5 + row[1] * to_height * 0.5 - half[axis];
    if (fabs(shift) < 1e-9) shift = 0; /* nothing but rounding */
    const double all[3] = {row[0], row[1], shift};
    for (int k = 0; k < 3; k++) theta[axis][k] = (float)all[k] / (float)half[axis];
  }
  for (int32_t y = 0; y < to_height; y++) {
    const float down = (float)(y - (to_height - 1) * 0.5);
    for (int32_t x = 0; x < to_width; x++) {
      const float across = (float)(x - (to_width - 1) * 0.5);
      float at[2];
      for (int axis = 0; axis < 2; axis++) {
        const float *t = theta[axis];
        at[axis] = multiply_add(down, t[1], across * t[0]) + t[2];
      }
      const int32_t column = nearest(at[0], width), row = nearest(at[1], height);
      *out++ = column < 0 || row < 0 ? fill : mask[(size_t)row * (size_t)width + (size_t)column];
    }
  }
}

/* torchvision's _perspective_grid. */
void hrn_warp_mask_perspective(const uint8_t *mask, int32_t width, int32_t height, const double *m,
                               uint8_t *out, uint8_t fill) {
  const float half[2] = {(float)(width * 0.5), (float)(height * 0.5)};
  float theta[2][3];
  for (int k = 0; k < 6; k++) theta[k / 3][k % 3] = (float)m[k] / half[k / 3];
  const float depth[2] = {(float)m[6], (float)m[7]};
  for (int32_t y = 0; y < height; y++) {
    const float down = (float)y + 0.5f;
    for (int32_t x = 0; x < width; x++) {
      const float across = (float)x + 0.5f;
      const float below = multiply_add(down, depth[1], across * depth[0]) + 1;
      float at[2];
      for (int axis = 0; axis < 2; axis++) {
        const float *t = theta[axis];
        at[axis] = (multiply_add(down, t[1], across * t[0]) + t[2]) / below - 1;
      }
      const int32_t column = nearest(at[0], width), row = nearest(at[1], height);
      *out++ = column < 0 || row < 0 ? fill : mask[(size_t)row * (size_t)width + (size_t)column];
    }
  }
}
