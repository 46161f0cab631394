/* header.c: opens and closes a JPEG, reads its header, and gives the verdict on what was read. */
#include <stdlib.h>

#include "jpeg.h"

void hrn_jpeg_close(hrn_context *context) {
  hrn_jpeg *jpeg = context->jpeg;
  if (!jpeg->created) return;
  jpeg->scans = (uint32_t)jpeg->info.input_scan_number;
  jpeg_destroy_decompress(&jpeg->info);
  context->held = 0;
  jpeg->created = false;
}

bool hrn_jpeg_new(hrn_context *context) {
  context->jpeg = calloc(1, sizeof *context->jpeg);
  return context->jpeg != NULL;
}

void hrn_jpeg_free(hrn_context *context) {
  hrn_jpeg *jpeg = context->jpeg;
  if (jpeg == NULL) return;
  hrn_jpeg_close(context);
  hrn_encoder_free(&jpeg->encoder);
  free(jpeg->entropy);
  free(jpeg->kept_hook);
  free(jpeg);
  context->jpeg = NULL;
}

void hrn_jpeg_begin(hrn_context *context) {
  hrn_jpeg_close(context);
  context->jpeg->seek = NULL;
  context->jpeg->seek_step = 0;
  context->jpeg->learns = false;
  context->jpeg->learned = NULL;
  context->jpeg->unlearnable = false;
  context->jpeg->denominator = 1;
  context->jpeg->drafts = context->jpeg->grey = false;
}

/* Makes the one jpeg_decompress_struct anew for each image. jpeg_abort would keep the quantisation
 * and Huffman tables of the last image, and a file without tables of its own would then be decoded
 * with those of another file. Pixels must depend on the record alone. This costs under a
 * microsecond. */
void hrn_jpeg_open(hrn_context *context) {
  hrn_jpeg *jpeg = context->jpeg;
  hrn_jpeg_close(context);
  hrn_jpeg_errors_init(jpeg);
  jpeg->info.err = &jpeg->errors;
  jpeg->info.client_data = jpeg; /* jpeg_create_decompress keeps both */
  jpeg_create_decompress(&jpeg->info);
  jpeg->created = true;
  hrn_jpeg_source_init(jpeg, context->bytes, context->length);
  jpeg->info.src = &jpeg->source;
  hrn_jpeg_limits_init(context);
  jpeg->hook = NULL;
  jpeg->own_pixels = false;
  jpeg->lossless = false;
}

/* libjpeg enlarges a component by whole factors only. It refuses other factors when a decode
 * begins, but the inspection of a plain file never begins one, so they are checked here. */
static int check_sampling(const hrn_jpeg *jpeg) {
  const struct jpeg_decompress_struct *info = &jpeg->info;
  for (int i = 0; i < info->num_components; i++) {
    const jpeg_component_info *c = &info->comp_info[i];
    if (info->max_h_samp_factor % c->h_samp_factor != 0 ||
        info->max_v_samp_factor % c->v_samp_factor != 0) {
      return hrn_fail(jpeg->status, HRN_UNSUPPORTED, -1,
                      "JPEG with a component of %dx%d samples to %dx%d of others", c->h_samp_factor,
                      c->v_samp_factor, info->max_h_samp_factor, info->max_v_samp_factor);
    }
  }
  return HRN_OK;
}

/* libjpeg converts no colours of a lossless file, so samples come as they are stored. window.c
 * spreads grey rows to RGBX. */
static int choose_lossless(hrn_jpeg *jpeg) {
  struct jpeg_decompress_struct *info = &jpeg->info;
  if (info->arith_code) {
    return hrn_fail(jpeg->status, HRN_UNSUPPORTED, -1, "lossless JPEG, arithmetic-coded");
  }
  switch (info->jpeg_color_space) {
    case JCS_GRAYSCALE:
    case JCS_CMYK:
      info->out_color_space = info->jpeg_color_space;
      break;
    case JCS_RGB:
      info->out_color_space = JCS_EXT_RGBX;
      break;
    default:
      return hrn_fail(jpeg->status, HRN_UNSUPPORTED, -1,
                      "lossless JPEG whose colours are not grey, RGB or CMYK");
  }
  return check_sampling(jpeg);
}

/* Pillow's pixels: the slow and exact inverse DCT, fancy upsampling, and libjpeg's own guess at the
 * colour space. */
