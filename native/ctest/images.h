/* images.h: small JPEGs, PNGs and PPMs of every kind, made in memory for tests. */
#ifndef HEADRACE_CTEST_IMAGES_H
#define HEADRACE_CTEST_IMAGES_H

#include <stddef.h>
#include <stdint.h>

#include "random.h"

typedef struct image_bytes {
  uint8_t *bytes; /* allocated with malloc */
  size_t length;
} image_bytes;

/* A copy that ends where its allocation ends, so that a sanitizer sees each byte too many. */
image_bytes copy_bytes(const uint8_t *bytes, size_t length);

/* How a JPEG is stored. */
typedef struct jpeg_form {
  const char *name;
  int components;
  int colour_space; /* J_COLOR_SPACE in the file */
  int h[4], v[4];   /* sampling factors */
} jpeg_form;

extern const jpeg_form jpeg_forms[];
extern const int jpeg_form_count;

enum jpeg_coding { CODING_BASELINE, CODING_PROGRESSIVE, CODING_SEPARATE_SCANS, CODING_ARITHMETIC };

/* Has length 0 if libjpeg's encoder cannot write the combination. restart: MCUs, 0 for none. */
image_bytes make_jpeg(random_state *r, const jpeg_form *form, enum jpeg_coding coding,
                      uint32_t restart, uint32_t width, uint32_t height, int quality);

/* Random samples; bit depth and colour type must be one of the standard's pairs. */
image_bytes make_png(random_state *r, int color_type, int bit_depth, int interlaced, uint32_t width,
                     uint32_t height);

/* P5 or P6 by `channels` (1, 3), with a comment or not. */
image_bytes make_ppm(random_state *r, int channels, int comment, uint32_t width, uint32_t height);

/* Any image of the above kinds. */
image_bytes made_image(random_state *r);

/* Recomputes the checksums of a damaged PNG, as far as its chunks can be followed. */
void mend_png_checksums(image_bytes *png);

#endif
