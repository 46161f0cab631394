/* images_png.c: PNGs of every colour type, written directly by the standard, and PPMs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "images.h"

static void put32(uint8_t *to, uint32_t value) {
  for (int i = 0; i < 4; i++) to[i] = (uint8_t)(value >> (24 - 8 * i));
}

static uint32_t get32(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Appends a chunk; the caller has made room. */
static void chunk(image_bytes *png, const char *type, const uint8_t *body, size_t length) {
  uint8_t *at = png->bytes + png->length;
  put32(at, (uint32_t)length);
  memcpy(at + 4, type, 4);
  if (length > 0) memcpy(at + 8, body, length);
  put32(at + 8 + length, (uint32_t)crc32(0, at + 4, (uInt)length + 4));
  png->length += length + 12;
}

/* Rows of random bytes with random filter types. No matching filter is needed here, because a
 * decoder can undo a filter on any bytes: they are rows of some image. */
static size_t rows(random_state *r, uint8_t *to, uint32_t width, uint32_t height, int bits) {
  size_t bytes = ((size_t)width * (size_t)bits + 7) / 8, at = 0;
  if (width == 0) return 0;
  for (uint32_t y = 0; y < height; y++) {
    to[at++] = (uint8_t)random_below(r, 5);
    for (size_t i = 0; i < bytes; i++) to[at++] = (uint8_t)random_next(r);
  }
  return at;
}

static uint32_t lines(uint32_t end, uint32_t first, uint32_t apart) {
  return end <= first ? 0 : (end - first + apart - 1) / apart;
}

/* Has two IDATs that are cut anywhere, so chunks end inside rows and inside zlib's codes. The
 * palette may be shorter than the samples reach. */
image_bytes make_png(random_state *r, int color_type, int bit_depth, int interlaced, uint32_t width,
                     uint32_t height) {
  static const int channels[] = {1, 0, 3, 1, 2, 0, 4};
  static const uint32_t adam7[7][4] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                                       {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
  int bits = channels[color_type] * bit_depth;
  size_t most = ((size_t)width * (size_t)bits / 8 + 4) * (height + 8) * 2 + 64, raw_length = 0;
  uint8_t *raw = malloc(most), ihdr[13] = {0}, palette[768];
  if (interlaced) {
    for (int i = 0; i < 7; i++) {
      const uint32_t *p = adam7[i];
      raw_length +=
          rows(r, raw + raw_length, lines(width, p[0], p[2]), lines(height, p[1], p[3]), bits);
    }
  } else {
    raw_length = rows(r, raw, width, height, bits);
  }
  uLongf packed_length = compressBound(raw_length);
  uint8_t *packed = malloc(packed_length);
  compress2(packed, &packed_length, raw, raw_length, 1);

  image_bytes png = {malloc(packed_length + 2048), 8};
  memcpy(png.bytes, "\x89PNG\r\n\x1A\n", 8);
  put32(ihdr, width);
  put32(ihdr + 4, height);
  ihdr[8] = (uint8_t)bit_depth;
  ihdr[9] = (uint8_t)color_type;
  ihdr[12] = (uint8_t)interlaced;
  chunk(&png, "IHDR", ihdr, sizeof ihdr);
  if (color_type == 3) {
    for (size_t i = 0; i < sizeof palette; i++) palette[i] = (uint8_t)random_next(r);
    size_t entries = (size_t)1 << bit_depth;
    chunk(&png, "PLTE", palette, 3 * (1 + random_below(r, entries)));
  }
  size_t cut = random_below(r, packed_length);
  chunk(&png, "IDAT", packed, cut);
  chunk(&png, "IDAT", packed + cut, packed_length - cut);
  chunk(&png, "IEND", NULL, 0);
  free(packed);
  free(raw);
  return png;
}

/* Three JPEGs to one PNG, small, so that a round of the mutation driver is short. */
image_bytes make_ppm(random_state *r, int channels, int comment, uint32_t width, uint32_t height) {
  const size_t pixels = (size_t)width * height * (size_t)channels;
  image_bytes file = {malloc(64 + pixels), 0};
  if (file.bytes == NULL) abort();
  file.length =
      (size_t)snprintf((char *)file.bytes, 64, "P%c%s%u\t%u\r\n255\n", channels == 3 ? '6' : '5',
                       comment ? "\n# orientation 6\n" : " ", width, height);
  for (size_t i = 0; i < pixels; i++) file.bytes[file.length++] = (uint8_t)random_next(r);
  return file;
}

image_bytes made_image(random_state *r) {
  static const int pairs[][2] = {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}, {2, 8}, {2, 16}, {3, 1},
                                 {3, 2}, {3, 4}, {3, 8}, {4, 8}, {4, 16}, {6, 8}, {6, 16}};
  for (;;) {
    uint32_t width = 1 + (uint32_t)random_below(r, 70), height = 1 + (uint32_t)random_below(r, 70);
    if (random_below(r, 4) == 0) {
      const int *pair = pairs[random_below(r, sizeof pairs / sizeof pairs[0])];
      return make_png(r, pair[0], pair[1], (int)random_below(r, 2), width, height);
    }
    if (random_below(r, 10) == 0) {
      return make_ppm(r, random_below(r, 2) ? 3 : 1, (int)random_below(r, 2), width, height);
    }
    uint32_t restart = random_below(r, 3) == 0 ? 1 + (uint32_t)random_below(r, 9) : 0;
    image_bytes jpeg = make_jpeg(r, &jpeg_forms[random_below(r, (uint64_t)jpeg_form_count)],
                                 (enum jpeg_coding)random_below(r, 4), restart, width, height,
                                 5 + (int)random_below(r, 96));
    if (jpeg.length > 0) return jpeg;
  }
}

/* Without this nearly all damage would end at the first checksum. */
void mend_png_checksums(image_bytes *png) {
  size_t at = 8;
  if (png->length < 8 || memcmp(png->bytes, "\x89PNG", 4) != 0) return;
  while (png->length - at >= 12) {
    uint32_t size = get32(png->bytes + at);
    if (size > png->length - at - 12) return;
    put32(png->bytes + at + 8 + size, (uint32_t)crc32(0, png->bytes + at + 4, size + 4));
    at += (size_t)size + 12;
  }
}
