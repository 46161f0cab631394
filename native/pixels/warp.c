/* warp.c: affine and perspective maps of an image, as Pillow's Image.transform makes them. Each
 * output pixel looks up where its centre comes from. What comes from outside is the fill.
 *
 * For affine maps with the nearest pixel, Pillow has three ways: tables for a pure scaling, 16.16
 * fixed point, and sums in double precision if fixed point would overflow. They round differently,
 * so all three are here. With a filter there is one way for all maps; filter.c makes a pixel from a
 * place.
 */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "pixels.h"

static const uint8_t *row_at(const hrn_image *image, int32_t y) {
  return image->pixels + (size_t)y * image->stride;
}

static void nearest(const hrn_places *image, double x, double y, uint8_t *out) {
  if (!hrn_inside(image, x, y)) return;
  memcpy(out, image->pixels + (size_t)(int32_t)y * image->stride + 4 * (size_t)(int32_t)x, 4);
}

static void nearest_places(const hrn_places *places, size_t count, uint8_t *out) {
  for (size_t k = 0; k < count; k++, out += 4) {
    nearest(places, places->x[k], places->y[k], out);
  }
}

/* Makes pixels from places. */
typedef void (*lookup)(const hrn_places *places, size_t count, uint8_t *out);

static lookup lookup_of(int32_t filter) {
  const hrn_pixel_kernels *kernels = hrn_pixel_kernels_chosen();
  return filter == HRN_BILINEAR  ? kernels->bilinear
         : filter == HRN_BICUBIC ? kernels->bicubic
                                 : nearest_places;
}

static hrn_places places_of(const hrn_image *image, const double *x, const double *y) {
  return (hrn_places){image->pixels, image->stride, image->width, image->height, x, y};
}

/* How many places are looked up at a time. */
enum { PLACES = 64 };

static void paint(uint8_t *pixel, int32_t count, const uint8_t fill[4]) {
  uint32_t colour;
  memcpy(&colour, fill, 4);
  for (int32_t x = 0; x < count; x++) memcpy(pixel + 4 * (size_t)x, &colour, 4);
}

static void paint_all(const hrn_image *out, const uint8_t fill[4]) {
  for (int32_t y = 0; y < out->height; y++) {
    paint(out->pixels + (size_t)y * out->stride, out->width, fill);
  }
}

/* A scaling: uses one table of columns, which is filled by adding up. The columns inside the image
 * are one run, because the sum only goes one way. If nothing is scaled, the run is copied. */
static int scale_nearest(hrn_context *context, const hrn_pixel_op *op, const hrn_image *image,
                         const hrn_image *out, hrn_status *status) {
  const double *a = op->args.affine.coefficients;
  const int32_t width = out->width;
  int32_t *column =
      hrn_scratch(context, HRN_SCRATCH_FILTER, (size_t)width * sizeof *column, status);
  if (column == NULL) return status->code;
  int32_t first = width, end = 0;
  double at = a[2] + a[0] * 0.5;
  for (int32_t x = 0; x < width; x++, at += a[0]) {
    if (!(at >= 0.0 && at < image->width)) continue;
    column[x] = (int32_t)at;
    if (first == width) first = x;
    end = x + 1;
  }
  const int32_t count = end - first;
  int copies = count > 0;
  for (int32_t x = first; x + 1 < end; x++) copies &= column[x + 1] == column[x] + 1;
  at = a[5] + a[4] * 0.5;
  for (int32_t y = 0; y < out->height; y++, at += a[4]) {
    uint8_t *pixel = out->pixels + (size_t)y * out->stride;
    if (count <= 0 || !(at >= 0.0 && at < image->height)) {
      paint(pixel, width, op->fill);
      continue;
    }
    const uint8_t *row = row_at(image, (int32_t)at);
    paint(pixel, first, op->fill);
    paint(pixel + 4 * (size_t)end, width - end, op->fill);
    pixel += 4 * (size_t)first;
    if (copies) memcpy(pixel, row + 4 * (size_t)column[first], 4 * (size_t)count);
    for (int32_t x = first; !copies && x < end; x++, pixel += 4) {
      memcpy(pixel, row + 4 * (size_t)column[x], 4);
    }
  }
  return HRN_OK;
}

static int fits_fixed(const double *a, int32_t x, int32_t y) {
  return fabs(x * a[0] + y * a[1] + a[2]) < 32768.0 && fabs(x * a[3] + y * a[4] + a[5]) < 32768.0;
}

static int64_t fixed(double value) { return (int64_t)floor(value * 65536.0 + 0.5); }

void hrn_nearest_scalar(const hrn_nearest_row *row, size_t count, uint8_t *out) {
  int64_t at_x = row->x, at_y = row->y;
  for (size_t x = 0; x < count; x++, out += 4, at_x += row->step_x, at_y += row->step_y) {
    const int64_t in_x = at_x >> 16, in_y = at_y >> 16;
    const int inside = in_x >= 0 && in_x < row->width && in_y >= 0 && in_y < row->height;
    memcpy(out, inside ? row->pixels + (size_t)in_y * row->stride + 4 * (size_t)in_x : row->fill,
           4);
  }
}

