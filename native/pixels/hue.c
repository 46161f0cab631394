/* hue.c: turns the hue as torchvision does on PIL images: converts to Pillow's 8-bit HSV, adds with
 * wrap-around, and converts back.
 *
 * Pillow's conversions (Convert.c) mix single and double precision. The roundings below are
 * Pillow's own, step by step. They decide about one value in a few hundred.
 */
#include <math.h>

#include "kernels.h"
#include "pixels.h"

static uint8_t clipped(int32_t value) {
  return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* The hue of a pixel whose channels differ. `high` is the largest channel, `span` the largest minus
 * the smallest. */
static uint8_t hue_of(const uint8_t *rgb, int32_t high, float span) {
  const float red = (float)(high - rgb[0]) / span;
  const float green = (float)(high - rgb[1]) / span;
  const float blue = (float)(high - rgb[2]) / span;
  float hue;
  if (rgb[0] == high) {
    hue = blue - green;
  } else if (rgb[1] == high) {
    hue = (float)(2.0 + red - blue);
  } else {
    hue = (float)(4.0 + green - red);
  }
  /* `turns` is between 5/6 and 13/6 + 1, so the remainder takes at most two subtractions. */
  double turns = hue / 6.0 + 1.0;
  while (turns >= 1.0) turns -= 1.0;
  return clipped((int32_t)((double)(float)turns * 255.0));
}

static void from_hsv(uint8_t *rgb, uint8_t hue, uint8_t saturation, uint8_t value) {
  if (saturation == 0) {
    rgb[0] = rgb[1] = rgb[2] = value;
    return;
  }
  const double sixths = (float)hue * 6.0 / 255.0;
  const int32_t sector = (int32_t)sixths; /* 0 to 6 */
  const float rest = (float)(sixths - (double)(float)sector);
  const float share = (float)((double)(float)saturation / 255.0);
  const double v = (double)(float)value;
  /* round() rounds halves away from zero, and nothing here is negative. */
  const uint8_t p = clipped((int32_t)(v * (1.0 - (double)share) + 0.5));
  const uint8_t q = clipped((int32_t)(v * (1.0 - (double)(share * rest)) + 0.5));
  const uint8_t t = clipped((int32_t)(v * (1.0 - (double)share * (1.0 - (double)rest)) + 0.5));
  const uint8_t sectors[6][3] = {{value, t, p}, {q, value, p}, {p, value, t},
                                 {p, q, value}, {t, p, value}, {value, p, q}};
  const uint8_t *found = sectors[sector % 6];
  rgb[0] = found[0];
  rgb[1] = found[1];
  rgb[2] = found[2];
}

void hrn_turn_hue_scalar(uint8_t *pixel, size_t count, uint8_t turn) {
  for (size_t x = 0; x < count; x++, pixel += 4) {
    int32_t high = pixel[0] > pixel[1] ? pixel[0] : pixel[1];
    int32_t low = pixel[0] < pixel[1] ? pixel[0] : pixel[1];
    if (pixel[2] > high) high = pixel[2];
    if (pixel[2] < low) low = pixel[2];
    uint8_t hue = 0, saturation = 0;
    if (high != low) {
      const float span = (float)(high - low);
      hue = hue_of(pixel, high, span);
      saturation = clipped((int32_t)((double)(span / (float)high) * 255.0));
    }
    from_hsv(pixel, (uint8_t)(hue + turn), saturation, (uint8_t)high);
  }
}

void hrn_turn_hue(hrn_image *image, double factor) {
  /* As NumPy's cast of a double to uint8 through int32: truncated, then the lowest eight bits. */
  const uint8_t turn = (uint8_t)(int32_t)(factor * 255);
  const hrn_pixel_kernels *kernels = hrn_pixel_kernels_chosen();
  for (int32_t y = 0; y < image->height; y++) {
    kernels->turn_hue(image->pixels + (size_t)y * image->stride, (size_t)image->width, turn);
  }
}
