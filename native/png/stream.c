/* stream.c: reads the zlib stream that a PNG's IDAT chunks form together.
 *
 * Every IDAT's checksum is compared before its bytes are used. Pillow does not look at it. So
 * damaged data that still inflates is accepted there, and is an error here.
 */
#include <stdlib.h>
#include <string.h>

#include "png.h"

#define OVERHEAD 12
#define MOST ((uint64_t)1 << 30) /* zlib counts in 32 bits */

/* Image data that is longer than its rows makes zlib work for nothing: 256 MB of blocks that only
 * have headers take it 25 seconds, for one pixel. Data that cannot be compressed grows by an eighth
 * at most, and by a few bytes wherever an encoder flushes. The mebibyte is for rows of a pixel or
 * two. */
#define MOST_OF_ROWS 2
#define MOST_BEYOND ((uint64_t)1 << 20)

static uint32_t read32(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The filter bytes of an interlaced image's passes are not worth counting. */
static void allow(hrn_png *png) {
  const uint64_t row = hrn_png_row_bytes(png, png->width) + 1;
  if (__builtin_mul_overflow(row, (uint64_t)png->height, &png->rows) ||
      __builtin_mul_overflow(png->rows, (uint64_t)MOST_OF_ROWS, &png->room) ||
      __builtin_add_overflow(png->room, MOST_BEYOND, &png->room)) {
    png->room = UINT64_MAX;
  }
}

int hrn_png_stream_begin(hrn_png *png, hrn_status *status) {
  /* zlib's 40 kB stay in the context. */
  if (!png->stream_made) {
    memset(&png->stream, 0, sizeof png->stream);
    if (inflateInit(&png->stream) != Z_OK) {
      return hrn_fail(status, HRN_MEMORY, -1, "could not allocate zlib's window");
    }
    png->stream_made = true;
  } else {
    inflateReset(&png->stream);
  }
  png->stream.avail_in = 0;
  png->stream_ended = false;
  png->at = png->data;
  png->chunks_end = false;
  allow(png);
  return HRN_OK;
}

/* Called when the context is freed. */
static void free_stream(hrn_png *png) {
  if (png->stream_made) inflateEnd(&png->stream);
  png->stream_made = false;
}

/* Gives zlib the next IDAT. If the file's end cuts a chunk, zlib gets as much of it as there is, so
 * rows that are complete can still be read. */
static int feed(hrn_png *png, hrn_status *status) {
  size_t left = png->length - png->at;
  if (left < 8 || memcmp(png->bytes + png->at + 4, "IDAT", 4) != 0) {
    png->chunks_end = true;
    return HRN_OK;
  }
  uint32_t size = read32(png->bytes + png->at);
  const uint8_t *body = png->bytes + png->at + 8;
  if (left < OVERHEAD || size > left - OVERHEAD) {
    png->chunks_end = true;
    size = left - 8 < size ? (uint32_t)(left - 8) : size;
  } else {
    if (crc32(crc32_z(0, body - 4, 4), body, size) != read32(body + size)) {
      return hrn_fail(status, HRN_BAD, (int64_t)png->at, "chunk IDAT does not match its checksum");
    }
    png->at += (size_t)size + OVERHEAD;
  }
  if (size > png->room) { /* the stream may end before this limit */
    png->chunks_end = true;
    size = (uint32_t)png->room;
  }
  png->room -= size;
  png->stream.next_in = (Bytef *)body; /* zlib takes it without const and only reads */
  png->stream.avail_in = size;
  return HRN_OK;
}

/* A row is missing, either because the file ends here, or although it goes on. */
static int ends_early(const hrn_png *png, hrn_status *status) {
  if (!png->stream_ended && png->room == 0) {
    return hrn_fail(
        status, HRN_LIMIT, png->stream.next_in - png->bytes,
        "%llu bytes of image data are not enough for %llu bytes of rows, no more are read",
        (unsigned long long)(MOST_OF_ROWS * png->rows + MOST_BEYOND),
        (unsigned long long)png->rows);
  }
  const int64_t end = (int64_t)png->length;
  const size_t left = png->length - png->at;
  if (!png->stream_ended && left < 8) {
    return hrn_fail(status, HRN_TRUNCATED, end,
                    "the file is truncated between chunks of its image data (found %zu bytes)",
                    png->length);
  }
  if (!png->stream_ended && memcmp(png->bytes + png->at + 4, "IDAT", 4) == 0) {
    const uint64_t expected = (uint64_t)png->at + OVERHEAD + read32(png->bytes + png->at);
    return hrn_fail(status, HRN_TRUNCATED, end,
                    "the file is truncated in chunk IDAT (expected at least %llu bytes, found %zu)",
                    (unsigned long long)expected, png->length);
  }
  return hrn_fail(status, HRN_TRUNCATED, png->stream.next_in - png->bytes,
                  "the image data ends before the last row");
}

/* Reads exactly `count` bytes or fails: a row is never half filled. zlib reports Z_BUF_ERROR if it
 * needs more input. Then the next chunk helps, and if there is none, the image data ends too early.
 * Pillow leaves the missing rows black if the stream itself is complete. */
int hrn_png_stream_read(hrn_png *png, uint8_t *to, uint64_t count, hrn_status *status) {
  z_stream *stream = &png->stream;
  while (count > 0) {
    while (stream->avail_in == 0 && !png->chunks_end) {
      if (feed(png, status) != HRN_OK) return status->code;
    }
    uInt wanted = (uInt)(count < MOST ? count : MOST);
    stream->next_out = to;
    stream->avail_out = wanted;
    int result = png->stream_ended ? Z_STREAM_END : inflate(stream, Z_NO_FLUSH);
    uInt got = wanted - stream->avail_out;
    to += got;
    count -= got;
    png->stream_ended = result == Z_STREAM_END;
    if (result == Z_MEM_ERROR) {
      return hrn_fail(status, HRN_MEMORY, -1, "could not allocate zlib's window");
    }
    if (result != Z_OK && result != Z_BUF_ERROR && result != Z_STREAM_END) {
      int64_t offset = stream->next_in - png->bytes;
      return hrn_fail(status, HRN_BAD, offset, "zlib: %s",
                      stream->msg != NULL ? stream->msg : "the stream is damaged");
    }
    bool stuck = got == 0 && (png->stream_ended || (stream->avail_in == 0 && png->chunks_end));
    if (count > 0 && stuck) return ends_early(png, status);
  }
  return HRN_OK;
}

/* After the last row the stream should end, with its own checksum, and the chunks should end with
 * it. Pillow does not check this, so it only counts as a warning. */
uint32_t hrn_png_stream_end(hrn_png *png) {
  uint8_t byte;
  hrn_status status;
  z_stream *stream = &png->stream;
  while (!png->stream_ended) {
    while (stream->avail_in == 0 && !png->chunks_end) {
      if (feed(png, &status) != HRN_OK) return 1;
    }
    stream->next_out = &byte;
    stream->avail_out = 1;
    int result = inflate(stream, Z_NO_FLUSH);
    if (stream->avail_out == 0) return 1; /* more data than rows */
    if (result == Z_STREAM_END) break;
    if (result != Z_OK || (stream->avail_in == 0 && png->chunks_end)) return 1;
  }
  return 0;
}

bool hrn_png_new(hrn_context *context) {
  context->png = calloc(1, sizeof *context->png);
  return context->png != NULL;
}

void hrn_png_free(hrn_context *context) {
  if (context->png == NULL) return;
  free_stream(context->png);
  free(context->png);
  context->png = NULL;
}
