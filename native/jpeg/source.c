/* source.c: gives libjpeg its bytes from memory, and notes when they ran out.
 *
 * libjpeg's own memory source hides the end of the data behind an invented EOI marker and a
 * warning. The same EOI is invented here, but the decoder can tell it from one in the file. That
 * distinguishes a truncated file from one that is merely damaged.
 */
#include "jpeg.h"

static const JOCTET invented_eoi[2] = {0xFF, JPEG_EOI};

static hrn_jpeg *of(j_decompress_ptr info) { return (hrn_jpeg *)info->client_data; }

static void init_source(j_decompress_ptr info) { (void)info; }

static boolean fill_input_buffer(j_decompress_ptr info) {
  hrn_jpeg *jpeg = of(info);
  if (!jpeg->ran_dry) {
    jpeg->ran_dry = true;
    jpeg->dry_row = info->input_iMCU_row;
    jpeg->warnings++; /* counted once a file, as libjpeg's own source does with JWRN_JPEG_EOF */
  }
  jpeg->source.next_input_byte = invented_eoi;
  jpeg->source.bytes_in_buffer = sizeof invented_eoi;
  return TRUE;
}

static void skip_input_data(j_decompress_ptr info, long count) {
  hrn_jpeg *jpeg = of(info);
  if (count <= 0) return;
  /* A segment's length may point far behind the end; never step there. */
  if ((unsigned long)count > jpeg->source.bytes_in_buffer) {
    fill_input_buffer(info);
    return;
  }
  jpeg->source.next_input_byte += count;
  jpeg->source.bytes_in_buffer -= (size_t)count;
}

static void term_source(j_decompress_ptr info) { (void)info; }

void hrn_jpeg_source_init(hrn_jpeg *jpeg, const uint8_t *bytes, size_t length) {
  jpeg->bytes = bytes;
  jpeg->length = length;
  jpeg->ran_dry = false;
  jpeg->dry_row = 0;
  jpeg->truncated = false;
  jpeg->source.next_input_byte = bytes;
  jpeg->source.bytes_in_buffer = length;
  jpeg->source.init_source = init_source;
  jpeg->source.fill_input_buffer = fill_input_buffer;
  jpeg->source.skip_input_data = skip_input_data;
  jpeg->source.resync_to_restart = jpeg_resync_to_restart;
  jpeg->source.term_source = term_source;
}

/* Where libjpeg is in the file. While the entropy decoder works, libjpeg stores its place only
 * between MCUs or rows. So this is the start of what it could not read, not the very byte. */
int64_t hrn_jpeg_offset(const hrn_jpeg *jpeg) {
  if (jpeg->ran_dry) return (int64_t)jpeg->length;
  return (int64_t)(jpeg->length - jpeg->source.bytes_in_buffer);
}
