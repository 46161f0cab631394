/* pillowblur.c: Pillow's ImageFilter.GaussianBlur, which timm uses: three box blurs across and
 * three down. The ends of a box count only in part (Gwosdek et al., "Theoretical foundations of
 * Gaussian convolution by extended box filtering", 2011). The arithmetic is fixed point with 24
 * bits below the point. */
#include <math.h>
#include <string.h>

#include "pixels.h"

enum { PASSES = 3 };

/* A box: how many pixels count fully on either side of the middle, their weight, and that of the
 * next pixel. */
typedef struct box_filter {
  int32_t radius;
  uint32_t inner, outer;
} box_filter;

/* The box whose PASSES-fold blur has that standard deviation, computed in single precision as in
 * Pillow. */
static box_filter box_of(float deviation) {
  const float variance = deviation * deviation / PASSES;
  const float length = (float)sqrt(12.0 * (double)variance + 1.0);
  const float whole = (float)floor(((double)length - 1.0) / 2.0);
  float part = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance);
  part /= 6 * (variance - (whole + 1) * (whole + 1));
  const float radius = whole + part;
  box_filter box = {.radius = (int32_t)radius};
  box.inner = (uint32_t)((float)(1 << 24) / (radius * 2 + 1));
  box.outer = ((1u << 24) - (uint32_t)(box.radius * 2 + 1) * box.inner) / 2;
  return box;
}

static const uint8_t *at(const uint8_t *line, int32_t length, int32_t place) {
  return line + 4 * (size_t)(place < 0 ? 0 : place < length ? place : length - 1);
}

/* Does one box blur of a line of pixels. Beyond an end the last pixel is repeated. */
static void blur_line(const box_filter *box, const uint8_t *line, int32_t length, uint8_t *out) {
  uint32_t sum[4] = {0, 0, 0, 0};
  for (int32_t x = -box->radius - 1; x < box->radius; x++) {
    for (int c = 0; c < 4; c++) sum[c] += at(line, length, x)[c];
  }
  for (int32_t x = 0; x < length; x++, out += 4) {
    const uint8_t *left = at(line, length, x - box->radius - 1);
    const uint8_t *in = at(line, length, x + box->radius);
    const uint8_t *right = at(line, length, x + box->radius + 1);
    for (int c = 0; c < 4; c++) {
      sum[c] += (uint32_t)in[c] - left[c];
      const uint32_t total = sum[c] * box->inner + (uint32_t)(left[c] + right[c]) * box->outer;
      out[c] = (uint8_t)((total + (1u << 23)) >> 24);
    }
  }
}

/* Blurs the first of two lines PASSES times. Returns the line that holds the result. */
static uint8_t *blur_passes(const box_filter *box, uint8_t *line[2], int32_t length) {
  for (int pass = 0; pass < PASSES; pass++) {
    blur_line(box, line[pass % 2], length, line[1 - pass % 2]);
  }
  return line[PASSES % 2];
}

int hrn_pillow_blur(hrn_context *context, const double radius[2], const hrn_image *image,
                    const hrn_image *out, hrn_status *status) {
  const int32_t width = image->width, height = image->height;
  const size_t longest = 4 * (size_t)(width > height ? width : height);
  uint8_t *scratch = hrn_scratch(context, HRN_SCRATCH_FILTER, 2 * longest, status);
  if (scratch == NULL) return status->code;
  uint8_t *line[2] = {scratch, scratch + longest};
  const box_filter across = box_of((float)radius[0]), down = box_of((float)radius[1]);
  for (int32_t y = 0; y < height; y++) {
    memcpy(line[0], image->pixels + (size_t)y * image->stride, 4 * (size_t)width);
    memcpy(out->pixels + (size_t)y * out->stride, blur_passes(&across, line, width),
           4 * (size_t)width);
  }
  for (int32_t x = 0; x < width; x++) {
    uint8_t *column = out->pixels + 4 * (size_t)x;
    for (int32_t y = 0; y < height; y++) {
      memcpy(line[0] + 4 * (size_t)y, column + (size_t)y * out->stride, 4);
    }
    const uint8_t *blurred = blur_passes(&down, line, height);
    for (int32_t y = 0; y < height; y++) {
      memcpy(column + (size_t)y * out->stride, blurred + 4 * (size_t)y, 4);
    }
  }
  return HRN_OK;
}
