/* mutate.c: runs damaged and cut headers through header.c; made to run under sanitizers.
 *
 *   mutate [RUNS [SEED]]
 *
 * Each header is at the end of its allocation. Besides "no report", this must hold: a file gives
 * the same answer as the same bytes in memory, whole headers are recognised, and no descriptor
 * stays open.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../native/ctest/random.h"
#include "../header.h"

enum { MOST = 6000 };

typedef struct {
  uint8_t bytes[MOST];
  size_t length;
} file;

static void put(file *f, const void *bytes, size_t length) {
  memcpy(f->bytes + f->length, bytes, length);
  f->length += length;
}

static void segment(file *f, int marker, size_t body, const char *begin) {
  const uint8_t head[4] = {0xFF, (uint8_t)marker, (uint8_t)((body + 2) >> 8), (uint8_t)(body + 2)};
  put(f, head, 4);
  memset(f->bytes + f->length, 7, body);
  memcpy(f->bytes + f->length, begin, strlen(begin));
  f->length += body;
}

/* A JPEG of 640 x 480 whose first segment has this length. Behind a long one the frame header is
 * read anew. */
static file jpeg(size_t first) {
  static const uint8_t frame[] = {0xFF, 0xC2, 0, 17, 8, 1, 0xE0, 2,    0x80, 3, 1,    0x22,
                                  0,    2,    1, 17, 1, 3, 0x11, 0xFF, 0xDA, 0, 0xFF, 0xD9};
  file f = {.length = 0};
  put(&f, "\xFF\xD8", 2);
  segment(&f, 0xE1, first, "Exif");
  segment(&f, 0xE2, 20, "ICC");
  segment(&f, 0xDB, 65, "");
  put(&f, frame, sizeof frame);
  return f;
}

/* A PNG of one pixel with a comment before its data. */
static file png(void) {
  static const uint8_t head[] =
      "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\10\2\0\0\0\x90wS\xde";
  static const uint8_t rest[] = "\0\0\0\3tEXta\0bcrc!\0\0\0\0IDATcrc!";
  file f = {.length = 0};
  put(&f, head, sizeof head - 1);
  put(&f, rest, sizeof rest - 1);
  return f;
}

/* The first chunk of a WebP of 640 x 480: lossy, lossless, or with more chunks. */
static file webp(int kind) {
  static const uint8_t heads[3][31] = {
      "RIFF\x80\0\0\0WEBPVP8 \x40\0\0\0abc\x9D\x01\x2A\x80\x02\xE0\x01",
      "RIFF\x80\0\0\0WEBPVP8L\x40\0\0\0\x2F\x7F\xC2\x77\0abcde",
      "RIFF\x80\0\0\0WEBPVP8X\x0A\0\0\0\0\0\0\0\x7F\x02\0\xDF\x01\0"};
  file f = {.length = 0};
  put(&f, heads[kind], 30);
  put(&f, "abcdefgh", 8);
  return f;
}

static void mutate(file *f, random_state *r) {
  for (uint64_t times = random_below(r, 4); times > 0; times--) {
    /* Most of what matters is at the beginning. */
    const size_t at = (size_t)random_below(r, random_below(r, 2) ? f->length : 40);
    static const uint8_t likely[] = {0, 1, 2, 3, 4, 8, 0xC0, 0xC4, 0xE2, 0xFF};
    if (at >= f->length) continue;
    f->bytes[at] =
        random_below(r, 2) ? likely[random_below(r, sizeof likely)] : (uint8_t)random_next(r);
  }
  if (random_below(r, 3) == 0) f->length = (size_t)random_below(r, f->length + 1);
}

static bool agree(const file *f) {
  hrh_header memory, disk;
  uint8_t *exact = malloc(f->length ? f->length : 1);
  memcpy(exact, f->bytes, f->length);
  hrh_read(exact, f->length, &memory);
  free(exact);

  const int written = memfd_create("header", MFD_CLOEXEC);
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", written);
  if (written < 0 || write(written, f->bytes, f->length) != (ssize_t)f->length) return false;
  const int opened = hrh_open(path, &disk);
  bool same = opened == (disk.descriptor >= 0) && opened == (memory.format != HRH_DOUBTFUL) &&
              disk.format == memory.format;
  same = same && disk.mode == memory.mode && disk.size == (int64_t)f->length;
  same = same && disk.width == memory.width && disk.height == memory.height;
  same = same && hrh_is(path, disk.device, disk.inode, disk.size, disk.changed_ns);
  same = same && !hrh_is(path, disk.device, disk.inode, disk.size + 1, disk.changed_ns);
  same = same && memory.behind == hrh_behind(written) && memory.behind <= (int64_t)f->length;
  disk.size++;
  same = same && !hrh_settle(path, &disk) && opened == (disk.descriptor >= 0);
  disk.size--;
  same = same && hrh_settle(path, &disk) && disk.descriptor < 0;
  hrh_close(&disk);
  close(written);
  return same;
}

int main(int count, char **arguments) {
  const long runs = count > 1 ? atol(arguments[1]) : 20000;
  random_state r = random_seeded(count > 2 ? strtoull(arguments[2], NULL, 10) : 1);
  const file whole[] = {jpeg(40), jpeg(5000), jpeg(4060), webp(0), webp(1), webp(2), png()};
  const size_t kinds = sizeof whole / sizeof *whole;
  for (size_t i = 0; i < kinds; i++) {
    hrh_header is;
    hrh_read(whole[i].bytes, whole[i].length, &is);
    const int format = i < 3 ? HRH_JPEG : i + 1 < kinds ? HRH_WEBP : HRH_PNG;
    bool known = is.format == format && is.mode == HRH_RGB;
    known = known && (format == HRH_PNG || (is.width == 640 && is.height == 480));
    if (!known || !agree(&whole[i])) return fprintf(stderr, "whole header %zu\n", i), 1;
  }
  const int first = dup(0);
  close(first);
  for (long i = 0; i < runs; i++) {
    file f = whole[random_below(&r, kinds)];
    mutate(&f, &r);
    if (!agree(&f)) return fprintf(stderr, "run %ld: memory and file differ\n", i), 1;
  }
  const int last = dup(0);
  if (first != last) return fprintf(stderr, "a descriptor is left\n"), 1;
  printf("header: %ld damaged headers\n", runs);
  return 0;
}
