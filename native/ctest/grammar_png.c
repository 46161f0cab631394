/* grammar_png.c: PNGs of any header, palette, chunks around and inside the image data, and any way
 * of compressing and dividing it. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "grammar.h"

static bool one_in(random_state *r, uint64_t n) { return random_below(r, n) == n - 1; }

static void chunk(draft *d, const char *type, const uint8_t *body, size_t length) {
  draft_part(d);
  draft_32(d, (uint32_t)length);
  const size_t at = d->length;
  draft_bytes(d, type, 4);
  draft_bytes(d, body, length);
  draft_32(d, (uint32_t)crc32(0, d->bytes + at, (uInt)length + 4));
}

typedef struct header {
  uint32_t width, height;
  uint8_t bit_depth, color_type, interlaced;
} header;

static header some_header(random_state *r) {
  static const uint8_t pairs[][2] = {{0, 1}, {0, 2},  {0, 4},  {0, 8}, {0, 16},
                                     {2, 8}, {2, 16}, {3, 1},  {3, 2}, {3, 4},
                                     {3, 8}, {4, 8},  {4, 16}, {6, 8}, {6, 16}};
  const uint8_t *pair = pairs[random_below(r, sizeof pairs / sizeof pairs[0])];
  const uint32_t most = one_in(r, 8) ? 300 : one_in(r, 2) ? 9 : 70;
  return (header){1 + (uint32_t)random_below(r, most), 1 + (uint32_t)random_below(r, 70), pair[1],
                  pair[0], (uint8_t)random_below(r, 2)};
}

static void write_header(random_state *r, draft *d, const header *h) {
  uint8_t body[16] = {(uint8_t)(h->width >> 24),
                      (uint8_t)(h->width >> 16),
                      (uint8_t)(h->width >> 8),
                      (uint8_t)h->width,
                      (uint8_t)(h->height >> 24),
                      (uint8_t)(h->height >> 16),
                      (uint8_t)(h->height >> 8),
                      (uint8_t)h->height,
                      h->bit_depth,
                      h->color_type,
                      0,
                      0,
                      h->interlaced};
  if (one_in(r, 40)) body[random_below(r, 13)] = (uint8_t)random_next(r);
  chunk(d, "IHDR", body, one_in(r, 60) ? random_below(r, 17) : 13);
}

/* Chunks that may stand anywhere, known and unknown. */
static void write_other(random_state *r, draft *d) {
  static const char *const types[] = {"gAMA", "tEXt", "eXIf", "sRGB", "tRNS", "bKGD",
                                      "PLTE", "CgBI", "ABCD", "iCCP", "acTL", "x_9z"};
  uint8_t body[900];
  size_t length = random_below(r, one_in(r, 8) ? sizeof body : 40);
  for (size_t i = 0; i < length; i++) body[i] = (uint8_t)random_next(r);
  const char *type = types[random_below(r, sizeof types / sizeof types[0])];
  if (strcmp(type, "eXIf") == 0 && length >= 26 && !one_in(r, 4)) {
    static const uint8_t exif[] = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0};
    memcpy(body, exif, sizeof exif);
    body[18] = (uint8_t)random_below(r, 10);
    body[19] = body[20] = body[21] = 0;
  }
  chunk(d, type, body, length);
}

static void write_palette(random_state *r, draft *d, const header *h) {
  uint8_t body[800];
  size_t length = 3 * (1 + random_below(r, (uint64_t)1 << (h->bit_depth > 8 ? 8 : h->bit_depth)));
  if (one_in(r, 10)) length = random_below(r, sizeof body);
  for (size_t i = 0; i < length; i++) body[i] = (uint8_t)random_next(r);
  chunk(d, "PLTE", body, length);
}

static uint32_t lines(uint32_t end, uint32_t first, uint32_t apart) {
  return end <= first ? 0 : (end - first + apart - 1) / apart;
}

