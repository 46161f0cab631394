/* raw_decoder.c: replaces the decoding half of native/, so that the pixel half is tested on every
 * size and content without a codec in between. It runs under a sanitizer that sees each byte too
 * many: every window and every scratch buffer is an allocation of its own, exactly as long as the
 * interface promises.
 *
 * Its image format: uint32 width, uint32 height, then RGB rows.
 */
#include <stdlib.h>
#include <string.h>

#include "../core/times.h"
#include "../decode/decode.h"
#include "../pixels/pixels.h"

struct hrn_context {
  const uint8_t *pixels; /* RGB of the image whose header was read last */
  uint32_t width, height;
  void *scratch[HRN_SCRATCH_COUNT];
};

hrn_limits hrn_default_limits(void) {
  return (hrn_limits){.max_pixels = 89478485,
                      .max_decoder_bytes = 536870912,
                      .max_record_bytes = 268435456,
                      .max_scan_blocks = 67108864,
                      .max_scans = 100};
}

hrn_context *hrn_context_new(const hrn_limits *limits) {
  (void)limits;
  return calloc(1, sizeof(hrn_context));
}

void hrn_context_free(hrn_context *context) {
  for (int name = 0; name < HRN_SCRATCH_COUNT; name++) free(context->scratch[name]);
  free(context);
}

hrn_times *hrn_times_of(hrn_context *context) {
  (void)context;
  return NULL;
}

int64_t hrn_now(void) { return 0; }

uint32_t hrn_crc32c(uint32_t crc, const uint8_t *bytes, size_t length) {
  (void)bytes, (void)length;
  return crc;
}

/* Each call gives fresh memory, filled with a pattern, so that a reliance on old content is
 * seen. */
void *hrn_scratch(hrn_context *context, enum hrn_scratch_name name, size_t bytes,
                  hrn_status *status) {
  void *memory = NULL;
  free(context->scratch[name]);
  context->scratch[name] = NULL;
  if (bytes > 536870912) {
    hrn_fail(status, HRN_LIMIT, -1, "scratch of %zu bytes", bytes);
  } else if (posix_memalign(&memory, 64, bytes + HRN_ROW_PADDING) != 0) {
    hrn_fail(status, HRN_MEMORY, -1, "scratch of %zu bytes", bytes);
  } else {
    memset(memory, 0xa5, bytes + HRN_ROW_PADDING);
    context->scratch[name] = memory;
  }
  return context->scratch[name];
}

int hrn_decode_header(hrn_context *context, const uint8_t *bytes, size_t length, uint32_t *width,
                      uint32_t *height, hrn_status *status) {
  if (length < 8) return hrn_fail(status, HRN_BAD, 0, "no header");
  memcpy(width, bytes, 4);
  memcpy(height, bytes + 4, 4);
  if (length != 8 + (uint64_t)*width * *height * 3) return hrn_fail(status, HRN_BAD, 8, "length");
  context->pixels = bytes + 8;
  context->width = *width;
  context->height = *height;
  return HRN_OK;
}

/* Arrays belong to the decoding half as well. */
int hrn_decode_raw(hrn_context *context, const uint8_t *bytes, size_t length, const hrn_raw *raw,
                   hrn_status *status) {
  (void)context, (void)bytes, (void)raw;
  return hrn_fail(status, HRN_INTERNAL, -1, "an array of %zu bytes", length);
}

/* There is no encoder either, so this makes another image of the same size. */
int hrn_recompress(hrn_context *context, int32_t quality, const hrn_image *image,
                   const hrn_image *out, hrn_status *status) {
  (void)context;
  for (int32_t y = 0; y < image->height; y++) {
    const uint8_t *from = image->pixels + (size_t)y * image->stride;
    uint8_t *to = out->pixels + (size_t)y * out->stride;
    for (size_t k = 0; k < 4 * (size_t)image->width; k++) to[k] = from[k] ^ (uint8_t)quality;
  }
  return status->code;
}

/* There is no entropy data to seek in. */
void hrn_scratch_end(hrn_context *context) { (void)context; }

void hrn_decode_seek(hrn_context *context, const uint8_t *seek, size_t length) {
  (void)context, (void)seek, (void)length;
}

void hrn_decode_learn(hrn_context *context) { (void)context; }

void hrn_decode_exact(hrn_context *context) { (void)context; }

void hrn_decode_size(const hrn_context *context, uint32_t *width, uint32_t *height) {
  *width = context->width;
  *height = context->height;
}

double hrn_decode_cost(const hrn_context *context, const hrn_box *box, int32_t denominator) {
  (void)context, (void)denominator;
  return 1000 + (double)box->width * box->height;
}

int32_t hrn_decode_fast(hrn_context *context, int32_t denominator) {
  (void)context, (void)denominator;
  return 1;
}

int hrn_decode_draft(hrn_context *context, int32_t denominator, bool grey, hrn_status *status) {
  (void)context, (void)grey;
  return hrn_fail(status, HRN_UNSUPPORTED, -1, "a draft at 1/%d", denominator);
}

int hrn_decode_window(hrn_context *context, const hrn_box *box, hrn_image *image,
                      hrn_status *status) {
  if (box->left < 0 || box->top < 0 || box->width < 1 || box->height < 1 ||
      (int64_t)box->left + box->width > context->width ||
      (int64_t)box->top + box->height > context->height) {
    return hrn_fail(status, HRN_INTERNAL, -1, "window %d,%d %dx%d of %ux%u", box->left, box->top,
                    box->width, box->height, context->width, context->height);
  }
  const size_t stride = (size_t)box->width * 4;
  uint8_t *pixels = hrn_scratch(context, HRN_SCRATCH_DECODE, stride * (size_t)box->height, status);
  if (pixels == NULL) return status->code;
  *image = (hrn_image){pixels, stride, box->width, box->height};
  for (int32_t y = 0; y < box->height; y++) {
    const uint8_t *in =
        context->pixels + 3 * ((size_t)(box->top + y) * context->width + (size_t)box->left);
    uint8_t *out = pixels + (size_t)y * stride;
    for (int32_t x = 0; x < box->width; x++, in += 3, out += 4) {
      memcpy(out, in, 3);
      out[3] = (uint8_t)(x * 37 + y * 11); /* the undefined byte: anything */
    }
  }
  return HRN_OK;
}

/* There are no masks as files either; mutate.c moves those. */
int hrn_decode_mask(hrn_context *context, const uint8_t *bytes, size_t length, int32_t width,
                    int32_t height, hrn_status *status) {
  (void)context, (void)bytes;
  return hrn_fail(status, HRN_INTERNAL, -1, "a file of %zu bytes as a mask of %dx%d", length, width,
                  height);
}

int hrn_decode_classes(hrn_context *context, const hrn_box *box, uint8_t **classes,
                       hrn_status *status) {
  (void)context, (void)classes;
  return hrn_fail(status, HRN_INTERNAL, -1, "classes of %d x %d pixels", box->width, box->height);
}

/* Gives all rows at once. seek_windows.c and windows.c test that they may come in strips. */
int hrn_decode_rows(hrn_context *context, const hrn_box *box, int32_t at_once, hrn_rows *rows,
                    hrn_status *status) {
  hrn_image image;
  (void)at_once;
  if (hrn_decode_window(context, box, &image, status) == HRN_OK) *rows = hrn_rows_of(&image);
  return status->code;
}

int hrn_decode_settle(hrn_rows *rows, int *again, hrn_status *status) {
  (void)rows;
  *again = 0;
  return status->code;
}
