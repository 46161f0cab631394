/* webp.c: all of webp.h.
 *
 * Pillow decodes every WebP with libwebp's decoder of animations, as straight RGBA on a canvas of
 * zeros, and convert("RGB") drops alpha. So a transparent pixel keeps its colour. The same libwebp
 * is linked here, so pixels are Pillow's (docs/exactness.md).
 */
#include "webp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <webp/decode.h>
#include <webp/demux.h>

#include "../core/exif.h"

/* With this many more pixels on each side, a crop equals that part of the whole image. Upsampling
 * of chroma looks at one neighbour, which is two pixels away. libwebp itself takes care of its
 * filters of blocks. */
enum { HRN_WEBP_MARGIN = 2 };

/* libwebp makes a note of each frame and each chunk, of which the smallest has 8 bytes. A note
 * takes up to this many bytes for each byte of the file. */
#define NOTE_PER_BYTE 8

const char *hrn_webp_version(void) {
  static _Thread_local char text[16];
  const int version = WebPGetDecoderVersion();
  snprintf(text, sizeof text, "%d.%d.%d", version >> 16 & 255, version >> 8 & 255, version & 255);
  return text;
}

static uint8_t orientation_of(const WebPDemuxer *demuxer) {
  WebPChunkIterator chunk;
  uint8_t orientation = 0;
  if (WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk)) {
    const uint8_t *bytes = chunk.chunk.bytes;
    size_t length = chunk.chunk.size;
    /* Some writers keep the marker that a JPEG has before the EXIF block. Pillow skips it, too. */
    if (length >= 6 && memcmp(bytes, "Exif\0\0", 6) == 0) bytes += 6, length -= 6;
    orientation = hrn_exif_orientation(bytes, length);
  }
  WebPDemuxReleaseChunkIterator(&chunk);
  return orientation;
}

static void read_frame(hrn_webp *webp, const WebPDemuxer *demuxer, const WebPIterator *frame) {
  WebPBitstreamFeatures features;
  webp->frame = frame->fragment.bytes;
  webp->length = frame->fragment.size;
  webp->place = (hrn_box){frame->x_offset, frame->y_offset, frame->width, frame->height};
  webp->lossless = WebPGetFeatures(webp->frame, webp->length, &features) == VP8_STATUS_OK &&
                   features.format == 2;
  webp->alpha = (WebPDemuxGetI(demuxer, WEBP_FF_FORMAT_FLAGS) & ALPHA_FLAG) != 0;
  webp->orientation = orientation_of(demuxer);
}

/* The file's length as its header says it. The first 15 bytes exist, because they told the file's
 * kind. */
static uint64_t riff_bytes(const uint8_t *bytes) {
  return 8 + ((uint64_t)bytes[4] | (uint64_t)bytes[5] << 8 | (uint64_t)bytes[6] << 16 |
              (uint64_t)bytes[7] << 24);
}

/* All chunks of all frames are walked, as in Pillow: a file that is cut in its last frame is
 * refused. */
int hrn_webp_header(hrn_context *context, hrn_webp *webp, uint32_t *width, uint32_t *height,
                    hrn_status *status) {
  const WebPData data = {context->bytes, context->length};
  memset(webp, 0, sizeof *webp);
  if (context->length > hrn_memory_left(context) / NOTE_PER_BYTE) {
    return hrn_fail(status, HRN_LIMIT, -1,
                    "the chunks of a WebP of %zu bytes may need %llu times as many to walk, "
                    "max_decoder_bytes is %llu",
                    context->length, (unsigned long long)NOTE_PER_BYTE,
                    (unsigned long long)context->limits.max_decoder_bytes);
  }
  WebPDemuxer *demuxer = WebPDemux(&data);
  if (demuxer == NULL) {
    const uint64_t expected = riff_bytes(context->bytes);
    if (expected <= context->length) {
      return hrn_fail(status, HRN_BAD, -1, "the chunks of the WebP are invalid");
    }
    return hrn_fail(status, HRN_TRUNCATED, (int64_t)context->length,
                    "the file is truncated in its chunks (expected %llu bytes, found %zu)",
                    (unsigned long long)expected, context->length);
  }
  WebPIterator frame;
  if (WebPDemuxGetFrame(demuxer, 1, &frame)) read_frame(webp, demuxer, &frame);
  WebPDemuxReleaseIterator(&frame);
  *width = webp->width = WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_WIDTH);
  *height = webp->height = WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_HEIGHT);
  WebPDemuxDelete(demuxer);
  if (webp->frame == NULL) return hrn_fail(status, HRN_BAD, -1, "the WebP has no frame");
  return hrn_check_pixels(context, *width, *height, status);
}