/* Writes rows of any bytes, with filter types of which one in hundreds does not exist. */
static void write_rows(random_state *r, draft *raw, const header *h, uint32_t width,
                       uint32_t height) {
  static const uint8_t channels[] = {1, 0, 3, 1, 2, 0, 4};
  const size_t bytes = ((size_t)width * channels[h->color_type] * h->bit_depth + 7) / 8;
  const uint64_t kind = random_below(r, 3);
  for (uint32_t y = 0; width > 0 && y < height; y++) {
    draft_byte(raw, (uint32_t)random_below(r, one_in(r, 500) ? 256 : 5));
    for (size_t i = 0; i < bytes; i++) {
      draft_byte(raw, kind == 0 ? 0 : kind == 1 ? (uint32_t)i : (uint32_t)random_next(r));
    }
  }
}

/* Makes a zlib stream of any level, strategy and window, flushed here and there. */
static void compress_rows(random_state *r, const draft *raw, draft *packed) {
  z_stream z = {0};
  uint8_t out[512];
  const int window = one_in(r, 3) ? 9 + (int)random_below(r, 7) : 15;
  if (deflateInit2(&z, (int)random_below(r, 10), Z_DEFLATED, window, 1 + (int)random_below(r, 9),
                   (int)random_below(r, 5)) != Z_OK) {
    abort();
  }
  z.next_in = raw->bytes;
  size_t left = raw->length;
  int result;
  do {
    if (z.avail_in == 0) {
      z.avail_in = one_in(r, 2) ? (uInt)left : (uInt)random_below(r, left + 1);
      left -= z.avail_in;
    }
    const int flush = left == 0 ? Z_FINISH : one_in(r, 8) ? Z_FULL_FLUSH : Z_NO_FLUSH;
    do {
      z.next_out = out;
      z.avail_out = sizeof out;
      result = deflate(&z, flush);
      draft_bytes(packed, out, sizeof out - z.avail_out);
    } while (z.avail_out == 0);
  } while (result != Z_STREAM_END);
  deflateEnd(&z);
}

static void write_data(random_state *r, draft *d, const header *h) {
  static const uint32_t adam7[7][4] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                                       {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
  draft raw = {0}, packed = {0};
  for (int i = 0; i < (h->interlaced ? 7 : 1); i++) {
    const uint32_t *p = adam7[i];
    write_rows(r, &raw, h, h->interlaced ? lines(h->width, p[0], p[2]) : h->width,
               h->interlaced ? lines(h->height, p[1], p[3]) : h->height);
  }
  if (one_in(r, 20)) raw.length = random_below(r, raw.length + 1);
  if (one_in(r, 20)) draft_bytes(&raw, "more than the rows", random_below(r, 19));
  compress_rows(r, &raw, &packed);
  if (one_in(r, 20)) packed.bytes[random_below(r, packed.length)] ^= 1;
  if (one_in(r, 20)) packed.length -= random_below(r, packed.length < 9 ? packed.length : 9);
  if (one_in(r, 20)) draft_bytes(&packed, "behind the stream", random_below(r, 18));
  for (size_t at = 0; at < packed.length;) {
    const size_t left = packed.length - at;
    const size_t length = one_in(r, 2) ? left : random_below(r, left < 40 ? left + 1 : 40);
    chunk(d, "IDAT", packed.bytes + at, length);
    at += length;
    if (d->parts > 60 && at < packed.length) break; /* too many short chunks: the data is cut */
    if (one_in(r, 60)) write_other(r, d);
  }
  free(raw.bytes);
  free(packed.bytes);
}

image_bytes random_png(random_state *r) {
  draft d = {0};
  const header h = some_header(r);
  draft_bytes(&d, "\x89PNG\r\n\x1A\n", 8);
  write_header(r, &d, &h);
  if (one_in(r, 4)) write_other(r, &d);
  if (h.color_type == 3 || one_in(r, 6)) write_palette(r, &d, &h);
  while (one_in(r, 4)) write_other(r, &d);
  write_data(r, &d, &h);
  while (one_in(r, 6)) write_other(r, &d);
  if (!one_in(r, 12)) chunk(&d, "IEND", NULL, 0);
  if (one_in(r, 12)) write_other(r, &d);
  if (one_in(r, 3)) {
    for (uint64_t n = 1 + random_below(r, 3); n > 0; n--) draft_damage(r, &d, 12);
  }
  image_bytes file = draft_finish(&d);
  if (!one_in(r, 6)) mend_png_checksums(&file);
  return file;
}
