/* bmp.c: reads the header of a BMP, and the pixels of a window of it.
 *
 * A header means what Pillow's BmpImagePlugin takes it for: Windows' headers from version 2 on and
 * both of OS/2, bit fields in the layouts that Pillow knows, and palettes of grey that Pillow
 * leaves out.
 */
#include "bmp.h"

#include <string.h>

static uint32_t read16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static uint32_t read32(const uint8_t *p) { return read16(p) | read16(p + 2) << 16; }

enum { FILE_HEADER = 14, CORE_HEADER = 12, INFO_HEADER = 40 };
enum { COMPRESSION_NONE = 0, COMPRESSION_RLE8 = 1, COMPRESSION_RLE4 = 2, COMPRESSION_FIELDS = 3 };

/* Bytes of a row as stored, in whole 32-bit words. */
static uint64_t row_bytes(const hrn_bmp *bmp) {
  return ((uint64_t)bmp->width * bmp->bits + 31) / 32 * 4;
}

static int truncated(const hrn_context *context, uint64_t expected, const char *where,
                     hrn_status *status) {
  return hrn_fail(status, HRN_TRUNCATED, (int64_t)context->length,
                  "the file is truncated in its %s (expected at least %llu bytes, found %zu)",
                  where, (unsigned long long)expected, context->length);
}

/* Masks of 32 bits, and the bytes of red, green and blue that they stand for. */
typedef struct layout {
  uint32_t masks[4];
  uint8_t red, green, blue;
} layout;

static const layout layouts[] = {{{0xFF0000, 0xFF00, 0xFF, 0}, 2, 1, 0},
                                 {{0xFF000000, 0xFF0000, 0xFF00, 0}, 3, 2, 1},
                                 {{0xFF000000, 0xFF00, 0xFF, 0}, 3, 1, 0},
                                 {{0xFF000000, 0xFF0000, 0xFF00, 0xFF}, 3, 2, 1},
                                 {{0xFF, 0xFF00, 0xFF0000, 0xFF000000}, 0, 1, 2},
                                 {{0xFF0000, 0xFF00, 0xFF, 0xFF000000}, 2, 1, 0},
                                 {{0xFF000000, 0xFF00, 0xFF, 0xFF0000}, 3, 1, 0},
                                 {{0, 0, 0, 0}, 2, 1, 0}};

static bool is_layout(hrn_bmp *bmp, const uint32_t *masks) {
  static const uint32_t six[] = {0xF800, 0x7E0, 0x1F}, five[] = {0x7C00, 0x3E0, 0x1F};
  const size_t count = bmp->bits == 32 ? sizeof layouts / sizeof *layouts : 1;
  if (bmp->bits == 16) {
    bmp->six_green = memcmp(masks, six, sizeof six) == 0;
    return bmp->six_green || memcmp(masks, five, sizeof five) == 0;
  }
  for (size_t i = 0; bmp->bits >= 24 && i < count; i++) {
    /* With 24 bits alpha is not looked at. */
    const size_t compared = bmp->bits == 32 ? 4 : 3;
    if (memcmp(masks, layouts[i].masks, compared * sizeof *masks) != 0) continue;
    bmp->red = layouts[i].red;
    bmp->green = layouts[i].green;
    bmp->blue = layouts[i].blue;
    return true;
  }
  return false;
}

/* The masks are behind the 40 bytes that all later headers begin with, whether they are part of the
 * header or not. `*end` is the byte behind what was read. */
static int read_fields(const hrn_context *context, hrn_bmp *bmp, uint32_t size, size_t *end,
                       hrn_status *status) {
  uint32_t masks[4] = {0};
  const size_t at = FILE_HEADER + INFO_HEADER, count = size >= 56 ? 4 : 3;
  if (context->length < at + 4 * count) return truncated(context, at + 16, "header", status);
  for (size_t i = 0; i < count; i++) masks[i] = read32(context->bytes + at + 4 * i);
  if (size == INFO_HEADER) *end += 12;
  if (is_layout(bmp, masks)) return HRN_OK;
  return hrn_fail(status, HRN_UNSUPPORTED, -1,
                  "BMP of %u bits with red, green, blue and alpha in the bits %x, %x, %x, %x",
                  bmp->bits, masks[0], masks[1], masks[2], masks[3]);
}

