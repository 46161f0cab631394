/* encode.c: an image decoded, perhaps made smaller, and written anew: encoded as JPEG, which loses,
 * or as it is.
 *
 * The pixels are those that a loader would see: Pillow's decode, convert("RGB"), and resize. A JPEG
 * is what libjpeg's defaults make of them at a quality: baseline, 4:2:0, standard Huffman tables.
 * It depends on the record and the arguments alone.
 */
#include <string.h>

#include "decoder.h"
#include "plan.h"

/* The decoded image with its shorter side `shorter`, as torchvision's Resize(int) and Pillow's
 * BILINEAR make it; 0 or a larger number: as it is, for nothing is ever enlarged. */
static int make_pixels(hrn_context *context, int32_t shorter, int32_t width, int32_t height,
                       hrn_image *image, hrn_status *status) {
  const hrn_box whole = {0, 0, width, height};
  if (shorter == 0 || (width <= shorter || height <= shorter)) {
    return hrn_decode_window(context, &whole, image, status);
  }
  const hrn_op op = {.kind = HRN_OP_RESIZE_SHORTER, .filter = HRN_BILINEAR, .i = {shorter}};
  const hrn_output unused = {.dtype = HRN_UINT8};
  const hrn_key nothing_drawn = {0};
  hrn_program program;
  hrn_plan *plan = hrn_plan_new(&op, 1, &unused, status);
  if (plan == NULL) return status->code;
  const int folded = hrn_fold(plan, &nothing_drawn, width, height, &program, status);
  hrn_plan_free(plan);
  if (folded != HRN_OK) return folded;

  /* One op is one stage. Its rows go into an image, which the compressor takes as it is: no copy
   * in three bytes a pixel. */
  hrn_ready ready;
  if (hrn_stage_prepare(context, program.stages, &ready, status) != HRN_OK) return status->code;
  image->width = program.stages[0].x.length;
  image->height = program.stages[0].y.length;
  image->stride = (size_t)image->width * 4; /* smaller than the source, whose size was checked */
  image->pixels =
      hrn_scratch(context, HRN_SCRATCH_IMAGE_A, image->stride * (size_t)image->height, status);
  if (image->pixels == NULL) return status->code;
  const hrn_sink sink = {.image = image, .width = image->width, .height = image->height};
  return hrn_stage_first(context, &ready, &sink, status);
}

/* Whether no pixel has a colour: then one component says it all, and libjpeg's weights, whose sum
 * is 1, keep each value. */
static bool colourless(const hrn_image *image) {
  for (int32_t y = 0; y < image->height; y++) {
    const uint8_t *pixel = image->pixels + (size_t)y * image->stride;
    for (int32_t x = 0; x < image->width; x++, pixel += 4) {
      if (pixel[0] != pixel[1] || pixel[0] != pixel[2]) return false;
    }
  }
  return true;
}

/* Pixels are stored as they were, so what says how to turn them must stay: an EXIF block of one
 * entry. 1 is "as it is", which a file without the block says as well. */
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
  hrn_encoder *encoder = &context->encoder;
  j_compress_ptr info = &encoder->info;
  context->jpeg.status = status;
  if (setjmp(context->jpeg.escape) != 0) {
    hrn_encoder_close(encoder);
    /* The pixels and the settings are ours; the shared texts would blame the file. */
    if (status->code != HRN_MEMORY && status->code != HRN_LIMIT) status->code = HRN_INTERNAL;
    status->offset = -1;
    return status->code;
  }
  hrn_jpeg_errors_init(&context->jpeg); /* after a PNG nobody has */
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

