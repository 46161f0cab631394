/* encode.c: writes an image as a JPEG of a given quality, with libjpeg's defaults: baseline, 4:2:0,
 * standard Huffman tables. */
#include "jpeg.h"

/* Whether no pixel has a colour. Then one component is enough, and libjpeg's weights, whose sum is
 * 1, keep each value. */
static bool colourless(const hrn_image *image) {
  for (int32_t y = 0; y < image->height; y++) {
    const uint8_t *pixel = image->pixels + (size_t)y * image->stride;
    for (int32_t x = 0; x < image->width; x++, pixel += 4) {
      if (pixel[0] != pixel[1] || pixel[0] != pixel[2]) return false;
    }
  }
  return true;
}

/* Pixels are stored as they were, so the file must still say how to turn them: in an EXIF block of
 * one entry. Orientation 1 means "as it is", and so does a file without the block. */
static void write_orientation(j_compress_ptr info, int32_t orientation) {
  const JOCTET block[] = {
      'E',  'x', 'i', 'f', 0, 0,                                     /* TIFF follows: */
      'I',  'I', 42,  0,   8, 0, 0, 0,                               /* the directory is at 8 */
      1,    0,                                                       /* one entry: */
      0x12, 1,   3,   0,   1, 0, 0, 0, (JOCTET)orientation, 0, 0, 0, /* Orientation, SHORT, one */
      0,    0,   0,   0,                                             /* no further directory */
  };
  if (orientation > 1) jpeg_write_marker(info, JPEG_APP0 + 1, block, sizeof block);
}

int hrn_encode_image(hrn_context *context, const hrn_image *image, int32_t quality,
                     int32_t orientation, hrn_status *status) {
  hrn_encoder *encoder = &context->jpeg->encoder;
  j_compress_ptr info = &encoder->info;
  context->jpeg->status = status;
  if (setjmp(context->jpeg->escape) != 0) {
    hrn_encoder_close(encoder);
    /* The pixels and the settings are ours, and the texts of other codes would blame the file. */
    if (status->code != HRN_MEMORY && status->code != HRN_LIMIT) status->code = HRN_INTERNAL;
    status->offset = -1;
    return status->code;
  }
  hrn_jpeg_errors_init(context->jpeg); /* after a PNG nobody has done so */
  hrn_encoder_open(context);
  info->image_width = (JDIMENSION)image->width;
  info->image_height = (JDIMENSION)image->height;
  info->input_components = 4;
  info->in_color_space = JCS_EXT_RGBX;
  jpeg_set_defaults(info);
  if (colourless(image)) jpeg_set_colorspace(info, JCS_GRAYSCALE);
  jpeg_set_quality(info, quality, TRUE);
  jpeg_start_compress(info, TRUE);
  write_orientation(info, orientation);
  while (info->next_scanline < info->image_height) {
    JSAMPROW row = image->pixels + (size_t)info->next_scanline * image->stride;
    jpeg_write_scanlines(info, &row, 1);
  }
  jpeg_finish_compress(info);
  hrn_encoder_close(encoder);
  return status->code;
}
