/* cmyk.c: converts CMYK samples, as libjpeg delivers them, to RGB with Pillow's arithmetic.
 *
 * Pillow reads every four-component JPEG with raw mode "CMYK;I": it takes the samples as inverted,
 * as Adobe writes them, whether or not there is an Adobe marker. With nk = 255 - k, its
 * convert("RGB") gives nk - c * nk / 255. libjpeg first converts YCCK to CMYK.
 */
#include "jpeg.h"

/* a * b / 255 rounded, exact for bytes: the usual trick with 128 and two shifts. */
static inline uint32_t multiply_255(uint32_t a, uint32_t b) {
  uint32_t t = a * b + 128;
  return ((t >> 8) + t) >> 8;
}

void hrn_cmyk_to_rgbx(uint8_t *pixels, size_t count) {
  for (size_t i = 0; i < count; i++, pixels += 4) {
    uint32_t nk = pixels[3]; /* stored inverted, so this is 255 - k already */
    for (int channel = 0; channel < 3; channel++) {
      /* Never below 0: the product is at most nk. */
      pixels[channel] = (uint8_t)(nk - multiply_255(255u - pixels[channel], nk));
    }
    pixels[3] = 255;
  }
}
