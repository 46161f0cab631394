/* lzw.c: turns the codes of a GIF's frame into indices (GIF89a, appendix F).
 *
 * Codes that no encoder writes are treated as by Pillow's decoder (libImaging/GifDecode.c). A code
 * that is one too large stands for the last string and its first index. The first code after a
 * clear code is an index. What follows the last row is ignored. A block that the file does not
 * contain in full is not begun.
 */
#include <string.h>

#include "gif.h"

enum { MOST_BITS = 12, TABLE = 1 << MOST_BITS };

/* The stream of codes, in blocks of up to 255 bytes. */
typedef struct codes {
  const uint8_t *bytes;
  size_t length, at;
  uint32_t block; /* bytes left of the block */
  uint32_t buffer, count;
} codes;

/* The next code, or -1 where the file ends. */
static int32_t next_code(codes *c, uint32_t size) {
  while (c->count < size) {
    if (c->block == 0) {
      if (c->at >= c->length || c->bytes[c->at] >= c->length - c->at) return -1;
      c->block = c->bytes[c->at++];
      continue;
    }
    c->buffer |= (uint32_t)c->bytes[c->at++] << c->count;
    c->count += 8;
    c->block--;
  }
  const uint32_t code = c->buffer & ((1u << size) - 1);
  c->buffer >>= size;
  c->count -= size;
  return (int32_t)code;
}

/* Where the next index goes. Interlaced rows come in four passes: every eighth row, those in the
 * middle between them, every fourth of the rest, and every second. */
typedef struct place {
  uint8_t *indices;
  uint32_t width, height, rows; /* rows: how many are enough; all of an interlaced frame */
  uint32_t x, y, pass;
  bool interlaced, done;
} place;

static void next_row(place *p) {
  static const uint8_t step[] = {8, 8, 4, 2}, first[] = {0, 4, 2, 1};
  p->x = 0;
  p->y += p->interlaced ? step[p->pass] : 1;
  while (p->y >= p->rows && !p->done) {
    p->done = !p->interlaced || ++p->pass == 4;
    if (!p->done) p->y = first[p->pass];
  }
}

static void put(place *p, const uint8_t *string, size_t count) {
  while (count > 0 && !p->done) {
    const size_t room = p->width - p->x, some = count < room ? count : room;
    memcpy(p->indices + (size_t)p->y * p->width + p->x, string, some);
    p->x += (uint32_t)some;
    string += some;
    count -= some;
    if (p->x == p->width) next_row(p);
  }
}

/* The strings. Each is another string and an index behind it. */
typedef struct table {
  uint16_t link[TABLE];
  uint8_t index[TABLE];
  uint8_t string[TABLE]; /* the last string, filled from its end */
  uint32_t clear, next, size;
  uint32_t last;      /* the last code */
  uint8_t last_first; /* the first index of that code's string */
  bool fresh;         /* after a clear code */
} table;

static void clear(table *t, uint32_t bits) {
  t->clear = 1u << bits;
  t->next = t->clear + 2;
  t->size = bits + 1;
  t->fresh = true;
}

/* Adds a string to the table: that of the last code and one index more. */
static void add(table *t, uint8_t index) {
  if (t->next >= TABLE) return;
  t->index[t->next] = index;
  t->link[t->next] = (uint16_t)t->last;
  if (t->next == (1u << t->size) - 1 && t->size < MOST_BITS) t->size++;
  t->next++;
}

/* The string of a code, or NULL for a code that has none. */
static const uint8_t *string_of(table *t, uint32_t code, size_t *count) {
  uint32_t at = TABLE, c = code;
  if (t->fresh) {
    if (code > t->clear) return NULL;
    t->last = code;
    t->last_first = (uint8_t)code;
    t->fresh = false;
    *count = 1;
    return &t->last_first;
  }
  if (c > t->next) return NULL;
  if (c == t->next) {
    t->string[--at] = t->last_first;
    c = t->last;
  }
  while (c >= t->clear) {
    if (at == 0 || c >= TABLE) return NULL;
    t->string[--at] = t->index[c];
    c = t->link[c];
  }
  t->last_first = (uint8_t)c;
  add(t, (uint8_t)c);
  t->last = code;
  /* The first index is not in the buffer, because the buffer may be full without it. */
  *count = TABLE - at;
  return t->string + at;
}

int hrn_gif_expand(const hrn_context *context, const hrn_gif *gif, uint32_t rows, uint8_t *indices,
                   hrn_status *status) {
  codes c = {.bytes = context->bytes, .length = context->length, .at = gif->data};
  place p = {.indices = indices,
             .width = gif->frame_width,
             .height = gif->frame_height,
             .rows = gif->interlaced ? gif->frame_height : rows,
             .interlaced = gif->interlaced};
  table t;
  memset(t.link, 0, sizeof t.link); /* codes without a string lead to index 0 */
  memset(t.index, 0, sizeof t.index);
  clear(&t, gif->bits);
  while (!p.done) {
    const size_t at = c.at;
    const int32_t code = next_code(&c, t.size);
    if (code < 0 || (uint32_t)code == t.clear + 1) {
      return hrn_fail(status, HRN_TRUNCATED, (int64_t)c.at,
                      "the image data end too early (found %u of %u rows)", p.y, p.height);
    }
    if ((uint32_t)code == t.clear) {
      clear(&t, gif->bits);
    } else {
      const bool fresh = t.fresh;
      size_t count;
      const uint8_t *string = string_of(&t, (uint32_t)code, &count);
      if (string == NULL) {
        return hrn_fail(status, HRN_BAD, (int64_t)at, "code %d stands for nothing yet", code);
      }
      if (!fresh) put(&p, &t.last_first, 1);
      put(&p, string, count);
    }
  }
  return HRN_OK;
}
