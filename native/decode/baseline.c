/* baseline.c: rewrites a progressive or arithmetic-coded JPEG as baseline, without loss.
 *
 * It reads and writes quantised coefficients, never pixels, so every decoder gives the same pixels
 * for both files. jpegtran does the same, and can edit as well. A file that this could change in
 * any way is left alone. Such a file is progressive and never sent some coefficients (libjpeg
 * smooths over the gaps if it knows that they are gaps), or has warnings, or has markers between
 * its scans. Those would have to stand before the frame, where they might mean something else.
 */
#include "decoder.h"

static bool is_metadata(int marker) {
  return marker == JPEG_COM || (marker >= JPEG_APP0 && marker <= JPEG_APP0 + 15);
}

/* A marker behind the first scan: nobody knows where it belongs in a file of one scan. The file is
 * left alone, and the status is that of a file without one. */
static boolean leave_alone(j_decompress_ptr info) {
  longjmp(((hrn_jpeg *)info->client_data)->escape, 1);
  return FALSE;
}

static void refuse_markers(j_decompress_ptr info) {
  jpeg_set_marker_processor(info, JPEG_COM, leave_alone);
  for (int i = 0; i < 16; i++) jpeg_set_marker_processor(info, JPEG_APP0 + i, leave_alone);
}

/* Copies the markers before the first scan, in their order. jpeg_save_markers is not used: for each
 * marker it walks over all that it has saved, and does not count their memory. A hostile file has
 * millions. */
static void copy_markers(j_compress_ptr to, const hrn_jpeg *from) {
  hrn_jpeg_segment s;
  size_t at = HRN_JPEG_FIRST_SEGMENT;
  while (hrn_jpeg_segment_next(from->bytes, from->length, &at, &s) && s.marker != HRN_JPEG_SOS) {
    if (is_metadata(s.marker)) jpeg_write_marker(to, s.marker, s.body, (unsigned)s.length);
  }
}

/* The caller must have called setjmp. */
static void write_coefficients(hrn_context *context, jvirt_barray_ptr *coefficients) {
  struct jpeg_decompress_struct *from = &context->jpeg->info;
  hrn_encoder *encoder = &context->jpeg->encoder;
  j_compress_ptr to = &encoder->info;
  hrn_encoder_open(context);
  jpeg_copy_critical_parameters(from, to);
  to->arith_code = FALSE;
  to->optimize_coding = TRUE; /* own tables: those of a progressive file do not fit */
  /* Both markers are among those that are copied byte for byte. For a file without them, libjpeg
   * guesses the colours by the component numbers, which are copied. */
  to->write_JFIF_header = FALSE;
  to->write_Adobe_marker = FALSE;
  jpeg_write_coefficients(to, coefficients);
  copy_markers(to, context->jpeg);
  jpeg_finish_compress(to);
  /* What stands behind EOI does not concern a decoder, but it belongs to the file. */
  hrn_encoder_append(encoder, context->jpeg->source.next_input_byte,
                     context->jpeg->source.bytes_in_buffer);
}

/* *made says whether the encoder holds a file. Everything that must survive the jump is in the
 * context. */
static int convert(hrn_context *context, bool *made, hrn_status *status) {
  hrn_jpeg *jpeg = context->jpeg;
  struct jpeg_decompress_struct *info = &jpeg->info;
  jpeg->status = status;
  if (setjmp(jpeg->escape) != 0) {
    hrn_encoder_close(&context->jpeg->encoder);
    hrn_jpeg_close(context);
    return status->code;
  }
  hrn_jpeg_open(context);
  jpeg_read_header(info, TRUE);
  if ((info->progressive_mode || info->arith_code) && info->data_precision == 8 &&
      hrn_check_pixels(context, info->image_width, info->image_height, status) == HRN_OK) {
    refuse_markers(info);
    jvirt_barray_ptr *coefficients = hrn_jpeg_coefficients(context);
    if (hrn_jpeg_verdict(jpeg, status) == HRN_OK && jpeg->warnings == 0 &&
        !hrn_jpeg_incomplete(info)) {
      write_coefficients(context, coefficients);
      *made = true;
    }
  }
  hrn_encoder_close(&context->jpeg->encoder);
  hrn_jpeg_close(context);
  return status->code;
}

int hrn_to_baseline(hrn_context *context, const uint8_t *bytes, size_t length, hrn_encoded *encoded,
                    hrn_status *status) {
  uint8_t codec;
  bool made = false;
  hrn_status_clear(status);
  *encoded = (hrn_encoded){NULL, 0};
  if (hrn_decode_begin(context, bytes, length, status) != HRN_OK ||
      hrn_sniff(bytes, length, &codec, status) != HRN_OK || codec != HRN_CODEC_JPEG ||
      convert(context, &made, status) != HRN_OK || !made) {
    return status->code;
  }
  *encoded = (hrn_encoded){context->jpeg->encoder.bytes, context->jpeg->encoder.length};
  return HRN_OK;
}
