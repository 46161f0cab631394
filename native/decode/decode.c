/* decode.c: the one entry to the decoders: finds what kind the bytes are, and calls their
 * decoder. */
#include "../core/crc32c.h"
#include "decoder.h"

#include <math.h>

/* Whatever the last record left open is closed first, because its bytes may be gone. */
int hrn_decode_begin(hrn_context *context, const uint8_t *bytes, size_t length,
                     hrn_status *status) {
  hrn_jpeg_begin(context);
  hrn_scratch_begin(context);
  context->record->codec = HRN_CODEC_UNKNOWN;
  context->record->fast = false;
  context->bytes = bytes;
  context->length = length;
  if (length > context->limits.max_record_bytes) {
    return hrn_fail(status, HRN_LIMIT, -1, "the record has %zu bytes, max_record_bytes is %llu",
                    length, (unsigned long long)context->limits.max_record_bytes);
  }
  return HRN_OK;
}

/* Reads sizes and checks them against max_pixels, before any memory depends on them. */
static int read_header(hrn_context *context, uint8_t codec, hrn_status *status) {
  hrn_record *record = context->record;
  uint32_t *width = &record->width, *height = &record->height;
  switch (codec) {
    case HRN_CODEC_JPEG:
      return hrn_jpeg_header(context, width, height, status);
    case HRN_CODEC_PNG:
      return hrn_png_header(context, width, height, status);
    case HRN_CODEC_WEBP:
      return hrn_webp_header(context, &record->webp, width, height, status);
    case HRN_CODEC_BMP:
      return hrn_bmp_header(context, &record->bmp, width, height, status);
    case HRN_CODEC_GIF:
      return hrn_gif_header(context, &record->gif, width, height, status);
    case HRN_CODEC_TIFF:
      return hrn_tiff_header(context, &record->tiff, width, height, status);
    default:
      return hrn_ppm_header(context, width, height, status);
  }
}

/* Adds the time that a call took to the sample's time for decoding, if that is measured. */
static int timed_since(hrn_context *context, int64_t began, int code) {
  hrn_times *times = hrn_times_of(context);
  if (times != NULL) times->decode += hrn_now() - began;
  return code;
}

static int64_t began_now(hrn_context *context) {
  return hrn_times_of(context) != NULL ? hrn_now() : 0;
}

static int open_record(hrn_context *context, const uint8_t *bytes, size_t length, uint32_t *width,
                       uint32_t *height, hrn_status *status) {
  uint8_t codec;
  hrn_status_clear(status);
  if (hrn_decode_begin(context, bytes, length, status) != HRN_OK ||
      hrn_sniff(bytes, length, &codec, status) != HRN_OK ||
      read_header(context, codec, status) != HRN_OK) {
    return status->code;
  }
  context->record->codec = codec;
  *width = context->record->width;
  *height = context->record->height;
  return HRN_OK;
}

int hrn_decode_header(hrn_context *context, const uint8_t *bytes, size_t length, uint32_t *width,
                      uint32_t *height, hrn_status *status) {
  const int64_t began = began_now(context);
  return timed_since(context, began, open_record(context, bytes, length, width, height, status));
}

void hrn_decode_seek(hrn_context *context, const uint8_t *seek, size_t length) {
  context->jpeg->seek = seek;
  context->jpeg->seek_length = length;
}

void hrn_decode_learn(hrn_context *context) { context->jpeg->learns = true; }

bool hrn_learned(hrn_context *context, const uint8_t **seek, size_t *length, uint32_t *crc32c) {
  const hrn_jpeg *jpeg = context->jpeg;
  if (jpeg->learned == NULL && !jpeg->unlearnable) return false;
  *seek = jpeg->unlearnable ? NULL : jpeg->learned;
  *length = jpeg->unlearnable ? 0 : jpeg->learned_length;
  *crc32c = hrn_crc32c(0, context->bytes, context->length);
  return true;
}

int32_t hrn_decode_fast(hrn_context *context, int32_t denominator) {
  context->record->fast = true;
  /* Only libjpeg has a reduced inverse DCT. Other formats and lossless JPEGs have nothing to leave
   * out. */
  const bool reduces = context->record->codec == HRN_CODEC_JPEG && !context->jpeg->lossless;
  context->jpeg->denominator = reduces ? (uint32_t)denominator : 1;
  return (int32_t)context->jpeg->denominator;
}

int hrn_decode_draft(hrn_context *context, int32_t denominator, bool grey, hrn_status *status) {
  if (context->record->codec != HRN_CODEC_JPEG) {
    return hrn_fail(status, HRN_UNSUPPORTED, -1, "a draft of a file that is no JPEG");
  }
  return hrn_jpeg_draft(context, (uint32_t)denominator, grey, status);
}

void hrn_decode_exact(hrn_context *context) {
  context->record->fast = false;
  context->jpeg->denominator = 1;
  context->jpeg->drafts = context->jpeg->grey = false;
}

void hrn_decode_size(const hrn_context *context, uint32_t *width, uint32_t *height) {
  *width = context->record->width;
  *height = context->record->height;
}

/* Nanoseconds of CPU time, measured with 60 photographs of 0.57 bytes a pixel, and with 24 of them
 * as progressive files and as PNG. Only the proportions matter. */
#define COST_CALL 8000.0  /* a header, tables, and the first rows */
#define COST_ENTROPY 2.0  /* a pixel whose entropy data is read */
#define COST_PIXELS 3.0   /* a pixel that is made: inverse DCT, upsampling, colours */
#define COST_SCANS 11.0   /* a pixel of a file of several scans, wherever the window is */
#define COST_INFLATE 25.0 /* a pixel of a PNG or another format, up to the window's last row */

