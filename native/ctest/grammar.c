/* grammar.c: a file in parts, and the damage that can happen to parts. */
#include "grammar.h"

#include <stdlib.h>
#include <string.h>

void draft_bytes(draft *d, const void *from, size_t length) {
  if (length > d->room - d->length) {
    d->room = 2 * (d->room + length) + 4096;
    d->bytes = realloc(d->bytes, d->room);
    if (d->bytes == NULL) abort();
  }
  if (length > 0) memcpy(d->bytes + d->length, from, length);
  d->length += length;
}

void draft_byte(draft *d, uint32_t value) { draft_bytes(d, &(uint8_t){(uint8_t)value}, 1); }

void draft_16(draft *d, uint32_t value) {
  draft_byte(d, value >> 8);
  draft_byte(d, value);
}

void draft_32(draft *d, uint32_t value) {
  draft_16(d, value >> 16);
  draft_16(d, value);
}

void draft_part(draft *d) {
  if (d->parts < sizeof d->part / sizeof d->part[0]) d->part[d->parts++] = d->length;
}

static size_t end_of(const draft *d, size_t part) {
  return part + 1 < d->parts ? d->part[part + 1] : d->length;
}

/* The same file with the parts of `order`. */
static void arrange(draft *d, const size_t *order, size_t count) {
  draft to = {0};
  draft_bytes(&to, d->bytes, d->parts > 0 ? d->part[0] : d->length);
  for (size_t i = 0; i < count; i++) {
    const size_t from = d->part[order[i]];
    draft_part(&to);
    draft_bytes(&to, d->bytes + from, end_of(d, order[i]) - from);
  }
  free(d->bytes);
  *d = to;
}

static void move_parts(random_state *r, draft *d) {
  size_t order[257], count = d->parts;
  for (size_t i = 0; i < count; i++) order[i] = i;
  const size_t a = random_below(r, count), b = random_below(r, count);
  switch (random_below(r, 3)) {
    case 0: /* a part is lost */
      memmove(order + a, order + a + 1, (count - a - 1) * sizeof *order);
      count--;
      break;
    case 1: /* a part is repeated elsewhere */
      memmove(order + a + 1, order + a, (count - a) * sizeof *order);
      order[a] = b;
      count++;
      break;
    default:
      order[a] = b;
      order[b] = a;
      break;
  }
  arrange(d, order, count);
}

static void damage_part(random_state *r, draft *d, size_t header) {
  const size_t part = random_below(r, d->parts), from = d->part[part];
  size_t length = end_of(d, part) - from;
  if (length == 0) return;
  if (length > header && random_below(r, 2)) length = header;
  uint8_t *at = d->bytes + from + random_below(r, length);
  switch (random_below(r, 3)) {
    case 0:
      *at ^= (uint8_t)(1u << random_below(r, 8));
      break;
    case 1:
      *at = "\x00\xFF\x7F\x80\x01\xFE"[random_below(r, 6)];
      break;
    default:
      *at = (uint8_t)(*at + (random_below(r, 2) ? 1 : -1));
      break;
  }
}

void draft_damage(random_state *r, draft *d, size_t header) {
  if (d->parts == 0) return;
  switch (random_below(r, 8)) {
    case 0:
      d->length = random_below(r, d->length + 1);
      while (d->parts > 0 && d->part[d->parts - 1] >= d->length) d->parts--;
      break;
    case 1:
    case 2:
    case 3:
      move_parts(r, d);
      break;
    default:
      damage_part(r, d, header);
      break;
  }
}

image_bytes draft_finish(draft *d) {
  const image_bytes file = copy_bytes(d->bytes, d->length);
  free(d->bytes);
  *d = (draft){0};
  return file;
}
