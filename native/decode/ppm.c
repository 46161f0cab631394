/* ppm.c: reads binary PPM and PGM (P6, P5) of 8 bits, which hold pixels that were decoded when the
 * dataset was packed. Only the bytes of the window are read.
 *
 * The header is what Pillow's PpmImagePlugin reads: white space between numbers of at most ten
 * characters, comments from # to the end of a line, and one white-space byte before the pixels.
 * Bytes behind the pixels are ignored. Unlike in Pillow, a number consists of digits alone.
 */
#include "decoder.h"

#include <string.h>

#include "spread.h"

/* Where reading is in the header, and the orientation that was found. */
typedef struct cursor {
  const uint8_t *bytes;
  size_t length, at;
  uint8_t orientation;
} cursor;

static bool is_space(uint8_t byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

/* PPM has no field for the orientation. hrn_to_ppm writes it as this comment. */
static const char orientation_is[] = HRN_PPM_ORIENTATION;

/* Skips a comment and the end of its line. `at` is behind the #. */
static void skip_comment(cursor *c) {
  const size_t said = sizeof orientation_is - 1;
  if (c->length - c->at > said && memcmp(c->bytes + c->at, orientation_is, said) == 0) {
    const uint8_t digit = c->bytes[c->at + said];
    if (digit >= '1' && digit <= '8') c->orientation = (uint8_t)(digit - '0');
  }
  while (c->at < c->length && c->bytes[c->at] != '\n' && c->bytes[c->at] != '\r') c->at++;
  if (c->at < c->length) c->at++;
}

/* Reads the next number, and the byte behind it. As in Pillow, a comment inside a number does not
 * end it. */
static int read_number(cursor *c, const char *what, uint64_t *number, hrn_status *status) {
  int digits = 0;
  *number = 0;
  while (c->at < c->length) {
    const uint8_t byte = c->bytes[c->at++];
    if (byte == '#') {
      skip_comment(c);
    } else if (is_space(byte)) {
      if (digits > 0) return HRN_OK;
    } else if (byte < '0' || byte > '9' || digits == 10) {
      return hrn_fail(status, HRN_BAD, (int64_t)c->at - 1, "the %s is no number of ten digits",
                      what);
    } else {
      *number = 10 * *number + (byte - '0'); /* below 10^10 */
      digits++;
    }
  }
  return hrn_fail(status, HRN_TRUNCATED, (int64_t)c->length,
                  "the file is truncated in its header, before the %s (found %zu bytes)", what,
                  c->length);
}

int hrn_ppm_header(hrn_context *context, uint32_t *width, uint32_t *height, hrn_status *status) {
  hrn_ppm *ppm = &context->record->ppm;
  cursor c = {.bytes = context->bytes, .length = context->length, .at = 3};
  uint64_t columns, rows, most, pixels;
  memset(ppm, 0, sizeof *ppm);
  ppm->channels = context->bytes[1] == '6' ? 3 : 1;
  if (read_number(&c, "width", &columns, status) != HRN_OK ||
      read_number(&c, "height", &rows, status) != HRN_OK ||
      read_number(&c, "largest value", &most, status) != HRN_OK) {
    return status->code;
  }
  if (columns == 0 || rows == 0) {
    return hrn_fail(status, HRN_BAD, -1, "the image has %llu x %llu pixels",
                    (unsigned long long)columns, (unsigned long long)rows);
  }
  if (most == 0 || most > 65535) {
    return hrn_fail(status, HRN_BAD, -1, "the largest value is %llu, 1 to 65535 was expected",
                    (unsigned long long)most);
  }
  if (most != 255) {
    return hrn_fail(status, HRN_UNSUPPORTED, -1, "PPM whose largest value is %llu, not 255",
                    (unsigned long long)most);
  }
  if (columns <= UINT32_MAX) ppm->width = (uint32_t)columns;
  if (rows <= UINT32_MAX) ppm->height = (uint32_t)rows;
  if (hrn_check_pixels(context, columns, rows, status) != HRN_OK) return status->code;
  /* Both are below 10^10, but the limit for their product can be set to anything. */
  if (columns > UINT32_MAX || rows > UINT32_MAX ||
      __builtin_mul_overflow(columns * rows, (uint64_t)ppm->channels, &pixels)) {
    return hrn_fail(status, HRN_LIMIT, -1, "the image is %llu x %llu pixels",
                    (unsigned long long)columns, (unsigned long long)rows);
  }
  *width = ppm->width;
  *height = ppm->height;
  ppm->orientation = c.orientation;
  ppm->pixels = context->bytes + c.at;
  if (pixels > context->length - c.at) {
    return hrn_fail(status, HRN_TRUNCATED, (int64_t)context->length,
                    "the file is truncated in its pixels (expected %llu bytes, found %zu)",
                    (unsigned long long)pixels + c.at, context->length);
  }
  return HRN_OK;
}

/* Fills the facts as far as they were read. There is no coded data, so the header decides the
 * verdict. */
int hrn_ppm_inspect(hrn_context *context, hrn_facts *facts, hrn_status *status) {
  uint32_t width, height;
  hrn_ppm_header(context, &width, &height, status);
  facts->width = context->record->ppm.width;
  facts->height = context->record->ppm.height;
  facts->channels = context->record->ppm.channels;
  facts->bits = 8;
  facts->process = HRN_PROCESS_RAW;
  facts->orientation = context->record->ppm.orientation;
  if (status->code == HRN_OK) facts->scans = 1;
  return status->code;
}

int hrn_ppm_window(hrn_context *context, const hrn_box *box, hrn_image *image, hrn_status *status) {
  const hrn_ppm *ppm = &context->record->ppm;
  const hrn_spread_kernel spread = hrn_spread_chosen();
  const size_t stride = (size_t)box->width * 4, row = (size_t)ppm->width * ppm->channels;
  size_t bytes;
  if (__builtin_mul_overflow(stride, (size_t)box->height, &bytes)) {
    return hrn_fail(status, HRN_LIMIT, -1, "a window of %d x %d pixels", box->width, box->height);
  }
  uint8_t *pixels = hrn_scratch(context, HRN_SCRATCH_DECODE, bytes, status);
  if (pixels == NULL) return status->code;
  /* The pixels are inside the record, because hrn_ppm_header compared its length with all rows. */
  const uint8_t *from = ppm->pixels + (size_t)box->top * row + (size_t)box->left * ppm->channels;
  for (int32_t y = 0; y < box->height; y++, from += row) {
    uint8_t *to = pixels + (size_t)y * stride;
    if (ppm->channels == 3) {
      spread(from, box->width, to);
    } else {
      for (int32_t x = 0; x < box->width; x++) memset(to + 4 * (size_t)x, from[x], 4);
    }
  }
  *image = (hrn_image){pixels, stride, box->width, box->height};
  return HRN_OK;
}
