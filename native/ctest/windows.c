/* windows.c: a window that is decoded alone, at once or a few rows at a time, equals the same
 * window of the whole image in every byte, even if both are decoded at a fraction of their size.
 *
 *   windows [-n IMAGES] [-w WINDOWS] [-s SEED]
 *
 * It goes over images of every sampling, coding and restart interval, and of sizes from 1 x 1 up.
 * What the whole image should be is not tested here: tests/parity compares that with Pillow.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../native.h"
#include "images.h"
#include "strips.h"

static long compared, different, not_encoded;

/* Only the pixels: the fourth byte has no meaning. */
static uint8_t *copy(const hrn_image *image) {
  uint8_t *rgb = malloc((size_t)image->width * (size_t)image->height * 3), *to = rgb;
  if (rgb == NULL) abort();
  for (int32_t y = 0; y < image->height; y++) {
    const uint8_t *from = image->pixels + (size_t)y * image->stride;
    for (int32_t x = 0; x < image->width; x++, from += 4, to += 3) memcpy(to, from, 3);
  }
  return rgb;
}

/* denominator: 0 for exact windows. at_once: 0 for all rows, in the context's memory. */
static int decode(hrn_context *context, const image_bytes *file, const hrn_box *box,
                  int32_t denominator, int32_t at_once, hrn_image *image) {
  uint32_t width, height;
  hrn_status status;
  int code = hrn_decode_header(context, file->bytes, file->length, &width, &height, &status);
  if (code == HRN_OK && denominator > 0 && hrn_decode_fast(context, denominator) != denominator) {
    printf("the image is not decoded at 1/%d\n", denominator);
    different++;
    return 0;
  }
  if (code == HRN_OK && at_once > 0) {
    decode_in_strips(context, box, at_once, image, &status);
  } else if (code == HRN_OK) {
    hrn_decode_window(context, box, image, &status);
  }
  if (status.code != HRN_OK || status.warnings != 0) {
    printf("a good image failed: %s, %u warnings\n", status.text, status.warnings);
    different++;
    return 0;
  }
  return 1;
}

static int32_t below(random_state *r, int32_t bound) {
  return (int32_t)random_below(r, (uint64_t)bound);
}

static void compare(hrn_context *context, random_state *r, const image_bytes *file,
                    const char *name, int32_t denominator, int32_t width, int32_t height,
                    long windows) {
  if (denominator > 0) {
    width = (width + denominator - 1) / denominator;
    height = (height + denominator - 1) / denominator;
  }
  hrn_box whole = {0, 0, width, height};
  hrn_image image;
  if (!decode(context, file, &whole, denominator, 0, &image)) return;
  uint8_t *expected = copy(&image);
  for (long n = 0; n < windows; n++) {
    hrn_box box = {0, 0, 1 + below(r, width), 1 + below(r, height)};
    if (n % 2 == 0) box.width = 1 + below(r, box.width), box.height = 1 + below(r, box.height);
    box.left = below(r, width - box.width + 1);
    box.top = below(r, height - box.height + 1);
    const int32_t at_once = n % 3 == 0 ? 0 : 2 + below(r, 40);
    if (!decode(context, file, &box, denominator, at_once, &image)) continue;
    uint8_t *found = copy(&image);
    if (at_once > 0) free(image.pixels);
    compared++;
    for (int32_t y = 0; y < box.height; y++) {
      size_t at = ((size_t)(box.top + y) * (size_t)width + (size_t)box.left) * 3;
      size_t bytes = (size_t)box.width * 3;
      if (memcmp(expected + at, found + (size_t)y * bytes, bytes) == 0) continue;
      printf("%s, %d x %d at 1/%d: window %d, %d, %d x %d differs in row %d\n", name, width, height,
             denominator, box.left, box.top, box.width, box.height, y);
      different++;
      break;
    }
    free(found);
  }
  free(expected);
}

int main(int count, char **arguments) {
  long images = 2000, windows = 10;
  uint64_t seed = 1;
  for (int i = 1; i + 1 < count; i += 2) {
    if (strcmp(arguments[i], "-n") == 0) images = atol(arguments[i + 1]);
    if (strcmp(arguments[i], "-w") == 0) windows = atol(arguments[i + 1]);
    if (strcmp(arguments[i], "-s") == 0) seed = strtoull(arguments[i + 1], NULL, 10);
  }
  random_state r = random_seeded(seed);
  hrn_limits limits = hrn_default_limits();
  hrn_context *context = hrn_context_new(&limits);
  if (context == NULL) abort();
  for (long n = 0; n < images; n++) {
    /* Every form with every coding in turn, the smallest sizes first. */
    const jpeg_form *form = &jpeg_forms[n % jpeg_form_count];
    enum jpeg_coding coding = (enum jpeg_coding)(n / jpeg_form_count % 4);
    int32_t most = n < images / 4 ? 20 : n < images * 3 / 4 ? 90 : 300;
    int32_t width = 1 + below(&r, most), height = 1 + below(&r, most);
    uint32_t restart = n % 3 == 0 ? 1 + (uint32_t)below(&r, 9) : 0;
    image_bytes file =
        make_jpeg(&r, form, coding, restart, (uint32_t)width, (uint32_t)height, 5 + below(&r, 96));
    if (file.length == 0) {
      not_encoded++;
      continue;
    }
    compare(context, &r, &file, form->name, 0, width, height, windows);
    compare(context, &r, &file, form->name, 1 << n % 4, width, height, windows);
    free(file.bytes);
    if (n % 4 == 0) {
      static const int pairs[][2] = {{0, 1}, {0, 16}, {2, 8}, {3, 4}, {4, 8}, {6, 8}, {6, 16}};
      const int *pair = pairs[n / 4 % 7];
      file = make_png(&r, pair[0], pair[1], n / 28 % 2, (uint32_t)width, (uint32_t)height);
      compare(context, &r, &file, "PNG", 0, width, height, windows);
      free(file.bytes);
      file = make_ppm(&r, n % 8 ? 3 : 1, n % 16 == 0, (uint32_t)width, (uint32_t)height);
      compare(context, &r, &file, "PPM", 0, width, height, windows);
      free(file.bytes);
    }
  }
  hrn_context_free(context);
  printf("%ld windows compared, %ld different, %ld combinations that libjpeg cannot encode\n",
         compared, different, not_encoded);
  return compared == 0 || different != 0;
}