/* The memory that libwebp holds while it decodes, without its tables, which it bounds itself
 * (tools/codecs.sh). Lossless pixels are held as a whole, however small the crop is. So is alpha,
 * which is coded in the same way. Of lossy pixels only a few rows of blocks are held. */
static uint64_t decoder_bytes(const hrn_webp *webp) {
  const uint64_t columns = (uint64_t)webp->place.width, rows = (uint64_t)webp->place.height;
  if (webp->lossless) return 6 * columns * (rows + 17);
  return 160 * columns + (webp->alpha ? 6 * columns * (rows + 17) : 0) + 65536;
}

/* libwebp only says that it got no memory. If the memory that an image of this size needs can be
 * allocated, the file asks for more tables than one block of memory may hold (tools/codecs.sh). */
static int no_memory(const hrn_webp *webp, hrn_status *status) {
  const uint64_t needed = decoder_bytes(webp);
  void *tried = malloc(needed);
  free(tried);
  if (tried == NULL) {
    return hrn_fail(status, HRN_MEMORY, -1, "libwebp could not allocate about %llu bytes",
                    (unsigned long long)needed);
  }
  return hrn_fail(status, HRN_LIMIT, -1, "the tables of the WebP need more than 512 MiB of memory");
}

static int failed(const hrn_webp *webp, VP8StatusCode code, hrn_status *status) {
  switch (code) {
    case VP8_STATUS_OUT_OF_MEMORY:
      return no_memory(webp, status);
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      return hrn_fail(status, HRN_TRUNCATED, -1, "the image data of the WebP end too early");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return hrn_fail(status, HRN_UNSUPPORTED, -1, "a WebP of a kind that libwebp does not decode");
    default:
      return hrn_fail(status, HRN_BAD, -1, "the image data of the WebP are invalid");
  }
}

/* Decodes the part `crop` of the frame to `to`, which has `size` bytes. */
static int decode(const hrn_webp *webp, const hrn_box *crop, uint8_t *to, size_t stride,
                  size_t size, hrn_status *status) {
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) {
    return hrn_fail(status, HRN_INTERNAL, -1, "libwebp is of another version than its header");
  }
  config.options.use_cropping =
      crop->width != webp->place.width || crop->height != webp->place.height;
  config.options.crop_left = crop->left;
  config.options.crop_top = crop->top;
  config.options.crop_width = crop->width;
  config.options.crop_height = crop->height;
  config.output.colorspace = MODE_RGBA;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = to;
  config.output.u.RGBA.stride = (int)stride;
  config.output.u.RGBA.size = size;
  const VP8StatusCode code = WebPDecode(webp->frame, webp->length, &config);
  WebPFreeDecBuffer(&config.output);
  return code == VP8_STATUS_OK ? HRN_OK : failed(webp, code, status);
}

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
static int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

/* The part of the frame that the box shows, with its margin, in the frame's coordinates. Corners
 * are even, because libwebp's rows come in pairs. False if box and frame have nothing in common. */
static bool crop_of(const hrn_webp *webp, const hrn_box *box, hrn_box *crop) {
  const hrn_box *place = &webp->place;
  const int32_t left = most(box->left - place->left, 0), top = most(box->top - place->top, 0);
  const int32_t right = least(box->left + box->width - place->left, place->width);
  const int32_t bottom = least(box->top + box->height - place->top, place->height);
  if (left >= right || top >= bottom) return false;
  crop->left = most(left - HRN_WEBP_MARGIN, 0) & ~1;
  crop->top = most(top - HRN_WEBP_MARGIN, 0) & ~1;
  crop->width = least(right + HRN_WEBP_MARGIN, place->width) - crop->left;
  crop->height = least(bottom + HRN_WEBP_MARGIN, place->height) - crop->top;
  return true;
}