/* The pixels as they are, three bytes each. */
static int write_ppm(hrn_context *context, const hrn_image *image, int32_t orientation,
                     hrn_status *status) {
  hrn_encoder *encoder = &context->encoder;
  char header[80], comment[sizeof HRN_PPM_ORIENTATION + 4] = "";
  const size_t row = (size_t)image->width * 3;
  uint8_t *rgb = hrn_scratch(context, HRN_SCRATCH_ROWS, row, status);
  if (rgb == NULL) return status->code;
  context->jpeg.status = status;
  if (setjmp(context->jpeg.escape) != 0) { /* the limit, or no memory */
    hrn_encoder_close(encoder);
    return status->code;
  }
  if (orientation > 1) {
    snprintf(comment, sizeof comment, "#" HRN_PPM_ORIENTATION "%c\n", (char)('0' + orientation));
  }
  const int length =
      snprintf(header, sizeof header, "P6\n%s%d %d\n255\n", comment, image->width, image->height);
  hrn_jpeg_errors_init(&context->jpeg);
  hrn_encoder_open(context);
  hrn_encoder_append(encoder, (const uint8_t *)header, (size_t)length);
  for (int32_t y = 0; y < image->height; y++) {
    const uint8_t *pixel = image->pixels + (size_t)y * image->stride;
    uint8_t *to = rgb;
    for (int32_t x = 0; x < image->width; x++, pixel += 4, to += 3) memcpy(to, pixel, 3);
    hrn_encoder_append(encoder, rgb, row);
  }
  hrn_encoder_close(encoder);
  return HRN_OK;
}

static int check_arguments(int32_t shorter, int32_t quality, int32_t orientation,
                           hrn_status *status) {
  if (shorter < 0 || shorter > JPEG_MAX_DIMENSION) {
    return hrn_fail(status, HRN_ARGUMENT, -1, "resize is %d, must be 0 to %d", shorter,
                    (int)JPEG_MAX_DIMENSION);
  }
  if (quality < 1 || quality > 100) {
    return hrn_fail(status, HRN_ARGUMENT, -1, "quality is %d, must be 1 to 100", quality);
  }
  if (orientation < 0 || orientation > 8) {
    return hrn_fail(status, HRN_ARGUMENT, -1, "orientation is %d, must be 0 to 8", orientation);
  }
  return HRN_OK;
}

int hrn_reencode(hrn_context *context, const uint8_t *bytes, size_t length, int32_t shorter,
                 int32_t quality, int32_t orientation, hrn_encoded *encoded, hrn_status *status) {
  uint32_t width, height;
  hrn_image image;
  hrn_status_clear(status);
  *encoded = (hrn_encoded){NULL, 0};
  if (check_arguments(shorter, quality, orientation, status) != HRN_OK ||
      hrn_decode_header(context, bytes, length, &width, &height, status) != HRN_OK) {
    return status->code;
  }
  /* A PNG may be longer than any JPEG. */
  if (width > JPEG_MAX_DIMENSION || height > JPEG_MAX_DIMENSION) {
    return hrn_fail(status, HRN_LIMIT, -1, "image of %ux%u pixels; a side of a JPEG has at most %d",
                    width, height, (int)JPEG_MAX_DIMENSION);
  }
  if (make_pixels(context, shorter, (int32_t)width, (int32_t)height, &image, status) != HRN_OK) {
    return status->code;
  }
  const uint32_t warnings = status->warnings; /* of the decoder */
  if (hrn_encode_image(context, &image, quality, orientation, status) != HRN_OK) {
    return status->code;
  }
  status->warnings = warnings;
  *encoded = (hrn_encoded){context->encoder.bytes, context->encoder.length};
  return HRN_OK;
}

int hrn_to_ppm(hrn_context *context, const uint8_t *bytes, size_t length, int32_t shorter,
               int32_t orientation, hrn_encoded *encoded, hrn_status *status) {
  uint32_t width, height;
  hrn_image image;
  hrn_status_clear(status);
  *encoded = (hrn_encoded){NULL, 0};
  if (check_arguments(shorter, 1, orientation, status) != HRN_OK ||
      hrn_decode_header(context, bytes, length, &width, &height, status) != HRN_OK) {
    return status->code;
  }
  if (hrn_check_sides(width, height, status) != HRN_OK) return status->code;
  if (make_pixels(context, shorter, (int32_t)width, (int32_t)height, &image, status) != HRN_OK) {
    return status->code;
  }
  const uint32_t warnings = status->warnings; /* of the decoder */
  if (write_ppm(context, &image, orientation, status) != HRN_OK) return status->code;
  status->warnings = warnings;
  *encoded = (hrn_encoded){context->encoder.bytes, context->encoder.length};
  return HRN_OK;
}
