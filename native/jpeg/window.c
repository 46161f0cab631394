/* window.c: the pixels of a window of a JPEG, a few rows at a time. */
#include "hook.h"

/* Rows a call of jpeg_read_scanlines: more than any sampling's group of rows. */
#define ROWS_PER_CALL 16

/* How many columns are decoded beside the window. Fancy upsampling makes a pixel of its neighbour's
 * chroma as well, and treats the window's edge as the image's. So the outermost columns come out
 * wrong; one column is too few at the left edge of 4:2:0. If the crop leaves a component fewer than
 * two columns, jpeg_crop_scanline chooses every component's upsampling anew, and a component of
 * half the width that has two columns gets plain upsampling. That happens only if another component
 * has a third or a quarter of the width. Eight columns leave three of that one. */
static uint32_t column_padding(const struct jpeg_decompress_struct *info) {
  return info->max_h_samp_factor > 2 ? 8 : 2;
}

/* Spreads a row of one byte a pixel to RGBX, in place. It begins at the end, so that no value is
 * overwritten before it is read. */
static void spread_grey(uint8_t *row, size_t pixels) {
  for (size_t x = pixels; x-- > 0;) {
    const uint8_t value = row[x];
    row[4 * x] = row[4 * x + 1] = row[4 * x + 2] = value;
    row[4 * x + 3] = 255;
  }
}

/* Reads `count` rows of the window to `first`, `stride` bytes apart. */
static void read_rows(hrn_jpeg *jpeg, uint8_t *first, size_t stride, uint32_t count) {
  JSAMPROW rows[ROWS_PER_CALL];
  first -= jpeg->margin;
  while (count > 0) {
    uint32_t group = count < ROWS_PER_CALL ? count : ROWS_PER_CALL;
    for (uint32_t i = 0; i < group; i++) rows[i] = first + i * stride;
    /* There may be fewer rows than asked for where a group of rows ends, but never 0, because our
     * source does not suspend. */
    uint32_t done = jpeg_read_scanlines(&jpeg->info, rows, group);
    if (done == 0) {
      hrn_fail(jpeg->status, HRN_INTERNAL, -1, "libjpeg has no row %u", jpeg->info.output_scanline);
      return;
    }
    if (jpeg->info.out_color_space == JCS_CMYK) {
      for (uint32_t i = 0; i < done; i++) hrn_cmyk_to_rgbx(rows[i], stride / 4);
    }
    if (jpeg->info.out_color_space == JCS_GRAYSCALE) {
      for (uint32_t i = 0; i < done; i++) spread_grey(rows[i], stride / 4);
    }
    first += done * stride;
    count -= done;
  }
}

int hrn_jpeg_read(hrn_context *context, uint8_t *first, size_t stride, uint32_t count,
                  hrn_status *status) {
  hrn_jpeg *jpeg = context->jpeg;
  if (jpeg->own_pixels) {
    hrn_planes_read(context, first, stride, count);
    return HRN_OK;
  }
  jpeg->status = status;
  if (setjmp(jpeg->escape) != 0) {
    hrn_jpeg_close(context);
    return status->code;
  }
  read_rows(jpeg, first, stride, count);
  return status->code;
}

/* A file of several scans is read whole before its first row. The memory for rows is asked for
 * before that, so that it is not refused after seconds of decoding. It is as wide as the crop can
 * become. */
static int reserve_rows(hrn_context *context, const hrn_box *box, int32_t at_once,
                        hrn_status *status) {
  struct jpeg_decompress_struct *info = &context->jpeg->info;
  if (!jpeg_has_multiple_scans(info)) return HRN_OK;
  uint64_t columns =
      (uint64_t)box->width + 2 * column_padding(info) + (uint64_t)info->max_h_samp_factor * DCTSIZE;
  if (columns > info->image_width || context->jpeg->lossless) columns = info->image_width;
  const size_t bytes = (size_t)columns * 4 * (size_t)at_once;
  return hrn_scratch(context, HRN_SCRATCH_DECODE, bytes, status) != NULL ? HRN_OK : status->code;
}

/* Lets planes.c make the pixels. Returns 0 if that needs more memory than is allowed. */
static int begin_planes(hrn_context *context, const hrn_box *box, hrn_rows *rows,
                        hrn_status *status) {
  const size_t stride = (size_t)box->width * 4;
  uint8_t *pixels = NULL;
  if (hrn_planes_begin(context, box, status)) {
    pixels = hrn_scratch(context, HRN_SCRATCH_DECODE,
                         (size_t)rows->at_once * stride + HRN_COLOUR_PADDING, status);
  }
  if (pixels == NULL) {
    hrn_status_clear(status);
    context->jpeg->hook = NULL;
    return 0;
  }
  context->jpeg->own_pixels = true;
  rows->image = (hrn_image){pixels, stride, box->width, box->height};
  rows->first = rows->ready = 0;
  return 1;
}

/* Lets our own code decode the coefficients, if their rows fit the memory limit. If they do not,
 * libjpeg's own decoder does it, which needs less. The hook counts in MCUs of the file, whatever
 * the scale. */
static void install_hook(hrn_context *context, uint32_t first, uint32_t columns, uint32_t bottom,
                         hrn_status *status) {
  const uint32_t denominator = context->jpeg->denominator;
  if (hrn_hook_install(context, first * denominator, columns * denominator, bottom * denominator,
                       status) != HRN_OK) {
    hrn_status_clear(status);
  }
}

