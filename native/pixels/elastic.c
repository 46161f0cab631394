/* elastic.c: torchvision's ElasticTransform: its displacements, which are uniform noise for each
 * pixel, blurred and scaled, and their effect on an image.
 *
 * The noise is a function of a key and of the pixel's place, in floats of 24 bits as from
 * torch.rand. The blur goes down and then across, in single precision. torch does both at once, so
 * a displacement differs from torch's by some units in the last place. Each displacement is a
 * function of its place alone. So labels can ask for those under their corners, and get the numbers
 * by which the image was moved.
 */
#include <math.h>
#include <string.h>

#include "../core/philox.h"
#include "kernels.h"
#include "pixels.h"

enum { VALUES = 8 }; /* values from one block of four words */
enum { AXES = 2 };   /* across and down */

/* How the noise of one axis is blurred: `side` weights across and as many down. 0: not at all. */
typedef struct smoothing {
  int32_t side;
  float weight[AXES][HRN_MAX_BLUR];
} smoothing;

/* As in torchvision: the side follows from the axis's own sigma. The weights across follow from the
 * first sigma and those down from the second, for the noise of both axes. */
static void smoothing_of(const hrn_pixel_elastic *elastic, int axis, smoothing *found) {
  const double *sigma = elastic->sigma;
  found->side = 0;
  if (!(sigma[axis] > 0)) return;
  found->side = (int32_t)(8 * sigma[axis] + 1) | 1;
  const double half = (found->side - 1) / 2.0;
  for (int k = 0; k < AXES; k++) {
    double weight[HRN_MAX_BLUR], sum = 0;
    for (int32_t n = 0; n < found->side; n++) {
      const double distance = (n - half) / sigma[k];
      sum += weight[n] = exp(-0.5 * distance * distance);
    }
    for (int32_t n = 0; n < found->side; n++) {
      const float share = (float)(weight[n] / sum);
      found->weight[k][n] = share < 0x1p-126f ? 0 : share; /* products of smaller ones are slow */
    }
  }
}

/* The words of row y and axis `axis`, from a counter that no other row has. */
static hrn_philox_block words_of(const hrn_pixel_elastic *elastic, int axis, int32_t y,
                                 int32_t number) {
  const uint64_t counter[4] = {(uint64_t)number, (uint64_t)y, (uint64_t)axis, 0};
  return hrn_philox(counter, elastic->key);
}

/* torch.rand() * 2 - 1, from half a word. */
static float uniform_of(const hrn_philox_block *block, int32_t place) {
  const uint64_t word = block->word[place / 2];
  const uint32_t half = (uint32_t)(place % 2 ? word >> 32 : word);
  return (float)(half >> 8) * 0x1p-24f * 2 - 1;
}

static void noise_row(const hrn_pixel_elastic *elastic, int axis, int32_t y, int32_t width,
                      float *row) {
  for (int32_t first = 0; first < width; first += VALUES) {
    const hrn_philox_block block = words_of(elastic, axis, y, first / VALUES);
    const int32_t end = width - first < VALUES ? width - first : VALUES;
    for (int32_t n = 0; n < end; n++) row[first + n] = uniform_of(&block, n);
  }
}

static float noise_at(const hrn_pixel_elastic *elastic, int axis, int32_t x, int32_t y) {
  const hrn_philox_block block = words_of(elastic, axis, y, x / VALUES);
  return uniform_of(&block, x % VALUES);
}

/* Turns pixels into shares of half the image's length, which is the unit of torch's grids. */
static float scaled(const hrn_pixel_elastic *elastic, int axis, float noise, int32_t length) {
  return noise * (float)elastic->alpha[axis] / (float)length;
}

static int fits(const smoothing *s, int32_t width, int32_t height, hrn_status *status) {
  const int32_t half = s->side / 2;
  if (half < width && half < height) return 1;
  hrn_fail(status, HRN_ARGUMENT, -1,
           "a blur kernel of %dx%d pixels, of elastic displacements, needs an image of more than "
           "%dx%d; this one has %dx%d",
           s->side, s->side, half, half, width, height);
  return 0;
}

