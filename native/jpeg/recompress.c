/* recompress.c: encodes an image as Pillow saves a JPEG, and decodes it again.
 *
 * Both sides use libjpeg-turbo's defaults, as Pillow does: Huffman-coded 4:2:0, the slow and exact
 * DCTs, fancy upsampling. The context's decoder is free for this. The window that the pixels come
 * from was decoded to its end, and a later window reads its header again.
 */
#include "recompress.h"

#include "jpeg.h"

/* Decodes the encoder's file into the rows of *out. */
static int read_back(hrn_context *context, const hrn_image *out, hrn_status *status) {
  hrn_jpeg *jpeg = context->jpeg;
  struct jpeg_decompress_struct *info = &jpeg->info;
  jpeg->status = status;
  if (setjmp(jpeg->escape) != 0) {
    hrn_jpeg_close(context);
    /* The file is our own: whatever is wrong with it is no fault of the record's. */
    if (status->code != HRN_MEMORY && status->code != HRN_LIMIT) status->code = HRN_INTERNAL;
    status->offset = -1;
    return status->code;
  }
  hrn_jpeg_open(context);
  hrn_jpeg_source_init(jpeg, context->jpeg->encoder.bytes, context->jpeg->encoder.length);
  jpeg_read_header(info, TRUE);
  info->out_color_space = JCS_EXT_RGBX;
  jpeg_start_decompress(info);
  while (info->output_scanline < info->output_height) {
    JSAMPROW row = out->pixels + (size_t)info->output_scanline * out->stride;
    jpeg_read_scanlines(info, &row, 1);
  }
  jpeg_finish_decompress(info);
  hrn_jpeg_close(context);
  return status->code;
}

int hrn_recompress(hrn_context *context, int32_t quality, const hrn_image *image,
                   const hrn_image *out, hrn_status *status) {
  if (image->width > JPEG_MAX_DIMENSION || image->height > JPEG_MAX_DIMENSION) {
    return hrn_fail(status, HRN_LIMIT, -1, "image of %dx%d pixels; a side of a JPEG has at most %d",
                    image->width, image->height, (int)JPEG_MAX_DIMENSION);
  }
  const uint32_t warnings = status->warnings; /* of the record's decoder */
  if (hrn_encode_image(context, image, quality, 0, status) != HRN_OK ||
      read_back(context, out, status) != HRN_OK) {
    return status->code;
  }
  status->warnings = warnings;
  return HRN_OK;
}
