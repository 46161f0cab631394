/* classes.c: reads a mask that is a file: a PNG whose pixels are classes. */
#include "decoder.h"

int hrn_decode_mask(hrn_context *context, const uint8_t *bytes, size_t length, int32_t width,
                    int32_t height, hrn_status *status) {
  const hrn_png *png = context->png;
  uint8_t codec;
  uint32_t wide, high;
  if (hrn_decode_begin(context, bytes, length, status) != HRN_OK ||
      hrn_sniff(bytes, length, &codec, status) != HRN_OK) {
    return status->code;
  }
  if (codec != HRN_CODEC_PNG) {
    return hrn_fail(status, HRN_UNSUPPORTED, 0, "a mask that is no PNG (expected a PNG)");
  }
  if (hrn_png_header(context, &wide, &high, status) != HRN_OK) return status->code;
  if (wide != (uint32_t)width || high != (uint32_t)height) {
    return hrn_fail(status, HRN_BAD, -1, "a mask of %u x %u (expected the image's %d x %d)", high,
                    wide, height, width);
  }
  if (png->channels != 1 || png->bit_depth > 8) {
    return hrn_fail(status, HRN_UNSUPPORTED, -1,
                    "a PNG of another kind (expected one channel of 8 bits, or a palette)");
  }
  return HRN_OK;
}

int hrn_decode_classes(hrn_context *context, const hrn_box *box, uint8_t **classes,
                       hrn_status *status) {
  return hrn_png_classes(context, box, classes, status);
}