int hrn_displacement_at(const hrn_pixel_elastic *elastic, int32_t width, int32_t height, int32_t x,
                        int32_t y, float displacement[2], hrn_status *status) {
  for (int axis = 0; axis < AXES; axis++) {
    smoothing s;
    smoothing_of(elastic, axis, &s);
    if (!fits(&s, width, height, status)) return status->code;
    float sum = s.side == 0 ? noise_at(elastic, axis, x, y) : 0;
    for (int32_t i = 0; i < s.side; i++) {
      const int32_t column = hrn_mirrored(x + i - s.side / 2, width);
      float down = 0;
      for (int32_t j = 0; j < s.side; j++) {
        const int32_t row = hrn_mirrored(y + j - s.side / 2, height);
        down += s.weight[1][j] * noise_at(elastic, axis, column, row);
      }
      sum += s.weight[0][i] * down;
    }
    displacement[axis] = scaled(elastic, axis, sum, axis == 0 ? width : height);
  }
  return HRN_OK;
}

/* Writes the weighted sum of rows, with both ends mirrored. `line` begins with the left mirrored
 * end. */
static void sum_down(const float *noise, const smoothing *s, int32_t width, int32_t height,
                     int32_t y, float *line) {
  const int32_t half = s->side / 2;
  float *first = line + half;
  memset(first, 0, (size_t)width * sizeof *first);
  for (int32_t j = 0; j < s->side; j++) {
    const float *row = noise + (size_t)hrn_mirrored(y + j - half, height) * (size_t)width;
    const float weight = s->weight[1][j];
    for (int32_t x = 0; x < width; x++) first[x] += weight * row[x];
  }
  for (int32_t n = 1; n <= half; n++) {
    first[-n] = first[n];
    first[width - 1 + n] = first[width - 1 - n];
  }
}

static void sum_across(const float *line, const smoothing *s, int32_t width, float *sums) {
  memset(sums, 0, (size_t)width * sizeof *sums);
  for (int32_t i = 0; i < s->side; i++) {
    const float weight = s->weight[0][i];
    for (int32_t x = 0; x < width; x++) sums[x] += weight * line[x + i];
  }
}

size_t hrn_displacement_room(int32_t width, int32_t height) {
  /* Sides are at most 2^24, so no product here is beyond 2^52. */
  const size_t pixels = (size_t)width * (size_t)height;
  return 3 * pixels + 2 * (size_t)width + HRN_MAX_BLUR;
}

int hrn_displace(const hrn_pixel_elastic *elastic, int32_t width, int32_t height, float *room,
                 hrn_status *status) {
  float *noise = room + 2 * (size_t)width * (size_t)height;
  float *sums = noise + (size_t)width * (size_t)height, *line = sums + width;
  for (int axis = 0; axis < AXES; axis++) {
    smoothing s;
    smoothing_of(elastic, axis, &s);
    if (!fits(&s, width, height, status)) return status->code;
    for (int32_t y = 0; y < height; y++) {
      noise_row(elastic, axis, y, width, noise + (size_t)y * (size_t)width);
    }
    for (int32_t y = 0; y < height; y++) {
      const float *from = noise + (size_t)y * (size_t)width;
      if (s.side > 0) {
        sum_down(noise, &s, width, height, y, line);
        sum_across(line, &s, width, sums);
        from = sums;
      }
      float *to = room + 2 * (size_t)y * (size_t)width + axis;
      for (int32_t x = 0; x < width; x++) {
        to[2 * (size_t)x] = scaled(elastic, axis, from[x], axis == 0 ? width : height);
      }
    }
  }
  return HRN_OK;
}

const float *hrn_displacements(hrn_context *context, const hrn_pixel_op *op, int32_t width,
                               int32_t height, hrn_status *status) {
  if (op->kind == HRN_PIXEL_DISPLACED) {
    const hrn_pixel_displaced *given = &op->args.displaced;
    if (given->width != width || given->height != height) {
      hrn_fail(status, HRN_ARGUMENT, -1, "displacements of %dx%d pixels for an image of %dx%d",
               given->width, given->height, width, height);
      return NULL;
    }
    return (const float *)(uintptr_t)given->field;
  }
  float *room = hrn_scratch(context, HRN_SCRATCH_FIELD,
                            hrn_displacement_room(width, height) * sizeof *room, status);
  if (room == NULL) return NULL;
  if (hrn_displace(&op->args.elastic, width, height, room, status) != HRN_OK) return NULL;
  return room;
}

int hrn_elastic(hrn_context *context, const hrn_pixel_op *op, const hrn_image *image,
                const hrn_image *out, hrn_status *status) {
  const float *field = hrn_displacements(context, op, image->width, image->height, status);
  if (field == NULL) return status->code;
  const hrn_outside *outside =
      op->kind == HRN_PIXEL_DISPLACED ? &op->args.displaced.outside : &op->args.elastic.outside;
  hrn_tensor_displace(op, outside, field, image, out);
  return HRN_OK;
}
