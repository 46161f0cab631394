/* rle.c: expands the run lengths of a BMP. Runs that do not fit are treated as by Pillow's
 * BmpRleDecoder.
 *
 * A run is cut at the end of its row. Copied pixels are not cut, and go on in the next row.
 */
#include <string.h>

#include "bmp.h"

/* The bytes from a place in the file on, and the indices that were written. */
typedef struct state {
  const uint8_t *bytes;
  size_t length, at;
  uint8_t *to;
  size_t size, written; /* pixels of the image; `written` may exceed it by less than a row */
  size_t x, columns;
} state;

static void repeat(state *s, size_t count, uint8_t byte, bool rle4) {
  if (s->x + count > s->columns) count = s->x < s->columns ? s->columns - s->x : 0;
  if (!rle4) {
    memset(s->to + s->written, byte, count);
  } else {
    for (size_t i = 0; i < count; i++) {
      s->to[s->written + i] = i % 2 == 0 ? byte >> 4 : byte & 15;
    }
  }
  s->written += count;
  s->x += count;
}

static void skip(state *s, size_t count) {
  const size_t room = s->written < s->size ? s->size - s->written : 0;
  if (count > room) count = room;
  memset(s->to + s->written, 0, count);
  s->written += count;
}

/* False at the end of the file, or of the image. */
static bool copy(state *s, size_t said, bool rle4) {
  const size_t room = s->size - s->written, count = said < room ? said : room;
  const size_t bytes = rle4 ? (count + 1) / 2 : count;
  if (bytes > s->length - s->at) return false;
  for (size_t i = 0; i < count; i++) {
    const uint8_t byte = s->bytes[s->at + (rle4 ? i / 2 : i)];
    s->to[s->written + i] = !rle4 ? byte : i % 2 == 0 ? byte >> 4 : byte & 15;
  }
  s->at += bytes;
  s->written += count;
  if (s->written == s->size) return false;
  s->x += said;
  if (s->at % 2 != 0) s->at++; /* whole 16-bit words */
  return true;
}

/* Does what follows a run of length 0. False if nothing more follows. */
static bool escape(state *s, uint8_t byte, bool rle4) {
  if (byte == 1) return false;
  if (byte == 0) {
    if (s->written % s->columns != 0) skip(s, s->columns - s->written % s->columns);
    s->x = 0;
  } else if (byte == 2) {
    if (s->length < 2 || s->at > s->length - 2) return false;
    skip(s, s->bytes[s->at] + s->bytes[s->at + 1] * s->columns);
    s->at += 2;
    s->x = s->written % s->columns;
  } else {
    return copy(s, byte, rle4);
  }
  return true;
}

/* `indices` must have room for one row more than the image. */
int hrn_bmp_expand(const hrn_context *context, const hrn_bmp *bmp, uint8_t *indices,
                   hrn_status *status) {
  state s = {.bytes = context->bytes,
             .length = context->length,
             .at = bmp->data,
             .to = indices,
             .size = (size_t)bmp->width * bmp->height,
             .columns = bmp->width};
  bool more = true;
  while (more && s.written < s.size && s.length >= 2 && s.at <= s.length - 2) {
    const uint8_t count = s.bytes[s.at], byte = s.bytes[s.at + 1];
    s.at += 2;
    if (count != 0) {
      repeat(&s, count, byte, bmp->rle4);
    } else {
      more = escape(&s, byte, bmp->rle4);
    }
  }
  if (s.written >= s.size) return HRN_OK;
  return hrn_fail(status, HRN_TRUNCATED, (int64_t)(s.at < s.length ? s.at : s.length),
                  "the run lengths end too early (expected %zu pixels, found %zu)", s.size,
                  s.written);
}
