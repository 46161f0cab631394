/* encoder.h: what encoder.c, encode.c and baseline.c share: a JPEG on its way into memory.
 *
 * libjpeg's compressor reports through the decompressor's jpeg_error_mgr (error.c), so errors
 * of both jump to the one place that a function can name, jpeg.escape.
 */
#ifndef HEADRACE_JPEG_ENCODER_H
#define HEADRACE_JPEG_ENCODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h> /* as in decoder.h */

#include <jpeglib.h>

#include "../core/image.h"

typedef struct hrn_encoder {
  struct jpeg_destination_mgr destination; /* first: libjpeg hands back its address */
  struct jpeg_compress_struct info;
  struct hrn_jpeg *jpeg; /* whose status and escape errors take */
  uint8_t *bytes;        /* realloc's */
  size_t capacity, length;
  size_t limit; /* bytes that a file may have */
  bool created; /* info holds memory */
} hrn_encoder;

/* Starts a file, and adds to it once it is finished. Both may longjmp to jpeg.escape: only under
 * the caller's own setjmp. */
void hrn_encoder_open(hrn_context *context);
void hrn_encoder_append(hrn_encoder *encoder, const uint8_t *bytes, size_t length);

/* encode.c: a whole image as a baseline 4:2:0 JPEG, without colour as greyscale, in encoder.bytes.
 */
int hrn_encode_image(hrn_context *context, const hrn_image *image, int32_t quality,
                     int32_t orientation, hrn_status *status);

/* Ends the compressor; what it wrote stays until the next file is started. */
void hrn_encoder_close(hrn_encoder *encoder);
void hrn_encoder_free(hrn_encoder *encoder);

#endif
