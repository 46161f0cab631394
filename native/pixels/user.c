/* user.c: calls a function of the program's own on an image's pixels.
 *
 * Its address came from the program itself, through the C ABI, and nothing can check it.
 */
#include <string.h>

#include "pixels.h"

static uintptr_t address(const int32_t half[2]) {
  return (uintptr_t)((uint64_t)(uint32_t)half[1] << 32 | (uint32_t)half[0]);
}

void hrn_user_draw(const uint64_t words[4], uint64_t sample, hrn_pixel_op *pixel) {
  memcpy(pixel->p, words, 4 * sizeof *words);
  memcpy(pixel->p + 4, &sample, sizeof sample);
}

int hrn_user_run(const hrn_pixel_op *op, const hrn_image *image, hrn_status *status) {
  uint64_t words[4], sample;
  memcpy(words, op->p, sizeof words);
  memcpy(&sample, op->p + 4, sizeof sample);
  const hrn_user_function function = (hrn_user_function)address(op->i);
  const int32_t code = function((void *)address(op->i + 2), image->pixels, image->height,
                                image->width, image->stride, words, sample);
  if (code == 0) return HRN_OK;
  return hrn_fail(status, HRN_BAD, -1, "the program's own function of a Native returned %d", code);
}
