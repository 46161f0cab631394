/* grammar.h: files of the right grammar and any content. What a writer of JPEG or PNG decides is
 * drawn at random. Then segments or chunks are lost, doubled, moved and damaged. */
#ifndef HEADRACE_CTEST_GRAMMAR_H
#define HEADRACE_CTEST_GRAMMAR_H

#include <stdbool.h>

#include "images.h"

/* A file as it is written, and where its parts begin. */
typedef struct draft {
  uint8_t *bytes;
  size_t length, room;
  size_t part[256];
  size_t parts;
} draft;

void draft_byte(draft *d, uint32_t value);
void draft_bytes(draft *d, const void *from, size_t length);
void draft_16(draft *d, uint32_t value); /* big-endian, as in both formats */
void draft_32(draft *d, uint32_t value);
void draft_part(draft *d); /* a part begins here */

/* Loses, doubles, swaps or cuts parts, or damages a byte of one. The `header` bytes at the
 * beginning of each part are hit more often. */
void draft_damage(random_state *r, draft *d, size_t header);

/* The file, in memory that ends where the file does. */
image_bytes draft_finish(draft *d);

image_bytes random_jpeg(random_state *r);
image_bytes random_png(random_state *r);

#endif