/* Whether each entry is grey and equals its own index, or black and white are the only two entries.
 * Pillow then takes indices for values. */
static bool is_grey(const hrn_context *context, const hrn_bmp *bmp) {
  for (uint32_t i = 0; i < bmp->colours; i++) {
    const uint32_t value = bmp->colours == 2 ? i * 255 : i;
    const size_t at = bmp->palette + i * bmp->entry;
    if (at + 3 > context->length) return false;
    const uint8_t *entry = context->bytes + at;
    if (entry[0] != value || entry[1] != value || entry[2] != value) return false;
  }
  return true;
}

static int read_palette(const hrn_context *context, hrn_bmp *bmp, uint32_t colours, size_t at,
                        hrn_status *status) {
  bmp->palette = at;
  bmp->colours = colours;
  if (colours == 0 || colours > 256) {
    return hrn_fail(status, colours > 65536 ? HRN_BAD : HRN_UNSUPPORTED, -1,
                    "BMP with a palette of %u colours", colours);
  }
  bmp->grey = is_grey(context, bmp);
  /* Pillow reads such pixels by the mode that it has chosen, not by their number of bits. */
  const bool odd = bmp->rle         ? colours <= 2
                   : bmp->bits == 8 ? colours <= 2
                                    : bmp->bits == 4 || colours > 2;
  if (bmp->grey && odd) {
    return hrn_fail(status, HRN_UNSUPPORTED, -1, "BMP of %u bits with %u colours of grey",
                    bmp->bits, colours);
  }
  return HRN_OK;
}

static int read_compression(hrn_bmp *bmp, uint32_t compression, hrn_status *status) {
  bmp->rle = compression == COMPRESSION_RLE8 || compression == COMPRESSION_RLE4;
  bmp->rle4 = compression == COMPRESSION_RLE4;
  if (bmp->bits != 1 && bmp->bits != 4 && bmp->bits != 8 && bmp->bits != 16 && bmp->bits != 24 &&
      bmp->bits != 32) {
    return hrn_fail(status, HRN_UNSUPPORTED, -1, "BMP of %u bits a pixel", bmp->bits);
  }
  if (compression > COMPRESSION_FIELDS || (bmp->rle && bmp->bits > 8) ||
      (compression == COMPRESSION_FIELDS && bmp->bits <= 8)) {
    return hrn_fail(status, HRN_UNSUPPORTED, -1, "BMP of %u bits with compression %u", bmp->bits,
                    compression);
  }
  return HRN_OK;
}

/* Reads sides, bits and compression, and how many colours the header claims; 0: as many as there
 * can be. */
static int read_info(const hrn_context *context, hrn_bmp *bmp, uint32_t size, uint32_t *compression,
                     uint32_t *colours, hrn_status *status) {
  const uint8_t *p = context->bytes + FILE_HEADER;
  uint32_t bits;
  *compression = *colours = 0;
  if (size == CORE_HEADER) {
    bmp->width = read16(p + 4);
    bmp->height = read16(p + 6);
    bits = read16(p + 10);
    bmp->entry = 3;
  } else {
    bmp->width = read32(p + 4);
    bmp->height = read32(p + 8);
    /* A negative height. Like Pillow, only its last byte is looked at, so below -2^24 it counts as
     * positive. */
    bmp->top_down = p[11] == 0xFF;
    if (bmp->top_down) bmp->height = -bmp->height;
    bits = read16(p + 14);
    *compression = read32(p + 16);
    *colours = read32(p + 32);
    bmp->entry = 4;
  }
  if (bits > 32) return hrn_fail(status, HRN_UNSUPPORTED, -1, "BMP of %u bits a pixel", bits);
  bmp->bits = (uint8_t)bits;
  if (bmp->width == 0 || bmp->height == 0) {
    return hrn_fail(status, HRN_BAD, -1, "the image has %u x %u pixels", bmp->width, bmp->height);
  }
  return read_compression(bmp, *compression, status);
}

