/* encoder.c: libjpeg's compressor, and its destination, which is memory of the context.
 *
 * jpeg_mem_dest is not used: it has no limit, and after an error in mid-file nobody owns its
 * buffer. Here the context owns the buffer at any moment, so a longjmp leaks nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "jpeg.h"

/* A photograph of 256 pixels a side fits, so most files never grow. */
#define FIRST_CAPACITY ((size_t)64 << 10)

/* What one huge file needed is not kept for the small ones behind it. */
#define KEPT_CAPACITY ((size_t)8 << 20)

static void reserve(hrn_encoder *encoder, size_t bytes) {
  if (bytes <= encoder->capacity) return;
  struct hrn_jpeg *jpeg = encoder->jpeg;
  if (bytes > encoder->limit) {
    hrn_fail(jpeg->status, HRN_LIMIT, -1,
             "written anew, the image has more than %zu bytes (max_record_bytes)", encoder->limit);
    longjmp(jpeg->escape, 1);
  }
  size_t capacity = encoder->capacity > 0 ? encoder->capacity : FIRST_CAPACITY;
  /* At more than half of the limit this jumps to the limit, so doubling cannot overflow. */
  while (capacity < bytes) capacity = capacity > encoder->limit / 2 ? encoder->limit : capacity * 2;
  if (capacity > encoder->limit) capacity = encoder->limit;
  uint8_t *grown = realloc(encoder->bytes, capacity);
  if (grown == NULL) {
    hrn_fail(jpeg->status, HRN_MEMORY, -1, "could not allocate %zu bytes for a JPEG", capacity);
    longjmp(jpeg->escape, 1);
  }
  encoder->bytes = grown;
  encoder->capacity = capacity;
}

/* libjpeg may write from `length` on to the end of the buffer. */
static void offer(hrn_encoder *encoder) {
  encoder->destination.next_output_byte = encoder->bytes + encoder->length;
  encoder->destination.free_in_buffer = encoder->capacity - encoder->length;
}

static void init_destination(j_compress_ptr info) {
  hrn_encoder *encoder = (hrn_encoder *)info->dest;
  encoder->length = 0;
  reserve(encoder, 1);
  offer(encoder);
}

/* libjpeg calls this when the buffer is full to its last byte, whatever the two fields say. */
static boolean empty_output_buffer(j_compress_ptr info) {
  hrn_encoder *encoder = (hrn_encoder *)info->dest;
  encoder->length = encoder->capacity;
  reserve(encoder, encoder->length + 1);
  offer(encoder);
  return TRUE;
}

static void term_destination(j_compress_ptr info) {
  hrn_encoder *encoder = (hrn_encoder *)info->dest;
  encoder->length = encoder->capacity - encoder->destination.free_in_buffer;
}

void hrn_encoder_open(hrn_context *context) {
  hrn_encoder *encoder = &context->jpeg->encoder;
  hrn_encoder_close(encoder);
  if (encoder->capacity > KEPT_CAPACITY) hrn_encoder_free(encoder);
  encoder->jpeg = context->jpeg;
  /* The file has to be readable again under the same limits. */
  encoder->limit = context->limits.max_record_bytes < SIZE_MAX / 4
                       ? (size_t)context->limits.max_record_bytes
                       : SIZE_MAX / 4;
  encoder->length = 0;
  encoder->info.err = &context->jpeg->errors;
  encoder->info.client_data = context->jpeg; /* jpeg_create_compress keeps both */
  jpeg_create_compress(&encoder->info);
  encoder->created = true;
  encoder->destination.init_destination = init_destination;
  encoder->destination.empty_output_buffer = empty_output_buffer;
  encoder->destination.term_destination = term_destination;
  encoder->info.dest = &encoder->destination;
}

void hrn_encoder_append(hrn_encoder *encoder, const uint8_t *bytes, size_t length) {
  if (length == 0) return;
  if (length > encoder->limit) length = encoder->limit; /* still refused, without an overflow */
  reserve(encoder, encoder->length + length);
  memcpy(encoder->bytes + encoder->length, bytes, length);
  encoder->length += length;
}

void hrn_encoder_close(hrn_encoder *encoder) {
  if (!encoder->created) return;
  jpeg_destroy_compress(&encoder->info);
  encoder->created = false;
}

void hrn_encoder_free(hrn_encoder *encoder) {
  hrn_encoder_close(encoder);
  free(encoder->bytes);
  encoder->bytes = NULL;
  encoder->capacity = encoder->length = 0;
}