static bool is_copied(uint8_t codec) { return codec == HRN_CODEC_PPM || codec == HRN_CODEC_RAW; }

double hrn_decode_cost(const hrn_context *context, const hrn_box *box, int32_t denominator) {
  const double area = (double)box->width * box->height;
  /* A large union would need memory that its windows, decoded one after the other, do not need. */
  if (4 * area > (double)context->limits.max_decoder_bytes / 4) return INFINITY;
  if (is_copied(context->record->codec)) return area;
  const double scale = denominator,
               whole = (double)context->record->width * context->record->height;
  double read = context->record->width * scale * ((double)box->top + box->height);
  if (context->record->codec != HRN_CODEC_JPEG) return COST_CALL + COST_INFLATE * read;
  const struct jpeg_decompress_struct *info = &context->jpeg->info;
  if (context->jpeg->lossless) return COST_CALL + COST_SCANS * read;
  if (info->progressive_mode) return COST_CALL + COST_SCANS * whole + COST_PIXELS * area;
  if (context->jpeg->seek != NULL) read = area * scale * scale;
  return COST_CALL + COST_ENTROPY * read + COST_PIXELS * area;
}

static uint64_t reduced(const hrn_context *context, uint32_t side) {
  return ((uint64_t)side + context->jpeg->denominator - 1) / context->jpeg->denominator;
}

/* The caller's geometry is our code as well, so a window outside of the image is our mistake and
 * not the file's. It is refused anyway, in 64 bits, before a decoder sees it. */
static bool inside(const hrn_context *context, const hrn_box *box) {
  return box->left >= 0 && box->top >= 0 && box->width >= 1 && box->height >= 1 &&
         (uint64_t)box->left + (uint64_t)box->width <= reduced(context, context->record->width) &&
         (uint64_t)box->top + (uint64_t)box->height <= reduced(context, context->record->height);
}

/* Decodes a window of any format but JPEG, whose rows come as they are asked for. */
static int whole_window(hrn_context *context, const hrn_box *box, hrn_image *image,
                        hrn_status *status) {
  switch (context->record->codec) {
    case HRN_CODEC_PNG:
      return hrn_png_window(context, box, image, status);
    case HRN_CODEC_RAW:
      return hrn_raw_window(context, box, image, status);
    case HRN_CODEC_WEBP:
      return hrn_webp_window(context, &context->record->webp, box, image, status);
    case HRN_CODEC_BMP:
      return hrn_bmp_window(context, &context->record->bmp, box, image, status);
    case HRN_CODEC_GIF:
      return hrn_gif_window(context, &context->record->gif, box, image, status);
    case HRN_CODEC_TIFF:
      return hrn_tiff_window(context, &context->record->tiff, box, image, status);
    default:
      return hrn_ppm_window(context, box, image, status);
  }
}

/* hrn_jpeg_read with its time measured. It takes that function's place if somebody wants the time,
 * so it costs nothing if nobody does. */
static int timed_read(hrn_context *context, uint8_t *first, size_t stride, uint32_t count,
                      hrn_status *status) {
  const int64_t began = hrn_now();
  return timed_since(context, began, hrn_jpeg_read(context, first, stride, count, status));
}

static int begin_rows(hrn_context *context, const hrn_box *box, int32_t at_once, hrn_rows *rows,
                      hrn_status *status) {
  hrn_status_clear(status);
  if (context->record->codec == HRN_CODEC_UNKNOWN) {
    return hrn_fail(status, HRN_INTERNAL, -1, "hrn_decode_rows without hrn_decode_header");
  }
  if (!inside(context, box)) {
    return hrn_fail(status, HRN_INTERNAL, -1, "window %d, %d, %d x %d outside of %u x %u pixels",
                    box->left, box->top, box->width, box->height, context->record->width,
                    context->record->height);
  }
  if (context->record->codec != HRN_CODEC_JPEG) {
    hrn_image image;
    const int code = whole_window(context, box, &image, status);
    if (code == HRN_OK) *rows = hrn_rows_of(&image);
    return code;
  }
  *rows = (hrn_rows){.at_once = at_once < box->height ? at_once : box->height,
                     .box = *box,
                     .source = context,
                     .read = hrn_times_of(context) != NULL ? timed_read : hrn_jpeg_read};
  /* A window moves libjpeg's position in the record, so a second one begins again. */
  if (!context->jpeg->created) {
    int code = read_header(context, context->record->codec, status);
    if (code != HRN_OK) return code;
  }
  return hrn_jpeg_rows(context, box, true, rows, status);
}

int hrn_decode_rows(hrn_context *context, const hrn_box *box, int32_t at_once, hrn_rows *rows,
                    hrn_status *status) {
  const int64_t began = began_now(context);
  return timed_since(context, began, begin_rows(context, box, at_once, rows, status));
}

int hrn_decode_settle(hrn_rows *rows, int *again, hrn_status *status) {
  *again = 0;
  if (rows->source == NULL) return HRN_OK;
  const int64_t began = began_now(rows->source);
  return timed_since(rows->source, began, hrn_jpeg_settle(rows, again, status));
}

int hrn_decode_window(hrn_context *context, const hrn_box *box, hrn_image *image,
                      hrn_status *status) {
  hrn_rows rows;
  int again = 1;
  if (hrn_decode_rows(context, box, box->height, &rows, status) != HRN_OK) return status->code;
  while (again) {
    if (hrn_rows_need(&rows, 0, rows.image.height, status) != HRN_OK ||
        hrn_decode_settle(&rows, &again, status) != HRN_OK) {
      return status->code;
    }
  }
  *image = rows.image;
  return HRN_OK;
}
