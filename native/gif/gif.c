/* gif.c: reads the blocks of a GIF up to its first frame, and the pixels of a window of that frame.
 *
 * The frame is what Pillow's GifImagePlugin shows first. A palette whose entries are the greys in
 * order is ignored, because it changes nothing. A frame that reaches beyond the screen enlarges the
 * screen. A smaller frame is surrounded by the transparent colour, or by index 0 if there is
 * none. */
#include "gif.h"

#include <string.h>

static uint32_t read16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }

/* A place in the blocks. */
typedef struct cursor {
  const uint8_t *bytes;
  size_t length, at;
} cursor;

/* The next `count` bytes, or NULL if the file has fewer. */
static const uint8_t *take(cursor *c, size_t count) {
  if (count > c->length - c->at) return NULL;
  c->at += count;
  return c->bytes + c->at - count;
}

static int truncated(const cursor *c, const char *where, hrn_status *status) {
  return hrn_fail(status, HRN_TRUNCATED, (int64_t)c->length,
                  "the file is truncated in its %s (found %zu bytes)", where, c->length);
}

/* The next block, or as much of it as the file has. A block of 0 bytes ends a sequence of
 * blocks. */
static size_t take_block(cursor *c, const uint8_t **block) {
  if (c->at == c->length) return 0;
  const size_t said = c->bytes[c->at++], left = c->length - c->at;
  *block = c->bytes + c->at;
  c->at += said < left ? said : left;
  return said < left ? said : left;
}

static void skip_blocks(cursor *c) {
  const uint8_t *block;
  while (take_block(c, &block) > 0) continue;
}

/* Whether each entry is grey and equals its own index. */
static bool is_ramp(const uint8_t *palette, uint32_t colours) {
  for (uint32_t i = 0; i < colours; i++) {
    if (palette[3 * i] != i || palette[3 * i + 1] != i || palette[3 * i + 2] != i) return false;
  }
  return true;
}

/* Reads the palette, if `flags` say that there is one. If a frame's palette is such a ramp of
 * greys, the screen's palette stays in force, as in Pillow. */
static int read_palette(cursor *c, uint8_t flags, hrn_gif *gif, hrn_status *status) {
  if ((flags & 128) == 0) return HRN_OK;
  const uint32_t colours = 2u << (flags & 7);
  const uint8_t *palette = take(c, (size_t)3 * colours);
  if (palette == NULL) return truncated(c, "palette", status);
  if (is_ramp(palette, colours)) return HRN_OK;
  gif->palette = palette;
  gif->colours = colours;
  return HRN_OK;
}

/* If the first block is empty, Pillow skips one more sequence of blocks, except for a comment. */
static int read_extension(cursor *c, hrn_gif *gif, hrn_status *status) {
  enum { CONTROL = 0xF9, COMMENT = 0xFE, APPLICATION = 0xFF };
  const uint8_t *label = take(c, 1), *block = NULL;
  if (label == NULL) return truncated(c, "extensions", status);
  const size_t size = take_block(c, &block);
  if (*label == COMMENT && size == 0) return HRN_OK;
  if (*label == CONTROL && size > 0) {
    const bool transparent = block[0] & 1;
    if (size < (transparent ? 4 : 3)) {
      return hrn_fail(status, HRN_BAD, (int64_t)c->at, "a graphic control block of %zu bytes",
                      size);
    }
    if (transparent) gif->around = block[3];
  }
  /* The number of repetitions is in a block of its own, which may be the empty one. */
  if (*label == APPLICATION && size >= 11 && memcmp(block, "NETSCAPE2.0", 11) == 0) {
    take_block(c, &block);
  }
  skip_blocks(c);
  return HRN_OK;
}

static int read_frame(cursor *c, hrn_gif *gif, hrn_status *status) {
  const uint8_t *p = take(c, 9);
  if (p == NULL) return truncated(c, "frame", status);
  gif->left = read16(p);
  gif->top = read16(p + 2);
  gif->frame_width = read16(p + 4);
  gif->frame_height = read16(p + 6);
  gif->interlaced = (p[8] & 64) != 0;
  if (gif->left + gif->frame_width > gif->width) gif->width = gif->left + gif->frame_width;
  if (gif->top + gif->frame_height > gif->height) gif->height = gif->top + gif->frame_height;
  if (read_palette(c, p[8], gif, status) != HRN_OK) return status->code;
  const uint8_t *bits = take(c, 1);
  if (bits == NULL) return truncated(c, "frame", status);
  gif->bits = *bits;
  gif->data = c->at;
  if (gif->frame_width == 0 || gif->frame_height == 0) {
    return hrn_fail(status, HRN_BAD, -1, "the first frame has %u x %u pixels", gif->frame_width,
                    gif->frame_height);
  }
  if (gif->bits > 12) {
    return hrn_fail(status, HRN_BAD, (int64_t)c->at - 1, "codes of %u bits", gif->bits + 1);
  }
  return HRN_OK;
}

