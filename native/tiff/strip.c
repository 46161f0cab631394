/* strip.c: decodes a strip of a TIFF: raw, LZW (TIFF 6.0, section 13) or deflate. */
#include <string.h>
#include <zlib.h>

#include "tiff.h"

/* Codes below 256 are bytes. CLEAR empties the table, and FIRST is the first code of a string. */
enum { CLEAR = 256, END = 257, FIRST = 258, MOST_BITS = 12, TABLE = 1 << MOST_BITS };

static int too_short(uint32_t strip, size_t expected, size_t found, hrn_status *status) {
  return hrn_fail(status, HRN_TRUNCATED, -1,
                  "strip %u ends too early (expected %zu bytes, found %zu)", strip, expected,
                  found);
}

/* A byte with its bits in the other order. */
static uint8_t reverse(uint8_t byte) {
  byte = (uint8_t)(byte >> 4 | byte << 4);
  byte = (uint8_t)((byte >> 2 & 0x33) | (byte & 0x33) << 2);
  return (uint8_t)((byte >> 1 & 0x55) | (byte & 0x55) << 1);
}

/* The strings of LZW: each is another string (`link`) and a byte behind it. `head` is its first
 * byte.
 */
typedef struct table {
  uint16_t link[TABLE], length[TABLE];
  uint8_t byte[TABLE], head[TABLE];
  uint32_t next, bits;
} table;

/* The codes of a strip, of 9 to 12 bits, the highest bit first. */
typedef struct codes {
  const uint8_t *at, *end;
  bool reversed;
  uint32_t buffer, count;
} codes;

/* The next code, or -1 if the strip has no more. */
static int32_t next_code(codes *c, uint32_t bits) {
  while (c->count < bits) {
    if (c->at == c->end) return -1;
    const uint8_t byte = *c->at++;
    c->buffer = c->buffer << 8 | (c->reversed ? reverse(byte) : byte);
    c->count += 8;
  }
  c->count -= bits;
  return (int32_t)(c->buffer >> c->count & ((1u << bits) - 1));
}

/* Writes the string of a code from its last byte to its first, as far as there is room. */
static size_t put_string(const table *t, uint32_t code, uint8_t *to, size_t room) {
  const size_t length = t->length[code];
  for (size_t i = length; i > 0; i--) {
    if (i <= room) to[i - 1] = t->byte[code];
    code = t->link[code];
  }
  return length < room ? length : room;
}

/* Stops as soon as there are `size` bytes, so an end code, or what a writer put instead, does not
 * matter. Every code is compared with the table before it is followed. */
static int expand_lzw(uint32_t strip, codes *c, uint8_t *to, size_t size, hrn_status *status) {
  table t;
  size_t written = 0;
  int32_t last = -1;
  for (uint32_t i = 0; i < 256; i++) {
    t.byte[i] = t.head[i] = (uint8_t)i;
    t.length[i] = 1;
    t.link[i] = 0;
  }
  t.next = FIRST;
  t.bits = 9;
  while (written < size) {
    const int32_t code = next_code(c, t.bits);
    if (code < 0 || code == END) return too_short(strip, size, written, status);
    if (code == CLEAR) {
      t.next = FIRST;
      t.bits = 9;
      last = -1;
      continue;
    }
    /* The first code must be a byte. A later code may be the string that is about to be made. */
    if (last < 0 ? code >= CLEAR : (uint32_t)code > t.next || (uint32_t)code >= TABLE) {
      return hrn_fail(status, HRN_BAD, -1, "code %d of strip %u stands for nothing yet", code,
                      strip);
    }
    if (last >= 0 && t.next < TABLE) {
      const uint32_t whole = (uint32_t)code == t.next ? (uint32_t)last : (uint32_t)code;
      t.link[t.next] = (uint16_t)last;
      t.length[t.next] = (uint16_t)(t.length[last] + 1);
      t.head[t.next] = t.head[last];
      t.byte[t.next] = t.head[whole];
      t.next++;
    } else if (last >= 0 && (uint32_t)code == t.next) {
      return hrn_fail(status, HRN_BAD, -1, "code %d of strip %u stands for nothing yet", code,
                      strip);
    }
    /* TIFF makes codes longer one code before the table needs it (section 13). */
    if (t.next >= (1u << t.bits) - 1 && t.bits < MOST_BITS) t.bits++;
    written += put_string(&t, (uint32_t)code, to + written, size - written);
    last = code;
  }
  return HRN_OK;
}