/* Leaves out the columns that are not needed: *first moves left to a whole MCU. */
static void narrow(struct jpeg_decompress_struct *info, const hrn_box *box, JDIMENSION *first,
                   JDIMENSION *columns) {
  uint32_t from = (uint32_t)box->left, to = from + (uint32_t)box->width;
  const uint32_t padding = column_padding(info), all = *columns;
  from = from > padding ? from - padding : 0;
  to = all - to > padding ? to + padding : all;
  if (to - from == all) return;
  *first = from;
  *columns = to - from;
  jpeg_crop_scanline(info, first, columns);
}

/* Prepares to decode the window and at most a few rows and columns beside it. Entropy-coded data
 * above it has to be read, because an MCU's place is known only once the one before it was read.
 * Inverse DCT, upsampling and colour conversion are done for the window alone. Nothing at all is
 * done for what is below. */
int hrn_jpeg_rows(hrn_context *context, const hrn_box *box, bool hooked, hrn_rows *rows,
                  hrn_status *status) {
  hrn_jpeg *jpeg = context->jpeg;
  struct jpeg_decompress_struct *info = &jpeg->info;
  jpeg->status = status;
  if (setjmp(jpeg->escape) != 0) {
    hrn_jpeg_close(context);
    return status->code;
  }
  const uint32_t denominator = context->jpeg->denominator;
  info->scale_num = 1;
  info->scale_denom = denominator;
  /* At a fraction of the size most samplings need no upsampling of chroma any more. If one still
   * does (4:1:0 at 1/2), libjpeg's fancy upsampling takes its width and context rows from the full
   * scale, and a window would differ from the whole image. */
  if (denominator > 1 && !jpeg->drafts) info->do_fancy_upsampling = FALSE;
  if (jpeg->grey) info->out_color_space = JCS_GRAYSCALE;
  if (reserve_rows(context, box, rows->at_once, status) != HRN_OK) {
    hrn_jpeg_close(context);
    return status->code;
  }
  hrn_jpeg_start(context);
  /* Set after setjmp and not read after a jump, so a jump cannot leave it undefined. */
  bool ours = hooked && !jpeg->lossless && hrn_hook_refusal() == NULL && hrn_hook_accepts(context);
  if (ours && !hrn_planes_refused() && hrn_planes_accept(context)) {
    if (begin_planes(context, box, rows, status)) return HRN_OK;
    ours = false; /* libjpeg's way needs less memory */
  }

  JDIMENSION first = 0, columns = info->output_width;
  uint32_t top = (uint32_t)box->top;
  /* Some files must be decoded without skipping or cropping to get Pillow's pixels. If coefficients
   * were never sent, libjpeg smooths over them and looks at neighbouring blocks for that. For
   * drafts, upsampling looks beside a window as far as the full scale needs. In lossless files each
   * sample is predicted from those above and beside it. */
  bool whole =
      jpeg->drafts || jpeg->lossless || (info->progressive_mode && hrn_jpeg_incomplete(info));
  if (!whole) narrow(info, box, &first, &columns);
  if (ours) install_hook(context, first, columns, top + (uint32_t)box->height, status);
  if (!whole && top > 0) jpeg_skip_scanlines(info, top);

  size_t stride = (size_t)columns * 4;
  uint8_t *pixels =
      hrn_scratch(context, HRN_SCRATCH_DECODE, (size_t)rows->at_once * stride, status);
  if (pixels == NULL) {
    hrn_jpeg_close(context);
    return status->code;
  }
  jpeg->margin = (uint32_t)(((size_t)box->left - first) * 4);
  rows->image = (hrn_image){pixels + jpeg->margin, stride, box->width, box->height};
  rows->first = rows->ready = 0;
  if (whole) { /* rows above the window, each written over the last */
    while (info->output_scanline < top) read_rows(jpeg, rows->image.pixels, stride, 1);
  }
  return status->code;
}

/* Reads on to EOI if the window reached the last row, because what stands behind the pixels can
 * make the file a bad one. What is below a window stays unread. Files of several scans were read to
 * EOI before their first row, and our own decoder looks for EOI itself. */
static void read_tail(hrn_jpeg *jpeg, hrn_status *status) {
  struct jpeg_decompress_struct *info = &jpeg->info;
  if (jpeg->hook != NULL || jpeg_has_multiple_scans(info) ||
      info->output_scanline < info->output_height) {
    return;
  }
  jpeg->status = status;
  if (setjmp(jpeg->escape) != 0) return;
  while (jpeg_consume_input(info) != JPEG_REACHED_EOI) continue;
}

int hrn_jpeg_settle(hrn_rows *rows, int *again, hrn_status *status) {
  hrn_context *context = rows->source;
  read_tail(context->jpeg, status);
  if (status->code == HRN_OK) hrn_jpeg_verdict(context->jpeg, status);
  hrn_jpeg_close(context);
  *again = status->code == HRN_OK && hrn_hook_irregular(context);
  if (!*again) {
    if (status->code == HRN_OK) hrn_learn_end(context);
    return status->code;
  }
  /* The data is damaged, or the seek points are another file's. The verdict is libjpeg's, as if
   * nothing had been tried before it. */
  hrn_status_clear(status);
  uint32_t width, height;
  if (hrn_jpeg_header(context, &width, &height, status) != HRN_OK) {
    return status->code;
  }
  return hrn_jpeg_rows(context, &rows->box, false, rows, status);
}
