/* chunks.c: reads a PNG up to its image data: IHDR, PLTE, and where the first IDAT is.
 *
 * This is a reader of our own on top of zlib, not libpng. Debian and Ubuntu build libpng16.a
 * without -fPIC, so it cannot go into a shared library, and they have no libspng.a. Also, verdicts
 * can then be Pillow's, which has its own reader, too: the order of chunks is free, ancillary
 * chunks are skipped unless their checksum is bad, and unknown critical chunks are skipped as
 * well. */
#include <string.h>

#include "../core/exif.h"
#include "png.h"

#define SIGNATURE 8
#define OVERHEAD 12 /* length, type and checksum of a chunk */

/* Lengths and sizes are big-endian. */
static uint32_t read32(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* How many channels the standard's combinations of colour type and bit depth have; 0 for other
 * combinations. */
static uint8_t channels_of(int color_type, int bit_depth) {
  bool whole = bit_depth == 8 || bit_depth == 16;
  bool part = bit_depth == 1 || bit_depth == 2 || bit_depth == 4;
  switch (color_type) {
    case PNG_GREY:
      return whole || part ? 1 : 0;
    case PNG_RGB:
      return whole ? 3 : 0;
    case PNG_PALETTE:
      return bit_depth == 8 || part ? 1 : 0;
    case PNG_GREY_ALPHA:
      return whole ? 2 : 0;
    case PNG_RGB_ALPHA:
      return whole ? 4 : 0;
    default:
      return 0;
  }
}

/* Only the interlace methods 0 and 1 exist. Pillow takes any other number for Adam7, and so do we.
 * Pillow also ignores the compression method. Only one exists, and others are refused here. */
static int read_ihdr(hrn_png *png, const uint8_t *body, uint32_t size, size_t at,
                     hrn_status *status) {
  int64_t offset = (int64_t)at;
  if (size < 13) return hrn_fail(status, HRN_BAD, offset, "IHDR has %u bytes, not 13", size);
  png->width = read32(body);
  png->height = read32(body + 4);
  png->bit_depth = body[8];
  png->color_type = body[9];
  png->channels = channels_of(body[9], body[8]);
  png->interlaced = body[12] != 0;
  if (png->width == 0 || png->height == 0 || png->width > INT32_MAX || png->height > INT32_MAX) {
    return hrn_fail(status, HRN_BAD, offset, "IHDR says %u x %u pixels", png->width, png->height);
  }
  if (png->channels == 0) {
    return hrn_fail(status, HRN_BAD, offset, "IHDR says bit depth %d with colour type %d", body[8],
                    body[9]);
  }
  if (body[10] != 0 || body[11] != 0) {
    return hrn_fail(status, HRN_UNSUPPORTED, offset,
                    "PNG with compression method %d and filter method %d", body[10], body[11]);
  }
  return HRN_OK;
}

/* Entries that the file lacks stay black. */
static void read_plte(hrn_png *png, const uint8_t *body, uint32_t size) {
  if (size > sizeof png->palette) size = sizeof png->palette;
  memset(png->palette, 0, sizeof png->palette);
  memcpy(png->palette, body, size - size % 3);
}

/* Letters, digits and the underscore, as Pillow demands. Anything else is no chunk. */
static bool is_type(const uint8_t *type) {
  for (int i = 0; i < 4; i++) {
    uint8_t c = type[i];
    bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (!letter && !(c >= '0' && c <= '9') && c != '_') return false;
  }
  return true;
}

/* A chunk's type is four bytes without a NUL at the end. */
static bool is(const uint8_t *type, const char *name) { return memcmp(type, name, 4) == 0; }

/* eXIf may also stand after the image data. It gives no verdict here, because the pixels are read
 * by then. */
static void find_exif(hrn_png *png, size_t at) {
  while (png->length - at >= OVERHEAD) {
    uint32_t size = read32(png->bytes + at);
    if (size > png->length - at - OVERHEAD) return;
    if (is(png->bytes + at + 4, "eXIf")) {
      png->orientation = hrn_exif_orientation(png->bytes + at + 8, size);
      return;
    }
    at += (size_t)size + OVERHEAD;
  }
}

/* Walks to the first IDAT. Each step is at least 12 bytes and stays inside the record, so the walk
 * ends. */
int hrn_png_read_chunks(hrn_png *png, const uint8_t *bytes, size_t length, hrn_status *status) {
  bool seen_ihdr = false, seen_plte = false;
  size_t at = SIGNATURE;
  png->bytes = bytes;
  png->length = length;
  png->orientation = 0;
  for (;;) {
    if (length - at < 8) {
      return hrn_fail(status, HRN_TRUNCATED, (int64_t)length,
                      "the file is truncated before its image data (found %zu bytes)", length);
    }
    /* The size is compared with what is left, never as at + size, which could wrap. */
    uint32_t size = read32(bytes + at);
    const uint8_t *type = bytes + at + 4, *body = bytes + at + 8;
    if (!is_type(type)) {
      return hrn_fail(status, HRN_BAD, (int64_t)at, "no chunk type: %02x %02x %02x %02x", type[0],
                      type[1], type[2], type[3]);
    }
    /* stream.c looks at the checksum of this chunk, because it reads the chunks one by one. */
    if (is(type, "IDAT")) break;
    if (is(type, "IEND")) {
      return hrn_fail(status, HRN_BAD, (int64_t)at, "IEND comes before any image data");
    }
    if (length - at < OVERHEAD || size > length - at - OVERHEAD) {
      return hrn_fail(
          status, HRN_TRUNCATED, (int64_t)length,
          "the file is truncated in chunk %.4s (expected at least %llu bytes, found %zu)",
          (const char *)type, (unsigned long long)at + OVERHEAD + size, length);
    }
    /* This applies to ancillary chunks, too: Pillow does not open a file with a wrong checksum in
     * one. */
    if (crc32(crc32_z(0, type, 4), body, size) != read32(body + size)) {
      return hrn_fail(status, HRN_BAD, (int64_t)at, "chunk %.4s does not match its checksum",
                      (const char *)type);
    }
    if (is(type, "IHDR")) { /* the last IHDR counts, and the last palette if that IHDR needs one */
      if (read_ihdr(png, body, size, at, status) != HRN_OK) return status->code;
      seen_ihdr = true;
    } else if (is(type, "PLTE") && seen_ihdr && png->color_type == PNG_PALETTE) {
      read_plte(png, body, size);
      seen_plte = true;
    }
    at += (size_t)size + OVERHEAD;
  }
  if (!seen_ihdr) return hrn_fail(status, HRN_BAD, (int64_t)at, "image data without IHDR");
  if (png->color_type == PNG_PALETTE && !seen_plte) {
    return hrn_fail(status, HRN_BAD, (int64_t)at, "image data of palette colours without PLTE");
  }
  png->data = at;
  find_exif(png, SIGNATURE);
  return HRN_OK;
}
