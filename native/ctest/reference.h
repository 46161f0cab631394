/* reference.h: what libjpeg alone makes of a JPEG: every MCU and every row, without any of our
 * code. */
#ifndef HEADRACE_CTEST_REFERENCE_H
#define HEADRACE_CTEST_REFERENCE_H

#include <stdbool.h>

#include "../native.h"
#include "images.h"

typedef struct reference {
  bool failed;       /* libjpeg's error_exit */
  bool dry;          /* libjpeg asked for bytes behind the last one */
  uint32_t warnings; /* until the last row was out; nothing is read behind it */
  uint32_t width, height;
  uint8_t *rgb;
} reference;

reference reference_decode(const image_bytes *file);
void reference_free(reference *whole);

/* The first row of `image` that differs from that of the box in the whole image; -1 if there is
 * none. */
int32_t reference_differs(const reference *whole, const hrn_box *box, const hrn_image *image);

/* Any window of an image; half of them small in both directions. */
hrn_box some_box(random_state *r, int32_t width, int32_t height);

/* A copy of the seek points that inspection finds; NULL bytes if it finds none. */
image_bytes seek_record(hrn_context *context, const image_bytes *file, uint32_t step);

#endif
