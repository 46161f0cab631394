/* noise.c: adds normal noise to every value of an image, as torchvision's v2 does to tensors of
 * bytes: in single precision, truncated to an integer before it is added.
 *
 * Words of Philox become pairs of normal values by the method of Box and Muller. Logarithm, sine
 * and cosine are polynomials of our own in single precision. The C library's are slower, and their
 * last bits differ from one version and CPU to the next. 24 bits of a word reach 5.8 standard
 * deviations, which is where torch's generator ends, too.
 */
#include <math.h>
#include <string.h>

#include "../core/philox.h"
#include "pixels.h"

enum { VALUES = 8 }; /* values from one block of four words */

/* The natural logarithm of numbers from 2^-24 to 1, within 2^-22. The exponent is taken apart. The
 * rest, from 0.7 to 1.4, goes into the series of 2 atanh((x - 1) / (x + 1)). */
static float logarithm(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits += 0x3f800000u - 0x3f3504f3u; /* 1 and half the root of 2 */
  const float exponent = (float)((int32_t)(bits >> 23) - 127);
  bits = (bits & 0x7fffffu) + 0x3f3504f3u;
  memcpy(&x, &bits, sizeof x);
  const float s = (x - 1) / (x + 1), t = s * s;
  const float series = 1 + t * (1.0f / 3 + t * (1.0f / 5 + t * (1.0f / 7 + t * (1.0f / 9))));
  return exponent * 0.693147181f + 2 * s * series;
}

/* Makes four pairs. The highest two bits of the turn are its quarter. The other bits are an angle
 * of less than 45 degrees to either side, for which Taylor's series are short. */
static void normals(const hrn_philox_block *block, float value[VALUES]) {
  for (int k = 0; k < VALUES / 2; k++) {
    const uint32_t low = (uint32_t)block->word[k], high = (uint32_t)(block->word[k] >> 32);
    const float radius = sqrtf(-2 * logarithm((float)((low >> 8) + 1) * 0x1p-24f));
    const uint32_t quarter = high >> 30;
    const float part = (float)((high >> 8) & 0x3fffffu) * 0x1p-22f - 0.5f;
    const float a = part * 1.57079633f, t = a * a;
    const float sine =
        a * (1 + t * (-1.0f / 6 + t * (1.0f / 120 + t * (-1.0f / 5040 + t * (1.0f / 362880)))));
    const float cosine =
        1 + t * (-0.5f +
                 t * (1.0f / 24 + t * (-1.0f / 720 + t * (1.0f / 40320 + t * (-1.0f / 3628800)))));
    const float x = quarter & 1 ? -sine : cosine, y = quarter & 1 ? cosine : sine;
    value[2 * k] = radius * (quarter & 2 ? -x : x);
    value[2 * k + 1] = radius * (quarter & 2 ? -y : y);
  }
}

void hrn_add_noise(const hrn_pixel_noise *noise, const hrn_image *image) {
  /* The bounds of mean and deviation keep the sum within 16 bits, in which torchvision adds it. */
  const float mean = (float)(noise->mean * 255), sigma = (float)(noise->deviation * 255);
  const int clip = noise->clip != 0;
  const int32_t values = 3 * image->width;
  uint64_t counter[4] = {0};
  for (int32_t y = 0; y < image->height; y++) {
    uint8_t *row = image->pixels + (size_t)y * image->stride;
    for (int32_t first = 0; first < values; first += VALUES) { /* each row begins with a block */
      const hrn_philox_block block = hrn_philox(counter, noise->key);
      counter[0]++;
      float normal[VALUES];
      normals(&block, normal);
      const int32_t end = values - first < VALUES ? values - first : VALUES;
      for (int32_t n = 0; n < end; n++) {
        uint8_t *value = row + (size_t)((first + n) / 3) * 4 + (first + n) % 3;
        const int32_t sum = *value + (int32_t)(mean + normal[n] * sigma);
        const int32_t clipped = sum < 0 ? 0 : sum > 255 ? 255 : sum;
        *value = (uint8_t)(clip ? clipped : sum);
      }
    }
  }
}
