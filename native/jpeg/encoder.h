/* encoder.h: what encoder.c, encode.c and baseline.c share: a JPEG that is being written to memory.
 *
 * libjpeg's compressor reports through the decompressor's jpeg_error_mgr (error.c), so errors of
 * both jump to jpeg.escape, the one place that a function can set.
 */
#ifndef HEADRACE_JPEG_ENCODER_H
#define HEADRACE_JPEG_ENCODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h> /* as in jpeg.h */

#include <jpeglib.h>

#include "../core/image.h"

typedef struct hrn_encoder {
  struct jpeg_destination_mgr destination; /* first, because libjpeg hands back its address */
  struct jpeg_compress_struct info;
  struct hrn_jpeg *jpeg; /* errors go to its status and escape */
  uint8_t *bytes;        /* allocated with realloc */
  size_t capacity, length;
  size_t limit; /* bytes that a file may have */
  bool created; /* info holds memory */
} hrn_encoder;

/* hrn_encoder_open starts a file, hrn_encoder_append adds bytes to a finished one. Both may longjmp
 * to jpeg.escape, so the caller must have called setjmp itself. */
void hrn_encoder_open(hrn_context *context);
void hrn_encoder_append(hrn_encoder *encoder, const uint8_t *bytes, size_t length);

/* encode.c: writes a whole image as a baseline 4:2:0 JPEG to encoder.bytes, or as a greyscale JPEG
 * if no pixel has a colour. */
int hrn_encode_image(hrn_context *context, const hrn_image *image, int32_t quality,
                     int32_t orientation, hrn_status *status);

/* Ends the compressor; what it wrote stays until the next file is started. */
void hrn_encoder_close(hrn_encoder *encoder);
void hrn_encoder_free(hrn_encoder *encoder);

#endif
