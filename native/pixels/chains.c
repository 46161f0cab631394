/* chains.c: AugMix (Hendrycks et al., 2020): chains of ops that all start from one image, and whose
 * results are blended by weight. In the list of pixel ops the chains follow each other, between a
 * beginning and an end. */
#include <string.h>

#include "pixels.h"

/* Adds the image to the sums in single precision. The product is rounded before it is added, as
 * NumPy and torch do with arrays. */
static void add(const hrn_image *image, float weight, float *sums) {
  for (int32_t y = 0; y < image->height; y++) {
    const uint8_t *row = image->pixels + (size_t)y * image->stride;
    for (size_t n = 0; n < 4 * (size_t)image->width; n++) {
      const float product = weight * (float)row[n];
      *sums++ += product;
    }
  }
}

static void save(const hrn_image *image, uint8_t *original) {
  const size_t bytes = 4 * (size_t)image->width;
  for (int32_t y = 0; y < image->height; y++) {
    memcpy(original + (size_t)y * bytes, image->pixels + (size_t)y * image->stride, bytes);
  }
}

static void restore(const uint8_t *original, const hrn_image *image) {
  const size_t bytes = 4 * (size_t)image->width;
  for (int32_t y = 0; y < image->height; y++) {
    memcpy(image->pixels + (size_t)y * image->stride, original + (size_t)y * bytes, bytes);
  }
}

/* Turns the sums into bytes, truncated and not rounded. They may be blended with the image as it
 * was. */
static void finish(const hrn_image *image, const float *sums, float blend) {
  for (int32_t y = 0; y < image->height; y++) {
    uint8_t *row = image->pixels + (size_t)y * image->stride;
    for (size_t n = 0; n < 4 * (size_t)image->width; n++) {
      const float sum = *sums++;
      const uint8_t value = sum <= 0 ? 0 : sum >= 255 ? 255 : (uint8_t)sum;
      row[n] = blend < 0 ? value : hrn_blend(row[n], value, blend);
    }
  }
}

static int begin(hrn_context *context, const hrn_image *image, float weight, hrn_pixel_state *state,
                 hrn_status *status) {
  const size_t pixels = (size_t)image->width * (size_t)image->height;
  size_t bytes;
  if (__builtin_mul_overflow(pixels, 4 * (sizeof(float) + 1), &bytes)) {
    return hrn_fail(status, HRN_LIMIT, -1, "a mixture of %dx%d pixels", image->width,
                    image->height);
  }
  state->sums = hrn_scratch(context, HRN_SCRATCH_MIX, bytes, status);
  if (state->sums == NULL) return status->code;
  state->original = (uint8_t *)(state->sums + 4 * pixels);
  memset(state->sums, 0, 4 * pixels * sizeof(float));
  save(image, state->original);
  add(image, weight, state->sums);
  return HRN_OK;
}

int hrn_mix_run(hrn_context *context, const hrn_pixel_op *op, const hrn_image *image,
                hrn_pixel_state *state, hrn_status *status) {
  if (op->kind == HRN_PIXEL_MIX_BEGIN) {
    return begin(context, image, (float)op->args.weight, state, status);
  }
  if (op->kind == HRN_PIXEL_MIX_CHAIN) {
    add(image, (float)op->args.weight, state->sums);
    restore(state->original, image);
  } else {
    finish(image, state->sums, (float)op->args.blend);
  }
  return HRN_OK;
}