/* Gives zlib the next bytes. If their bits are reversed, it gets a copy of up to TURNED of them. */
enum { TURNED = 4096 };
static void feed(z_stream *stream, const uint8_t *from, size_t left, bool reversed,
                 uint8_t *turned) {
  stream->next_in = (Bytef *)(uintptr_t)from;
  stream->avail_in = left < 1u << 30 ? (uInt)left : 1u << 30;
  if (!reversed) return;
  if (left > TURNED) left = TURNED;
  for (size_t i = 0; i < left; i++) turned[i] = reverse(from[i]);
  stream->next_in = turned;
  stream->avail_in = (uInt)left;
}

static int expand_deflate(uint32_t strip, const uint8_t *from, size_t length, bool reversed,
                          uint8_t *to, size_t size, hrn_status *status) {
  uint8_t turned[TURNED];
  z_stream stream;
  memset(&stream, 0, sizeof stream);
  if (inflateInit(&stream) != Z_OK) {
    return hrn_fail(status, HRN_MEMORY, -1, "zlib could not allocate its memory");
  }
  int code = Z_OK;
  size_t written = 0, read = 0;
  while (code == Z_OK && written < size) {
    const size_t room = size - written;
    feed(&stream, from + read, length - read, reversed, turned);
    stream.next_out = to + written;
    stream.avail_out = room < 1u << 30 ? (uInt)room : 1u << 30;
    const uInt in = stream.avail_in, out = stream.avail_out;
    code = inflate(&stream, Z_NO_FLUSH);
    read += in - stream.avail_in;
    written += out - stream.avail_out;
  }
  /* A whole strip ends with a checksum of its bytes, which zlib compares when it reads on. */
  if (code == Z_OK) {
    feed(&stream, from + read, length - read, reversed, turned);
    code = inflate(&stream, Z_NO_FLUSH);
  }
  inflateEnd(&stream);
  if (written == size && code != Z_DATA_ERROR) return HRN_OK;
  if (code == Z_MEM_ERROR) {
    return hrn_fail(status, HRN_MEMORY, -1, "zlib could not allocate its memory");
  }
  if (code == Z_STREAM_END || code == Z_BUF_ERROR || code == Z_OK) {
    return too_short(strip, size, written, status);
  }
  return hrn_fail(status, HRN_BAD, -1, "strip %u is no deflate stream", strip);
}

int hrn_tiff_strip(const hrn_tiff *tiff, uint32_t strip, uint8_t *to, size_t size,
                   hrn_status *status) {
  const size_t at = hrn_tiff_value(tiff, &tiff->offsets, strip);
  const size_t left = at < tiff->length ? tiff->length - at : 0;
  if (tiff->compression == TIFF_RAW) {
    if (size > left) {
      return hrn_fail(status, HRN_TRUNCATED, (int64_t)tiff->length,
                      "the file is truncated in strip %u (expected %zu bytes, found %zu)", strip,
                      at + size, tiff->length);
    }
    memcpy(to, tiff->bytes + at, size);
    for (size_t i = 0; tiff->reversed && i < size; i++) to[i] = reverse(to[i]);
    return HRN_OK;
  }
  const size_t length = hrn_tiff_value(tiff, &tiff->lengths, strip);
  if (length > left) {
    return hrn_fail(status, HRN_TRUNCATED, (int64_t)tiff->length,
                    "the file is truncated in strip %u (expected %zu bytes, found %zu)", strip,
                    at + length, tiff->length);
  }
  const uint8_t *from = tiff->bytes + at;
  if (tiff->compression == TIFF_DEFLATE) {
    return expand_deflate(strip, from, length, tiff->reversed, to, size, status);
  }
  /* Before TIFF 6.0, writers put the lowest bit of a code first. The first code is CLEAR, which
   * shows which order it is; libtiff looks at the same two bytes. */
  if (length >= 2 && from[0] == 0 && ((tiff->reversed ? reverse(from[1]) : from[1]) & 1) != 0) {
    return hrn_fail(status, HRN_UNSUPPORTED, (int64_t)at, "TIFF with LZW codes of before 1992");
  }
  codes c = {from, from + length, tiff->reversed, 0, 0};
  return expand_lzw(strip, &c, to, size, status);
}
