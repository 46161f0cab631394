/* exif.c: reads the orientation from an EXIF block, and nothing else.
 *
 * EXIF is a small TIFF file: byte order, 42, the offset of a directory, and in that directory
 * entries of twelve bytes. Orientation is tag 0x0112 of the first directory. It is a SHORT, so its
 * value is in the entry itself. Only one directory is read, and no offset but its own is followed,
 * so nothing can loop.
 */
#include "exif.h"

#include <stdbool.h>

#define ORIENTATION 0x0112
#define TYPE_SHORT 3

static uint32_t read16(const uint8_t *p, bool big) {
  return big ? (uint32_t)p[0] << 8 | p[1] : (uint32_t)p[1] << 8 | p[0];
}

static uint32_t read32(const uint8_t *p, bool big) {
  return big ? read16(p, big) << 16 | read16(p + 2, big)
             : read16(p + 2, big) << 16 | read16(p, big);
}

/* 1 to 8, or 0 if there is none, it is out of range, or the block is broken. A photograph with
 * damaged metadata is still a photograph. */
uint8_t hrn_exif_orientation(const uint8_t *tiff, size_t length) {
  if (length < 8) return 0;
  bool big = tiff[0] == 'M';
  if (tiff[0] != tiff[1] || (!big && tiff[0] != 'I') || read16(tiff + 2, big) != 42) return 0;
  size_t directory = read32(tiff + 4, big);
  if (directory > length - 2) return 0;
  size_t entries = read16(tiff + directory, big);
  size_t room = (length - directory - 2) / 12;
  if (entries > room) entries = room;
  for (size_t i = 0; i < entries; i++) {
    const uint8_t *entry = tiff + directory + 2 + i * 12;
    if (read16(entry, big) != ORIENTATION) continue;
    if (read16(entry + 2, big) != TYPE_SHORT || read32(entry + 4, big) != 1) return 0;
    uint32_t value = read16(entry + 8, big);
    return value >= 1 && value <= 8 ? (uint8_t)value : 0;
  }
  return 0;
}