/* Puts a frame that is smaller than the image on black, which is what transparent zeros become. */
static void lay_on_black(const hrn_box *box, const hrn_box *at, const hrn_image *found,
                         uint8_t *pixels) {
  const size_t stride = (size_t)box->width * 4;
  memset(pixels, 0, stride * (size_t)box->height);
  for (int32_t y = 0; y < at->height; y++) {
    memcpy(pixels + (size_t)(at->top + y) * stride + (size_t)at->left * 4,
           found->pixels + (size_t)y * found->stride, (size_t)at->width * 4);
  }
}

/* The part of the window that shows the frame. */
static hrn_box seen_of(const hrn_box *place, const hrn_box *box) {
  const int32_t left = most(place->left - box->left, 0), top = most(place->top - box->top, 0);
  return (hrn_box){left, top,
                   least(box->left + box->width, place->left + place->width) - (box->left + left),
                   least(box->top + box->height, place->top + place->height) - (box->top + top)};
}

/* Memory holds the crop that libwebp makes, and behind it the window, if black is seen beside the
 * frame. Both are in one piece of scratch memory, because later stages have the other pieces. */
int hrn_webp_window(hrn_context *context, const hrn_webp *webp, const hrn_box *box,
                    hrn_image *image, hrn_status *status) {
  const hrn_box *place = &webp->place;
  hrn_box crop = {0, 0, least(place->width, 2), least(place->height, 2)};
  /* If the window does not meet the frame, the frame is decoded only for its verdict. */
  const bool meets = crop_of(webp, box, &crop);
  const hrn_box at = meets ? seen_of(place, box) : (hrn_box){0, 0, 0, 0};
  const bool edges = at.width != box->width || at.height != box->height;
  const size_t stride = (size_t)crop.width * 4, size = stride * (size_t)crop.height;
  size_t window = 0, total;
  if ((edges && __builtin_mul_overflow((size_t)box->width * 4, (size_t)box->height, &window)) ||
      __builtin_add_overflow(size, window, &total)) {
    total = SIZE_MAX; /* refused with its number by the limit */
  }
  context->held = decoder_bytes(webp);
  uint8_t *pixels = hrn_scratch(context, HRN_SCRATCH_DECODE, total, status);
  context->held = 0; /* libwebp frees it before it returns */
  if (pixels == NULL || decode(webp, &crop, pixels, stride, size, status) != HRN_OK) {
    return status->code;
  }
  /* Where the window's pixels are in the crop. */
  const int32_t left = most(box->left - place->left, 0), top = most(box->top - place->top, 0);
  hrn_image found = {pixels, stride, box->width, box->height};
  if (meets) {
    found.pixels += (size_t)(top - crop.top) * stride + (size_t)(left - crop.left) * 4;
  }
  if (edges) {
    lay_on_black(box, &at, &found, pixels + size);
    found = (hrn_image){pixels + size, (size_t)box->width * 4, box->width, box->height};
  }
  *image = found;
  return HRN_OK;
}

/* Decodes the last row, for which all data before it has to be read. */
int hrn_webp_inspect(hrn_context *context, hrn_webp *webp, int depth, hrn_facts *facts,
                     hrn_status *status) {
  uint32_t width, height;
  hrn_webp_header(context, webp, &width, &height, status);
  facts->width = webp->width;
  facts->height = webp->height;
  facts->channels = webp->alpha ? 4 : 3;
  facts->bits = 8;
  facts->process = webp->lossless ? HRN_PROCESS_WEBP_LOSSLESS : HRN_PROCESS_WEBP;
  facts->orientation = webp->orientation;
  if (status->code != HRN_OK || depth != HRN_ENTROPY) return status->code;
  hrn_image image;
  const hrn_box *place = &webp->place;
  const hrn_box last = {place->left, place->top + place->height - 1, place->width, 1};
  facts->scans = 1;
  return hrn_webp_window(context, webp, &last, &image, status);
}
