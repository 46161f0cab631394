/* maps.c: the coefficients of warps. Formulas and the order of operations are torchvision's
 * (_get_inverse_affine_matrix, _get_perspective_coeffs) and Pillow's (Image.rotate), because a last
 * bit may decide which pixel is nearest. */
#include <math.h>
#include <string.h>

#include "pixel_draw.h"

static double radians(double degrees) { return degrees * (3.14159265358979323846 / 180.0); }

/* v2's terms are v1's in another order. */
static void affine_map_of_v2(const double centre[2], double angle, const double translate[2],
                             double scale, const double shear[2], double m[6]) {
  const double turn = radians(angle), sx = radians(shear[0]), sy = radians(shear[1]);
  const double a = cos(turn - sy) / cos(sy);
  const double b = -(a * tan(sx) + sin(turn));
  const double c = sin(turn - sy) / cos(sy);
  const double d = cos(turn) - c * tan(sx);
  const double x = centre[0] + translate[0], y = centre[1] + translate[1];
  m[0] = d / scale;
  m[1] = -b / scale;
  m[3] = -c / scale;
  m[4] = a / scale;
  m[2] = centre[0] - m[0] * x - m[1] * y;
  m[5] = centre[1] - m[3] * x - m[4] * y;
}

void hrn_affine_map(int32_t version, const double centre[2], double angle,
                    const double translate[2], double scale, const double shear[2], double m[6]) {
  if (version == 2) {
    affine_map_of_v2(centre, angle, translate, scale, shear, m);
    return;
  }
  const double turn = radians(angle), sx = radians(shear[0]), sy = radians(shear[1]);
  const double a = cos(turn - sy) / cos(sy);
  const double b = -cos(turn - sy) * tan(sx) / cos(sy) - sin(turn);
  const double c = sin(turn - sy) / cos(sy);
  const double d = -sin(turn - sy) * tan(sx) / cos(sy) + cos(turn);
  m[0] = d / scale;
  m[1] = -b / scale;
  m[2] = 0.0 / scale;
  m[3] = -c / scale;
  m[4] = a / scale;
  m[5] = 0.0 / scale;
  const double x = -centre[0] - translate[0], y = -centre[1] - translate[1];
  m[2] += m[0] * x + m[1] * y;
  m[5] += m[3] * x + m[4] * y;
  m[2] += centre[0];
  m[5] += centre[1];
}

/* Python's round(x, 15) for |x| <= 1, which rounds the exact value to the nearest decimal. The
 * product with 10^15 is rounded to eighths. So only if it shows a tie, the exact value may lie
 * beside it. */
static double rounded(double value) {
  const double scaled = value * 1e15, below = floor(scaled);
  double whole = rint(scaled);
  if (scaled - below == 0.5) {
    const double rest = fma(value, 1e15, -scaled);
    if (rest != 0) whole = rest > 0 ? below + 1 : below;
  }
  return whole / 1e15;
}

/* As Image.rotate with expand: the smallest whole size that holds the turned image, and the map
 * moved so that the image is in its middle. */
static void expand_map(int32_t width, int32_t height, double m[6], int32_t size[2]) {
  const double corner[4][2] = {{0, 0}, {width, 0}, {width, height}, {0, height}};
  double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
  for (int k = 0; k < 4; k++) {
    for (int axis = 0; axis < 2; axis++) {
      const double *row = m + 3 * axis;
      const double at = row[0] * corner[k][0] + row[1] * corner[k][1] + row[2];
      low[axis] = fmin(low[axis], at);
      high[axis] = fmax(high[axis], at);
    }
  }
  for (int axis = 0; axis < 2; axis++) {
    size[axis] = (int32_t)(ceil(high[axis]) - floor(low[axis]));
  }
  const double x = -(size[0] - width) / 2.0, y = -(size[1] - height) / 2.0;
  const double across = m[0] * x + m[1] * y + m[2];
  m[5] = m[3] * x + m[4] * y + m[5];
  m[2] = across;
}

void hrn_rotation_map(double angle, const double *centre, int expand, int32_t width, int32_t height,
                      double m[6], int32_t *filter, int32_t size[2]) {
  size[0] = size[1] = 0;
  double turn = fmod(angle, 360.0);
  if (turn < 0) turn += 360.0;
  if (centre == NULL) {
    /* Quarter turns are transpositions: they need no filter, and have integer coefficients. */
    const double w = width, h = height;
    const double none[6] = {1, 0, 0, 0, 1, 0}, half[6] = {-1, 0, w, 0, -1, h};
    const double left[6] = {0, -1, w, 1, 0, 0}, right[6] = {0, 1, 0, -1, 0, h};
    const double *found = NULL;
    if (turn == 0) found = none;
    if (turn == 180) found = half;
    if (turn == 90 && (expand || width == height)) found = left;
    if (turn == 270 && (expand || width == height)) found = right;
    if (found != NULL) {
      if (found == left || found == right) {
        size[0] = height;
        size[1] = width;
      }
      memcpy(m, found, sizeof none);
      *filter = HRN_NEAREST;
      return;
    }
  }
  const double middle[2] = {width / 2.0, height / 2.0};
  if (centre == NULL) centre = middle;
  const double back = -radians(turn);
  m[0] = rounded(cos(back));
  m[1] = rounded(sin(back));
  m[3] = rounded(-sin(back));
  m[4] = rounded(cos(back));
  m[2] = m[0] * -centre[0] + m[1] * -centre[1] + 0.0;
  m[5] = m[3] * -centre[0] + m[4] * -centre[1] + 0.0;
  m[2] += centre[0];
  m[5] += centre[1];
  if (expand) expand_map(width, height, m, size);
}

/* Solves a * x = b by elimination with the largest pivot. 0 if the matrix is singular. */
static int solve(double a[8][9]) {
  for (int column = 0; column < 8; column++) {
    int best = column;
    for (int row = column + 1; row < 8; row++) {
      if (fabs(a[row][column]) > fabs(a[best][column])) best = row;
    }
    if (fabs(a[best][column]) < 1e-9) return 0;
    double swap[9];
    memcpy(swap, a[best], sizeof swap);
    memcpy(a[best], a[column], sizeof swap);
    memcpy(a[column], swap, sizeof swap);
    for (int row = 0; row < 8; row++) {
      if (row == column) continue;
      const double factor = a[row][column] / a[column][column];
      for (int k = column; k < 9; k++) a[row][k] -= factor * a[column][k];
    }
  }
  return 1;
}

int hrn_perspective_map(const double corners[8], int32_t width, int32_t height, double m[8]) {
  const double to[8] = {0, 0, width - 1, 0, width - 1, height - 1, 0, height - 1};
  double a[8][9];
  memset(a, 0, sizeof a);
  for (int k = 0; k < 4; k++) {
    const double x = corners[2 * k], y = corners[2 * k + 1];
    for (int axis = 0; axis < 2; axis++) {
      double *row = a[2 * k + axis];
      row[3 * axis] = x;
      row[3 * axis + 1] = y;
      row[3 * axis + 2] = 1;
      row[6] = -to[2 * k + axis] * x;
      row[7] = -to[2 * k + axis] * y;
      row[8] = to[2 * k + axis];
    }
  }
  if (!solve(a)) return 0;
  /* torchvision keeps the solution in single precision. */
  for (int k = 0; k < 8; k++) m[k] = (double)(float)(a[k][8] / a[k][k]);
  return 1;
}
