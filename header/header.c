/* header.c: all of header.h. */
#include "header.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* Enough for the tables of nearly every JPEG. What is behind larger segments, such as EXIF's
 * thumbnails, is read on its own. */
enum { FIRST = 4096, NEXT = 64, MOST_SEGMENTS = 256 };

/* Where encoded bytes come from: memory, or a file of which one block is in memory at a time. */
typedef struct {
  int descriptor; /* -1: all bytes are in the block */
  const uint8_t *block;
  uint64_t begin; /* where the block begins in the file */
  size_t length;
  uint8_t buffer[FIRST];
} source;

static uint32_t read16(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }
static uint32_t read32(const uint8_t *p) { return read16(p) << 16 | read16(p + 2); }

static uint32_t read24(const uint8_t *p) { /* little-endian */
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
}

static void fill(source *from, uint64_t at, size_t count) {
  ssize_t got;
  do {
    got = pread(from->descriptor, from->buffer, count, (off_t)at);
  } while (got < 0 && errno == EINTR);
  from->block = from->buffer;
  from->begin = at;
  from->length = got > 0 ? (size_t)got : 0;
}

/* `count` bytes at an offset, or NULL if the file has fewer. */
static const uint8_t *bytes_at(source *from, uint64_t at, size_t count) {
  if (at < from->begin || at - from->begin > from->length ||
      from->length - (size_t)(at - from->begin) < count) {
    if (from->descriptor < 0) return NULL;
    fill(from, at, NEXT);
    if (from->length < count) return NULL;
  }
  return from->block + (at - from->begin);
}

static void found(hrh_header *out, int format, int mode, uint32_t width, uint32_t height) {
  if (width == 0 || height == 0) return;
  out->format = format;
  out->mode = mode;
  out->width = width;
  out->height = height;
}

/* Tables and comments, which may come before the frame header: DHT, DQT, DRI, COM and APPn. */
static int is_table(int marker) {
  return marker == 0xC4 || marker == 0xDB || marker == 0xDD || marker == 0xFE ||
         (marker >= 0xE0 && marker <= 0xEF);
}

/* Walks from segment to segment to the frame header (ITU-T T.81, annex B). */
static void read_jpeg(source *from, hrh_header *out) {
  uint64_t at = 2;
  for (int i = 0; i < MOST_SEGMENTS; i++) {
    const uint8_t *p = bytes_at(from, at, 10);
    if (p == NULL || p[0] != 0xFF) return;
    const int marker = p[1];
    const uint32_t length = read16(p + 2);
    if (marker >= 0xC0 && marker <= 0xC2) { /* baseline, extended and progressive Huffman coding */
      /* As in Pillow's JpegImagePlugin.SOF, one component is L, three are RGB. Four are CMYK,
       * inverted or not depending on another marker, so Pillow decides. */
      const int components = p[9];
      if (p[4] == 8 && (components == 1 || components == 3)) {
        found(out, HRH_JPEG, components == 1 ? HRH_L : HRH_RGB, read16(p + 7), read16(p + 5));
      }
      return;
    }
    if (!is_table(marker) || length < 2) return;
    /* Pillow treats several pictures in one file (CIPA DC-007) as another format. */
    if (marker == 0xE2 && memcmp(p + 4, "MPF", 4) == 0) return;
    at += 2 + length;
  }
}

/* Whether the image data come before a second header, whose size Pillow would take, and before the
 * chunk that makes it an animation, in which Pillow can go from frame to frame. */
static int has_one_header(source *from) {
  uint64_t at = 33;
  for (int i = 0; i < MOST_SEGMENTS; i++) {
    const uint8_t *p = bytes_at(from, at, 8);
    if (p == NULL || memcmp(p + 4, "IHDR", 4) == 0 || memcmp(p + 4, "acTL", 4) == 0) return 0;
    if (memcmp(p + 4, "IDAT", 4) == 0) return 1;
    at += 12 + (uint64_t)read32(p);
  }
  return 0;
}

/* Reads the header chunk, which comes first (PNG specification, 11.2.2). It must have 8 bits and
 * the right checksum. */