int hrn_bmp_header(hrn_context *context, hrn_bmp *bmp, uint32_t *width, uint32_t *height,
                   hrn_status *status) {
  const size_t length = context->length;
  uint32_t compression, colours;
  memset(bmp, 0, sizeof *bmp);
  if (length < FILE_HEADER + 4) return truncated(context, FILE_HEADER + 4, "header", status);
  const uint32_t size = read32(context->bytes + FILE_HEADER);
  if (size != 12 && size != 40 && size != 52 && size != 56 && size != 64 && size != 108 &&
      size != 124) {
    return hrn_fail(status, HRN_UNSUPPORTED, FILE_HEADER, "BMP with a header of %u bytes", size);
  }
  size_t end = FILE_HEADER + size;
  if (length < end) return truncated(context, end, "header", status);
  if (read_info(context, bmp, size, &compression, &colours, status) != HRN_OK) return status->code;
  bmp->red = 2, bmp->green = 1, bmp->blue = 0;
  if (compression == COMPRESSION_FIELDS &&
      read_fields(context, bmp, size, &end, status) != HRN_OK) {
    return status->code;
  }
  if (colours == 0 && bmp->bits < 32) colours = 1u << bmp->bits;
  if (bmp->bits <= 8) {
    if (read_palette(context, bmp, colours, end, status) != HRN_OK) return status->code;
    end += colours * bmp->entry;
  }
  /* Some writers give the palette's place for that of the pixels, and some give none at all. */
  bmp->data = read32(context->bytes + 10);
  if (bmp->data == FILE_HEADER + size && bmp->bits <= 8) bmp->data += bmp->entry * colours;
  if (bmp->data == 0) bmp->data = end < length ? end : length;
  *width = bmp->width;
  *height = bmp->height;
  return hrn_check_pixels(context, *width, *height, status);
}

static inline void put(uint8_t *rgbx, uint8_t r, uint8_t g, uint8_t b) {
  rgbx[0] = r;
  rgbx[1] = g;
  rgbx[2] = b;
  rgbx[3] = 255;
}

/* The colours of the indices. What the palette or the file lacks is black. */
static void fill_colours(const hrn_context *context, const hrn_bmp *bmp, uint8_t (*colours)[4]) {
  memset(colours, 0, 256 * sizeof *colours);
  for (uint32_t i = 0; i < 256; i++) {
    const size_t at = bmp->palette + i * bmp->entry;
    if (bmp->grey) {
      const uint8_t value = bmp->bits == 1 && !bmp->rle ? (i != 0) * 255 : (uint8_t)i;
      put(colours[i], value, value, value);
    } else if (i < bmp->colours && at + bmp->entry <= context->length) {
      const uint8_t *entry = context->bytes + at;
      put(colours[i], entry[2], entry[1], entry[0]);
    }
  }
}

/* Makes pixels [left, left + count) of a row of indices. */
static void index_row(const uint8_t *row, uint32_t left, uint32_t count, uint32_t bits,
                      uint8_t (*colours)[4], uint8_t *to) {
  for (uint32_t x = left; x < left + count; x++, to += 4) {
    const uint64_t bit = (uint64_t)x * bits;
    memcpy(to, colours[row[bit >> 3] >> (8 - bits - (bit & 7)) & ((1u << bits) - 1)], 4);
  }
}

