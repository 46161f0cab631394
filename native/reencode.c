/* reencode.c: decodes an image, perhaps makes it smaller, and writes it anew: encoded as a JPEG,
 * which loses quality, or as plain pixels.
 *
 * The pixels are those that a loader would see: Pillow's decode, convert("RGB"), and resize. A JPEG
 * is made of them with libjpeg's defaults at a quality: baseline, 4:2:0, standard Huffman tables.
 * The result depends only on the record and the arguments.
 */
#include <string.h>

#include "jpeg/jpeg.h"
#include "native.h"

/* The decoded image, with its shorter side reduced to `shorter` as by torchvision's Resize(int)
 * with Pillow's BILINEAR. If `shorter` is 0 or not smaller than that side, the image stays as it
 * is, because nothing is ever enlarged. */
static int make_pixels(hrn_context *context, int32_t shorter, int32_t width, int32_t height,
                       hrn_image *image, hrn_status *status) {
  const hrn_box whole = {0, 0, width, height};
  if (shorter == 0 || (width <= shorter || height <= shorter)) {
    return hrn_decode_window(context, &whole, image, status);
  }
  const hrn_op op = {
      .kind = HRN_OP_RESIZE_SHORTER, .filter = HRN_BILINEAR, .shorter = {.size = shorter}};
  const hrn_output unused = {.dtype = HRN_UINT8};
  const hrn_key nothing_drawn = {0};
  hrn_program program;
  hrn_plan *plan = hrn_plan_new(&op, 1, &unused, status);
  if (plan == NULL) return status->code;
  const int folded = hrn_fold(plan, &nothing_drawn, width, height, &program, status);
  hrn_plan_free(plan);
  if (folded != HRN_OK) return folded;

  /* One op is one stage. Its rows go into an image that the compressor takes as it is, so no copy
   * with three bytes a pixel is made. */
  hrn_ready ready;
  if (hrn_stage_prepare(context, program.stages, &ready, status) != HRN_OK) return status->code;
  image->width = program.stages[0].x.length;
  image->height = program.stages[0].y.length;
  image->stride = (size_t)image->width * 4; /* smaller than the source, whose size was checked */
  image->pixels =
      hrn_scratch(context, HRN_SCRATCH_IMAGE_A, image->stride * (size_t)image->height, status);
  if (image->pixels == NULL) return status->code;
  const hrn_writer writer = hrn_image_writer(image, image->width, image->height);
  return hrn_stage_first(context, &ready, &writer.sink, status);
}

/* Writes the pixels as they are, three bytes each. */
static int write_ppm(hrn_context *context, const hrn_image *image, int32_t orientation,
                     hrn_status *status) {
  hrn_encoder *encoder = &context->jpeg->encoder;
  char header[80], comment[sizeof HRN_PPM_ORIENTATION + 4] = "";
  const size_t row = (size_t)image->width * 3;
  uint8_t *rgb = hrn_scratch(context, HRN_SCRATCH_ROWS, row, status);
  if (rgb == NULL) return status->code;
  context->jpeg->status = status;
  if (setjmp(context->jpeg->escape) != 0) { /* the limit, or no memory */
    hrn_encoder_close(encoder);
    return status->code;
  }
  if (orientation > 1) {
    snprintf(comment, sizeof comment, "#" HRN_PPM_ORIENTATION "%c\n", (char)('0' + orientation));
  }
  const int length =
      snprintf(header, sizeof header, "P6\n%s%d %d\n255\n", comment, image->width, image->height);
  hrn_jpeg_errors_init(context->jpeg);
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
  *encoded = (hrn_encoded){context->jpeg->encoder.bytes, context->jpeg->encoder.length};
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
  *encoded = (hrn_encoded){context->jpeg->encoder.bytes, context->jpeg->encoder.length};
  return HRN_OK;
}
