/* filter.c: makes one pixel from several around a place, as Pillow's Image.transform does: in
 * double precision, truncated. filter_avx2.c gives the same bytes. */
#include <math.h>

#include "kernels.h"

static const uint8_t *row_at(const hrn_places *image, int32_t y) {
  return image->pixels + (size_t)y * image->stride;
}

static int32_t clamped(int32_t at, int32_t length) {
  return at < 0 ? 0 : at < length ? at : length - 1;
}

static void bilinear(const hrn_places *image, double x, double y, uint8_t *out) {
  if (!hrn_inside(image, x, y)) return;
  x -= 0.5;
  y -= 0.5;
  const int32_t left = (int32_t)floor(x), top = (int32_t)floor(y);
  const double dx = x - left, dy = y - top;
  const uint8_t *row = row_at(image, clamped(top, image->height));
  const size_t x0 = 4 * (size_t)clamped(left, image->width);
  const size_t x1 = 4 * (size_t)clamped(left + 1, image->width);
  const uint8_t *next = top + 1 < image->height ? row_at(image, top + 1) : NULL;
  for (size_t c = 0; c < 3; c++) {
    const double a = row[x0 + c] + (row[x1 + c] - row[x0 + c]) * dx;
    double b = a;
    if (next != NULL) b = next[x0 + c] + (next[x1 + c] - next[x0 + c]) * dx;
    out[c] = (uint8_t)(a + (b - a) * dy);
  }
}

/* Cubic convolution with a = -1 as a polynomial in d, in Pillow's order of operations. */
static double cubic(double v1, double v2, double v3, double v4, double d) {
  const double p2 = -v1 + v3, p3 = 2 * (v1 - v2) + v3 - v4, p4 = -v1 + v2 - v3 + v4;
  return v2 + d * (p2 + d * (p3 + d * p4));
}

static void bicubic(const hrn_places *image, double x, double y, uint8_t *out) {
  if (!hrn_inside(image, x, y)) return;
  x -= 0.5;
  y -= 0.5;
  const int32_t left = (int32_t)floor(x) - 1, top = (int32_t)floor(y) - 1;
  const double dx = x - (left + 1), dy = y - (top + 1);
  size_t at[4];
  for (int32_t k = 0; k < 4; k++) at[k] = 4 * (size_t)clamped(left + k, image->width);
  for (size_t c = 0; c < 3; c++) {
    /* A row that is missing below or above is replaced by the one before it. */
    double v[4];
    for (int32_t k = 0; k < 4; k++) {
      if (k > 0 && !(top + k >= 0 && top + k < image->height)) {
        v[k] = v[k - 1];
        continue;
      }
      const uint8_t *row = row_at(image, clamped(top + k, image->height)) + c;
      v[k] = cubic(row[at[0]], row[at[1]], row[at[2]], row[at[3]], dx);
    }
    const double value = cubic(v[0], v[1], v[2], v[3], dy);
    out[c] = (uint8_t)(value <= 0.0 ? 0 : value >= 255.0 ? 255 : value);
  }
}

void hrn_bilinear_scalar(const hrn_places *places, size_t count, uint8_t *out) {
  for (size_t k = 0; k < count; k++) bilinear(places, places->x[k], places->y[k], out + 4 * k);
}

void hrn_bicubic_scalar(const hrn_places *places, size_t count, uint8_t *out) {
  for (size_t k = 0; k < count; k++) bicubic(places, places->x[k], places->y[k], out + 4 * k);
}