int hrn_gif_header(hrn_context *context, hrn_gif *gif, uint32_t *width, uint32_t *height,
                   hrn_status *status) {
  cursor c = {context->bytes, context->length, 0};
  memset(gif, 0, sizeof *gif);
  const uint8_t *screen = take(&c, 13);
  if (screen == NULL) return truncated(&c, "header", status);
  gif->width = read16(screen + 6);
  gif->height = read16(screen + 8);
  if (read_palette(&c, screen[10], gif, status) != HRN_OK) return status->code;
  while (gif->data == 0) {
    const uint8_t *kind = take(&c, 1);
    if (kind == NULL) return truncated(&c, "blocks, before a frame", status);
    if (*kind == ';') return hrn_fail(status, HRN_BAD, (int64_t)c.at - 1, "the GIF has no frame");
    /* Bytes that begin no block are skipped, as by Pillow. */
    if (*kind == '!' && read_extension(&c, gif, status) != HRN_OK) return status->code;
    if (*kind == ',' && read_frame(&c, gif, status) != HRN_OK) return status->code;
  }
  *width = gif->width;
  *height = gif->height;
  return hrn_check_pixels(context, *width, *height, status);
}

/* An index that has no entry in the palette is black. */
static void fill_colours(const hrn_gif *gif, uint8_t (*colours)[4]) {
  for (uint32_t i = 0; i < 256; i++) {
    uint8_t *to = colours[i];
    to[3] = 255;
    to[0] = to[1] = to[2] = gif->palette == NULL ? (uint8_t)i : 0;
    if (gif->palette != NULL && i < gif->colours) memcpy(to, gif->palette + 3 * (size_t)i, 3);
  }
}

int hrn_gif_window(hrn_context *context, const hrn_gif *gif, const hrn_box *box, hrn_image *image,
                   hrn_status *status) {
  const size_t stride = (size_t)box->width * 4;
  /* Both sides of a frame are below 2^17, so nothing here can wrap. */
  const size_t pixels = stride * (size_t)box->height;
  const size_t frame = (size_t)gif->frame_width * gif->frame_height;
  const uint32_t left = (uint32_t)box->left, top = (uint32_t)box->top;
  const uint32_t bottom = top + (uint32_t)box->height;
  uint8_t colours[256][4];
  uint8_t *to = hrn_scratch(context, HRN_SCRATCH_DECODE, pixels + frame, status);
  if (to == NULL) return status->code;
  uint8_t *indices = to + pixels;
  /* The rows that the window needs, but at least one, for the verdict. */
  uint32_t rows = bottom > gif->top ? bottom - gif->top : 1;
  if (rows > gif->frame_height) rows = gif->frame_height;
  if (hrn_gif_expand(context, gif, rows, indices, status) != HRN_OK) return status->code;
  fill_colours(gif, colours);
  for (uint32_t y = 0; y < (uint32_t)box->height; y++) {
    const uint32_t line = top + y - gif->top; /* wraps above the frame */
    uint8_t *out = to + y * stride;
    for (uint32_t x = 0; x < (uint32_t)box->width; x++, out += 4) {
      const uint32_t column = left + x - gif->left;
      const bool within = line < gif->frame_height && column < gif->frame_width;
      const uint8_t index =
          within ? indices[(size_t)line * gif->frame_width + column] : gif->around;
      memcpy(out, colours[index], 4);
    }
  }
  *image = (hrn_image){to, stride, box->width, box->height};
  return HRN_OK;
}

int hrn_gif_inspect(hrn_context *context, hrn_gif *gif, int depth, hrn_facts *facts,
                    hrn_status *status) {
  uint32_t width, height;
  hrn_image image;
  hrn_gif_header(context, gif, &width, &height, status);
  facts->width = gif->width;
  facts->height = gif->height;
  facts->channels = 1;
  facts->bits = 8;
  facts->process = HRN_PROCESS_LZW;
  if (status->code != HRN_OK || depth != HRN_ENTROPY) return status->code;
  facts->scans = 1;
  const hrn_box last = {0, (int32_t)(gif->top + gif->frame_height) - 1, 1, 1};
  return hrn_gif_window(context, gif, &last, &image, status);
}
