/* native_op.c: an op of one's own, for headrace.transforms.Native.
 *
 *   include=$(python -c "import headrace; print(headrace.__path__[0])")
 *   cc -O2 -shared -fPIC native_op.c -I$include -o native_op.so
 *
 * and in Python
 *
 *   library = ctypes.CDLL("./native_op.so")
 *   headrace.transforms.Native(library.tint, ctypes.addressof(strength))  # a ctypes.c_int32
 */
#include "headrace.h"

/* Adds to one channel, which the random bits choose, as much as the context says; a strength below
 * 0 is an error of the sample. */
int32_t tint(void *context, uint8_t *pixels, int32_t height, int32_t width, size_t stride,
             const uint64_t random[4], uint64_t sample) {
  const int32_t strength = context == NULL ? 40 : *(const int32_t *)context;
  const int channel = (int)(random[0] % 3);
  (void)sample;
  if (strength < 0) return 7;
  for (int32_t y = 0; y < height; y++) {
    uint8_t *row = pixels + (size_t)y * stride;
    for (int32_t x = 0; x < width; x++) {
      const int32_t value = row[4 * x + channel] + strength;
      row[4 * x + channel] = (uint8_t)(value > 255 ? 255 : value);
    }
  }
  return 0;
}

/* The compiler compares the types. */
const hr_pixel_function checked = tint;
