/* ops.c: what each op on pixels costs.
 *
 *   ops [-r ROUNDS]
 *
 * Microseconds for an image of 224 x 224, the least of ROUNDS runs, which nothing else on the
 * machine got in the way of. HEADRACE_SIMD chooses the instruction set.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../../native/native.h"
#include "../../../native/pixels/pixels.h"

enum { SIDE = 224 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Smooth shades and a little noise, of few values that are 0 or 255: as photographs are. */
static void draw(uint8_t *pixels) {
  uint32_t noise = 1;
  for (int y = 0; y < SIDE; y++) {
    for (int x = 0; x < SIDE; x++, pixels += 4) {
      for (int c = 0; c < 3; c++) {
        noise = noise * 1664525 + 1013904223;
        pixels[c] =
            (uint8_t)(124 + 100 * sin(x * 0.03 + c) * cos(y * 0.02 * (c + 1)) + (noise >> 28));
      }
    }
  }
}

#define FILTERED(name, how, ...)                                                           \
  {                                                                                        \
    name, {                                                                                \
      .kind = HRN_PIXEL_AFFINE, .filter = how, .args.affine.coefficients = { __VA_ARGS__ } \
    }                                                                                      \
  }
#define WARP(name, ...) FILTERED(name, HRN_NEAREST, __VA_ARGS__)
static const struct {
  const char *name;
  hrn_pixel_op op;
} ops[] = {
    {"invert", {.kind = HRN_PIXEL_INVERT}},
    {"posterize", {.kind = HRN_PIXEL_POSTERIZE, .args.bits = 4}},
    {"solarize", {.kind = HRN_PIXEL_SOLARIZE, .args.threshold = 150}},
    {"gamma", {.kind = HRN_PIXEL_GAMMA, .args.gamma = {1.5, 1}}},
    {"brightness", {.kind = HRN_PIXEL_BRIGHTNESS, .args.factor = 1.3}},
    {"contrast", {.kind = HRN_PIXEL_CONTRAST, .args.factor = 1.3}},
    {"saturation", {.kind = HRN_PIXEL_SATURATION, .args.factor = 1.3}},
    {"hue", {.kind = HRN_PIXEL_HUE, .args.factor = 0.1}},
    {"sharpness", {.kind = HRN_PIXEL_SHARPNESS, .args.factor = 1.3}},
    {"autocontrast", {.kind = HRN_PIXEL_AUTOCONTRAST}},
    {"equalize", {.kind = HRN_PIXEL_EQUALIZE}},
    {"grey", {.kind = HRN_PIXEL_GREY}},
    {"channels", {.kind = HRN_PIXEL_CHANNELS, .args.channels = {2, 0, 1}}},
    {"blur 23, sigma 2", {.kind = HRN_PIXEL_BLUR, .args.blur = {{23, 23}, {2, 2}}}},
    {"blur 23, sigma 0.8", {.kind = HRN_PIXEL_BLUR, .args.blur = {{23, 23}, {0.8, 0.8}}}},
    {"blur 23, sigma 0.3", {.kind = HRN_PIXEL_BLUR, .args.blur = {{23, 23}, {0.3, 0.3}}}},
    WARP("translate, nearest", 1, 0, 20, 0, 1, 0),
    WARP("shear x, nearest", 1, 0.2, 0, 0, 1, 0),
    WARP("shear y, nearest", 1, 0, 0, 0.2, 1, 0),
    WARP("rotate, nearest", 0.96, 0.28, -27, -0.28, 0.96, 36),
    FILTERED("rotate, bilinear", HRN_BILINEAR, 0.96, 0.28, -27, -0.28, 0.96, 36),
    FILTERED("rotate, bicubic", HRN_BICUBIC, 0.96, 0.28, -27, -0.28, 0.96, 36),
    {"perspective, bilinear",
     {.kind = HRN_PIXEL_PERSPECTIVE,
      .filter = HRN_BILINEAR,
      .args.perspective = {1.1, 0.1, 5, 0.05, 1.2, 3, 1e-4, 2e-4}}},
};

int main(int count, char **arguments) {
  int rounds = 200;
  if (count == 3 && strcmp(arguments[1], "-r") == 0) rounds = atoi(arguments[2]);
  static uint8_t original[SIDE * SIDE * 4], pixels[SIDE * SIDE * 4 + HRN_ROW_PADDING];
  draw(original);
  hrn_context *context = hrn_context_new(NULL);
  if (context == NULL || rounds < 1) abort();
  printf("%-24s %10s\n", "us an image", hrn_simd_name());
  for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
    double least = 1e18;
    for (int round = 0; round < rounds; round++) {
      memcpy(pixels, original, sizeof original);
      hrn_image image = {pixels, SIDE * 4, SIDE, SIDE};
      hrn_pixel_state state = {0};
      hrn_status status;
      const double begun = now();
      if (hrn_pixels_run(context, &ops[k].op, &image, &state, &status) != HRN_OK) {
        fprintf(stderr, "%s: %s\n", ops[k].name, status.text);
        return 1;
      }
      const double took = now() - begun;
      if (took < least) least = took;
    }
    printf("%-24s %10.1f\n", ops[k].name, least);
  }
  hrn_context_free(context);
  return 0;
}