static void true_row(const hrn_bmp *bmp, const uint8_t *row, uint32_t left, uint32_t count,
                     uint8_t *to) {
  const size_t bytes = bmp->bits / 8;
  const uint8_t *p = row + left * bytes;
  for (uint32_t x = 0; x < count; x++, p += bytes, to += 4) {
    if (bytes > 2) {
      put(to, p[bmp->red], p[bmp->green], p[bmp->blue]);
    } else if (bmp->six_green) {
      const uint32_t v = read16(p);
      put(to, (uint8_t)((v >> 11 & 31) * 255 / 31), (uint8_t)((v >> 5 & 63) * 255 / 63),
          (uint8_t)((v & 31) * 255 / 31));
    } else {
      const uint32_t v = read16(p);
      put(to, (uint8_t)((v >> 10 & 31) * 255 / 31), (uint8_t)((v >> 5 & 31) * 255 / 31),
          (uint8_t)((v & 31) * 255 / 31));
    }
  }
}

/* The last row in the file may lack the bytes that only fill its last word. */
static int check_length(const hrn_context *context, const hrn_bmp *bmp, hrn_status *status) {
  uint64_t rows, needed;
  if (bmp->rle) return HRN_OK;
  if (__builtin_mul_overflow(row_bytes(bmp), (uint64_t)bmp->height - 1, &rows) ||
      __builtin_add_overflow(rows, ((uint64_t)bmp->width * bmp->bits + 7) / 8 + bmp->data,
                             &needed)) {
    needed = UINT64_MAX;
  }
  if (needed <= context->length) return HRN_OK;
  return truncated(context, needed, "pixels", status);
}

int hrn_bmp_window(hrn_context *context, const hrn_bmp *bmp, const hrn_box *box, hrn_image *image,
                   hrn_status *status) {
  const size_t stride = (size_t)box->width * 4;
  size_t pixels, total, stored = row_bytes(bmp);
  /* Run lengths are expanded as a whole, with room for one more row (see hrn_bmp_expand). */
  const size_t indices = bmp->rle ? (size_t)bmp->width * ((size_t)bmp->height + 1) : 0;
  uint8_t colours[256][4];
  if (check_length(context, bmp, status) != HRN_OK) return status->code;
  if (__builtin_mul_overflow(stride, (size_t)box->height, &pixels) ||
      __builtin_add_overflow(pixels, indices, &total)) {
    total = SIZE_MAX; /* refused with its number by the limit */
  }
  uint8_t *to = hrn_scratch(context, HRN_SCRATCH_DECODE, total, status);
  if (to == NULL) return status->code;
  const uint8_t *from = context->bytes + bmp->data;
  uint32_t bits = bmp->bits;
  if (bmp->rle) {
    if (hrn_bmp_expand(context, bmp, to + pixels, status) != HRN_OK) return status->code;
    from = to + pixels;
    stored = bmp->width;
    bits = 8;
  }
  if (bits <= 8) fill_colours(context, bmp, colours);
  for (int32_t y = 0; y < box->height; y++) {
    const uint32_t line = (uint32_t)(box->top + y);
    const uint8_t *row = from + (bmp->top_down ? line : bmp->height - 1 - line) * stored;
    uint8_t *out = to + (size_t)y * stride;
    if (bits <= 8) {
      index_row(row, (uint32_t)box->left, (uint32_t)box->width, bits, colours, out);
    } else {
      true_row(bmp, row, (uint32_t)box->left, (uint32_t)box->width, out);
    }
  }
  *image = (hrn_image){to, stride, box->width, box->height};
  return HRN_OK;
}

int hrn_bmp_inspect(hrn_context *context, hrn_bmp *bmp, int depth, hrn_facts *facts,
                    hrn_status *status) {
  uint32_t width, height;
  const hrn_box first = {0, 0, 1, 1};
  hrn_image image;
  hrn_bmp_header(context, bmp, &width, &height, status);
  facts->width = bmp->width;
  facts->height = bmp->height;
  facts->channels = bmp->bits == 32 ? 4 : bmp->bits > 8 ? 3 : 1;
  facts->bits = bmp->bits < 8 ? bmp->bits : bmp->bits == 16 ? 5 : 8;
  facts->process = bmp->rle ? HRN_PROCESS_RLE : HRN_PROCESS_RAW;
  if (status->code != HRN_OK || depth != HRN_ENTROPY) return status->code;
  facts->scans = 1;
  return hrn_bmp_window(context, bmp, &first, &image, status);
}