static int choose_output(hrn_jpeg *jpeg) {
  struct jpeg_decompress_struct *info = &jpeg->info;
  if (jpeg->lossless) return choose_lossless(jpeg);
  switch (info->jpeg_color_space) {
    case JCS_GRAYSCALE:
    case JCS_RGB:
    case JCS_YCbCr:
      info->out_color_space = JCS_EXT_RGBX;
      break;
    case JCS_CMYK:
    case JCS_YCCK:
      info->out_color_space = JCS_CMYK;
      break;
    default:
      return hrn_fail(jpeg->status, HRN_UNSUPPORTED, -1, "JPEG of %d components",
                      info->num_components);
  }
  info->dct_method = JDCT_ISLOW;
  info->do_fancy_upsampling = TRUE;
  info->do_block_smoothing = TRUE;
  return check_sampling(jpeg);
}

int hrn_jpeg_draft(hrn_context *context, uint32_t denominator, bool grey, hrn_status *status) {
  hrn_jpeg *jpeg = context->jpeg;
  /* A window may have closed the decoder when it was done. The header is then read again. */
  if (!jpeg->created) {
    uint32_t width, height;
    if (hrn_jpeg_header(context, &width, &height, status) != HRN_OK) return status->code;
  }
  if (grey && jpeg->info.out_color_space != JCS_EXT_RGBX) {
    return hrn_fail(status, HRN_UNSUPPORTED, -1, "a grey draft of a CMYK JPEG");
  }
  if (jpeg->lossless) {
    return hrn_fail(status, HRN_UNSUPPORTED, -1, "a draft of a lossless JPEG");
  }
  jpeg->denominator = denominator;
  jpeg->drafts = true;
  jpeg->grey = grey;
  return HRN_OK;
}

/* libjpeg-turbo 2 itself refuses lossless files, and samples of other than 8 bits; version 3
 * decodes both. In a lossless file each sample is a data unit of its own, so min_DCT_scaled_size is
 * 1. */
static int check_precision(hrn_jpeg *jpeg) {
#if LIBJPEG_TURBO_VERSION_NUMBER >= 3000000
  const int bits = jpeg->info.data_precision;
  jpeg->lossless = jpeg->info.min_DCT_scaled_size == 1;
  if (bits != 8) return hrn_fail(jpeg->status, HRN_UNSUPPORTED, -1, "%d-bit JPEG", bits);
#endif
  (void)jpeg;
  return HRN_OK;
}

int hrn_jpeg_header(hrn_context *context, uint32_t *width, uint32_t *height, hrn_status *status) {
  hrn_jpeg *jpeg = context->jpeg;
  jpeg->status = status;
  if (setjmp(jpeg->escape) != 0) {
    hrn_jpeg_close(context);
    return status->code;
  }
  hrn_jpeg_open(context);
  jpeg_read_header(&jpeg->info, TRUE);
  *width = jpeg->info.image_width;
  *height = jpeg->info.image_height;
  if (check_precision(jpeg) != HRN_OK || choose_output(jpeg) != HRN_OK ||
      hrn_check_pixels(context, *width, *height, status) != HRN_OK) {
    hrn_jpeg_close(context);
    return status->code;
  }
  hrn_jpeg_admit(context);
  return HRN_OK;
}

/* Whether a file of several scans never sent some coefficients, or a whole component. */
bool hrn_jpeg_incomplete(const struct jpeg_decompress_struct *info) {
  for (int component = 0; component < info->num_components; component++) {
    /* libjpeg sets it at the component's first scan. */
    if (info->comp_info[component].quant_table == NULL) return true;
    if (!info->progressive_mode || info->coef_bits == NULL) continue;
    for (int coefficient = 0; coefficient < DCTSIZE2; coefficient++) {
      if (info->coef_bits[component][coefficient] != 0) return true;
    }
  }
  return false;
}

/* Warnings and truncation, after the library has read what was wanted of it. */
int hrn_jpeg_verdict(hrn_jpeg *jpeg, hrn_status *status) {
  struct jpeg_decompress_struct *info = &jpeg->info;
  status->warnings = jpeg->warnings;
  if (jpeg->truncated) return hrn_jpeg_truncated(jpeg, status);
  /* libjpeg's arithmetic decoder reads zeros behind the end and does not warn. */
  if (jpeg->ran_dry && info->arith_code && jpeg->dry_row < info->total_iMCU_rows) {
    return hrn_jpeg_truncated(jpeg, status);
  }
  /* The file was cut between two scans. With an EOI of its own it would be complete, if unusual.
   * For a lossless file nothing tells which components were sent, so it needs its EOI. */
  if (jpeg->ran_dry && jpeg_has_multiple_scans(info) &&
      (jpeg->lossless || hrn_jpeg_incomplete(info))) {
    return hrn_jpeg_truncated(jpeg, status);
  }
  return HRN_OK;
}