static void fixed_nearest(const hrn_pixel_op *op, const hrn_image *image, const hrn_image *out) {
  const hrn_pixel_kernels *kernels = hrn_pixel_kernels_chosen();
  const double *a = op->args.affine.coefficients;
  hrn_nearest_row row = {.pixels = image->pixels,
                         .stride = image->stride,
                         .width = image->width,
                         .height = image->height,
                         .x = fixed(a[2] + a[0] * 0.5 + a[1] * 0.5),
                         .y = fixed(a[5] + a[3] * 0.5 + a[4] * 0.5),
                         .step_x = fixed(a[0]),
                         .step_y = fixed(a[3])};
  memcpy(row.fill, op->fill, 4);
  const int64_t down_x = fixed(a[1]), down_y = fixed(a[4]);
  for (int32_t y = 0; y < out->height; y++, row.x += down_x, row.y += down_y) {
    kernels->nearest(&row, (size_t)out->width, out->pixels + (size_t)y * out->stride);
  }
}

static void summed_nearest(const double *a, const hrn_image *image, const hrn_image *out) {
  const hrn_places places = places_of(image, NULL, NULL);
  double row_x = a[2] + a[1] * 0.5 + a[0] * 0.5, row_y = a[5] + a[4] * 0.5 + a[3] * 0.5;
  for (int32_t y = 0; y < out->height; y++, row_x += a[1], row_y += a[4]) {
    double at_x = row_x, at_y = row_y;
    uint8_t *pixel = out->pixels + (size_t)y * out->stride;
    for (int32_t x = 0; x < out->width; x++, pixel += 4, at_x += a[0], at_y += a[3]) {
      nearest(&places, at_x, at_y, pixel);
    }
  }
}

static void filtered(const hrn_pixel_op *op, const hrn_image *image, const hrn_image *out) {
  const double *a = op->args.affine.coefficients;
  const lookup look = lookup_of(op->filter);
  double in_x[PLACES], in_y[PLACES];
  const hrn_places places = places_of(image, in_x, in_y);
  for (int32_t y = 0; y < out->height; y++) {
    uint8_t *pixel = out->pixels + (size_t)y * out->stride;
    for (int32_t x = 0; x < out->width; x += PLACES, pixel += 4 * (size_t)PLACES) {
      const int32_t count = out->width - x < PLACES ? out->width - x : PLACES;
      for (int32_t k = 0; k < count; k++) {
        in_x[k] = a[0] * (x + k + 0.5) + a[1] * (y + 0.5) + a[2];
        in_y[k] = a[3] * (x + k + 0.5) + a[4] * (y + 0.5) + a[5];
      }
      look(&places, (size_t)count, pixel);
    }
  }
}

int hrn_affine(hrn_context *context, const hrn_pixel_op *op, const hrn_image *image,
               const hrn_image *out, hrn_status *status) {
  const double *a = op->args.affine.coefficients;
  const int32_t width = out->width, height = out->height;
  if (op->filter == HRN_NEAREST && a[1] == 0 && a[3] == 0) {
    return scale_nearest(context, op, image, out, status);
  }
  if (op->filter == HRN_NEAREST && fits_fixed(a, 0, 0) && fits_fixed(a, width, height) &&
      fits_fixed(a, 0, height) && fits_fixed(a, width, 0)) {
    fixed_nearest(op, image, out);
    return HRN_OK;
  }
  paint_all(out, op->fill);
  if (op->filter != HRN_NEAREST) {
    filtered(op, image, out);
    return HRN_OK;
  }
  summed_nearest(a, image, out);
  return HRN_OK;
}

void hrn_perspective(const hrn_pixel_op *op, const hrn_image *image, const hrn_image *out) {
  const double *a = op->args.perspective;
  const lookup look = lookup_of(op->filter);
  double in_x[PLACES], in_y[PLACES];
  const hrn_places places = places_of(image, in_x, in_y);
  paint_all(out, op->fill);
  for (int32_t y = 0; y < out->height; y++) {
    uint8_t *pixel = out->pixels + (size_t)y * out->stride;
    for (int32_t x = 0; x < out->width; x += PLACES, pixel += 4 * (size_t)PLACES) {
      const int32_t count = out->width - x < PLACES ? out->width - x : PLACES;
      for (int32_t k = 0; k < count; k++) {
        const double depth = a[6] * (x + k + 0.5) + a[7] * (y + 0.5) + 1;
        in_x[k] = (a[0] * (x + k + 0.5) + a[1] * (y + 0.5) + a[2]) / depth;
        in_y[k] = (a[3] * (x + k + 0.5) + a[4] * (y + 0.5) + a[5]) / depth;
      }
      look(&places, (size_t)count, pixel);
    }
  }
}