static void read_png(source *from, hrh_header *out) {
  static const int8_t modes[] = {HRH_L, -1, HRH_RGB, HRH_P, HRH_LA, -1, HRH_RGBA};
  const uint8_t *p = bytes_at(from, 0, 33);
  if (p == NULL || crc32(0, p + 12, 17) != read32(p + 29)) return;
  const uint32_t width = read32(p + 16), height = read32(p + 20);
  const int depth = p[24], colour = p[25];
  if (depth != 8 || colour > 6 || modes[colour] < 0 || p[26] != 0 || p[27] != 0 || p[28] > 1)
    return;
  if (has_one_header(from)) found(out, HRH_PNG, modes[colour], width, height);
}

/* Sides of a frame are stored in 14 bits, those of a canvas in 24, each minus one except for VP8
 * (RFC 9649, 2.5 to 2.7). A file with several frames is left to Pillow, which can go from one to
 * another. */
static void read_webp(source *from, hrh_header *out) {
  enum { ANIMATION = 2, ALPHA = 16 };
  const uint8_t *p = bytes_at(from, 0, 30);
  if (p == NULL) return;
  const uint32_t low = read24(p + 24), high = read24(p + 27);
  if (memcmp(p + 12, "VP8 ", 4) == 0 && memcmp(p + 23, "\x9D\x01\x2A", 3) == 0) {
    found(out, HRH_WEBP, HRH_RGB, (p[26] | p[27] << 8) & 0x3FFF, (p[28] | p[29] << 8) & 0x3FFF);
  } else if (memcmp(p + 12, "VP8L", 4) == 0 && p[20] == 0x2F) {
    const uint32_t bits = read24(p + 21) | (uint32_t)p[24] << 24;
    const int mode = bits >> 28 & 1 ? HRH_RGBA : HRH_RGB;
    if (bits >> 29 == 0) found(out, HRH_WEBP, mode, (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1);
  } else if (memcmp(p + 12, "VP8X", 4) == 0 && (p[20] & ANIMATION) == 0) {
    found(out, HRH_WEBP, p[20] & ALPHA ? HRH_RGBA : HRH_RGB, low + 1, high + 1);
  }
}

/* Pillow reads to the end of the first scan's header. */
static int64_t behind_jpeg(source *from) {
  uint64_t at = 2;
  for (int i = 0; i < MOST_SEGMENTS; i++) {
    const uint8_t *p = bytes_at(from, at, 4);
    if (p == NULL || p[0] != 0xFF) return -1;
    const int marker = p[1], is_frame = marker >= 0xC0 && marker <= 0xC2;
    const uint32_t length = read16(p + 2);
    if (length < 2 || !(is_table(marker) || is_frame || marker == 0xDA)) return -1;
    at += 2 + length;
    if (marker == 0xDA) return bytes_at(from, at - 1, 1) == NULL ? -1 : (int64_t)at;
  }
  return -1;
}

/* Pillow reads length and name of the first chunk with data. It also stops at a chunk that ends or
 * animates the picture; such files are left to it. */
static int64_t behind_png(source *from) {
  uint64_t at = 8;
  for (int i = 0; i < MOST_SEGMENTS; i++) {
    const uint8_t *p = bytes_at(from, at, 8);
    if (p == NULL || memcmp(p + 4, "IEND", 4) == 0) return -1;
    if (memcmp(p + 4, "acTL", 4) == 0 || memcmp(p + 4, "fdAT", 4) == 0) return -1;
    if (memcmp(p + 4, "IDAT", 4) == 0) return (int64_t)at + 8;
    at += 12 + (uint64_t)read32(p);
  }
  return -1;
}

/* Whether a file begins like those that the engine decodes but whose headers have too many forms to
 * be read here. */
static int is_other(const uint8_t *p) {
  return memcmp(p, "BM", 2) == 0 || memcmp(p, "GIF87a", 6) == 0 || memcmp(p, "GIF89a", 6) == 0 ||
         memcmp(p, "II*\0", 4) == 0 || memcmp(p, "MM\0*", 4) == 0;
}

enum { BEGINNING = 16 }; /* bytes that distinguish the formats */

static int format_of(const uint8_t *p) {
  static const uint8_t jpeg[3] = {0xFF, 0xD8, 0xFF};
  static const uint8_t png[BEGINNING] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
  if (memcmp(p, jpeg, sizeof jpeg) == 0) return HRH_JPEG;
  if (memcmp(p, png, sizeof png) == 0) return HRH_PNG;
  if (memcmp(p, "RIFF", 4) == 0 && memcmp(p + 8, "WEBP", 4) == 0) return HRH_WEBP;
  return is_other(p) ? HRH_OTHER : HRH_DOUBTFUL;
}

static void read_header(source *from, hrh_header *out) {
  const uint8_t *p = bytes_at(from, 0, BEGINNING);
  if (p == NULL) return;
  switch (format_of(p)) {
    case HRH_JPEG:
      read_jpeg(from, out);
      break;
    case HRH_PNG:
      read_png(from, out);
      break;
    case HRH_WEBP:
      read_webp(from, out);
      break;
    case HRH_OTHER:
      out->format = HRH_OTHER;
      break;
  }
}

static void identify(hrh_header *out, const struct stat *s) {
  out->device = s->st_dev;
  out->inode = s->st_ino;
  out->size = s->st_size;
  /* A file system may hold any time. What does not fit wraps, and is still the same each time. */
  out->changed_ns =
      (int64_t)((uint64_t)s->st_mtim.tv_sec * 1000000000 + (uint64_t)s->st_mtim.tv_nsec);
}

static void clear(hrh_header *out) {
  memset(out, 0, sizeof *out);
  out->descriptor = out->behind = -1;
}

int hrh_open(const char *path, hrh_header *out) {
  clear(out);
  struct stat s;
  source from;
  /* With these flags a FIFO or a device is not waited for, and a terminal does not become ours. */
  from.descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (from.descriptor < 0) return 0;
  out->descriptor = from.descriptor;
  if (fstat(from.descriptor, &s) == 0 && S_ISREG(s.st_mode)) {
    fill(&from, 0, FIRST);
    read_header(&from, out);
    identify(out, &s);
  }
  if (out->format != HRH_DOUBTFUL) return 1;
  hrh_close(out);
  return 0;
}

static int64_t behind(source *from, uint64_t length) {
  const uint8_t *p = bytes_at(from, 0, BEGINNING);
  switch (p == NULL ? HRH_DOUBTFUL : format_of(p)) {
    case HRH_JPEG:
      return behind_jpeg(from);
    case HRH_PNG:
      return behind_png(from);
    case HRH_WEBP:
      return (int64_t)length;
    default:
      return -1;
  }
}

void hrh_read(const uint8_t *bytes, size_t length, hrh_header *out) {
  clear(out);
  source from = {.descriptor = -1, .block = bytes, .length = length};
  read_header(&from, out);
  out->behind = behind(&from, length);
}

int64_t hrh_behind(int descriptor) {
  struct stat s;
  source from = {.descriptor = descriptor};
  if (fstat(descriptor, &s) != 0) return -1;
  fill(&from, 0, FIRST);
  return behind(&from, (uint64_t)s.st_size);
}

int hrh_is(const char *path, uint64_t device, uint64_t inode, int64_t size, int64_t changed_ns) {
  struct stat s;
  hrh_header is;
  if (stat(path, &s) != 0) return 0;
  identify(&is, &s);
  return is.device == device && is.inode == inode && is.size == size && is.changed_ns == changed_ns;
}

int hrh_settle(const char *path, hrh_header *opened) {
  if (!hrh_is(path, opened->device, opened->inode, opened->size, opened->changed_ns)) return 0;
  hrh_close(opened);
  return 1;
}

void hrh_close(hrh_header *opened) {
  const int descriptor = (int)opened->descriptor;
  opened->descriptor = -1;
  if (descriptor >= 0) close(descriptor);
}
