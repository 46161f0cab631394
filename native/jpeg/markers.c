/* markers.c: reads what the marker segments before the first scan say, without libjpeg.
 *
 * libjpeg refuses lossless and 12-bit files before it tells their size, and keeps EXIF only as a
 * copy. This walk fills in the facts of those files, too. If libjpeg accepts a file, its values
 * replace these.
 */
#include "../core/exif.h"
#include "jpeg.h"

#include <string.h>

static uint32_t read16(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }

/* C4, C8 and CC lie among the SOF codes and are DHT, JPG and DAC. */
static bool is_frame(int marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

/* Each SOF code's low bits: 0-2 sequential or progressive, 3 lossless, +4 hierarchical, +8
 * arithmetic. */
static uint8_t process_of(int marker) {
  if ((marker & 3) == 3) return HRN_PROCESS_LOSSLESS;
  if (marker & 8) return HRN_PROCESS_ARITHMETIC;
  return (marker & 3) == 2 ? HRN_PROCESS_PROGRESSIVE : HRN_PROCESS_BASELINE;
}

static void read_frame(hrn_facts *facts, int marker, const uint8_t *body, size_t length) {
  facts->process = process_of(marker);
  if (length < 6) return;
  facts->bits = body[0];
  facts->height = read16(body + 1);
  facts->width = read16(body + 3);
  facts->channels = body[5];
}

bool hrn_jpeg_segment_next(const uint8_t *bytes, size_t length, size_t *at, hrn_jpeg_segment *s) {
  while (length - *at >= 2) {
    const size_t begin = *at;
    const int marker = bytes[begin + 1];
    if (bytes[begin] != 0xFF || marker == 0xFF) {
      (*at)++; /* garbage, which libjpeg skips with a warning, or a fill byte */
      continue;
    }
    *at += 2;
    if (marker == 0 || marker == 1 || (marker >= 0xD0 && marker <= 0xD8)) continue; /* no body */
    *s = (hrn_jpeg_segment){.marker = marker, .end = (uint64_t)begin + 2};
    if (marker == JPEG_EOI) return true;
    s->end += 2;
    if (length - begin < 4) {
      *at = length;
      return true;
    }
    const uint32_t size = read16(bytes + begin + 2);
    s->valid = size >= 2;
    if (s->valid) s->end = (uint64_t)begin + 2 + size;
    s->body = bytes + begin + 4;
    *at = s->end < length ? (size_t)s->end : length;
    s->length = (size_t)(bytes + *at - s->body);
    return true;
  }
  return false;
}

void hrn_jpeg_markers(const uint8_t *bytes, size_t length, hrn_facts *facts) {
  static const uint8_t exif[6] = {'E', 'x', 'i', 'f', 0, 0};
  bool seen_exif = false, seen_frame = false;
  hrn_jpeg_segment s;
  size_t at = HRN_JPEG_FIRST_SEGMENT;
  while (hrn_jpeg_segment_next(bytes, length, &at, &s)) {
    if (s.marker == HRN_JPEG_SOS || s.marker == JPEG_EOI || !s.valid) return;
    if (is_frame(s.marker) && !seen_frame) {
      seen_frame = true;
      read_frame(facts, s.marker, s.body, s.length);
    } else if (s.marker == 0xE1 && !seen_exif && s.length > sizeof exif &&
               memcmp(s.body, exif, sizeof exif) == 0) {
      seen_exif = true;
      facts->orientation = hrn_exif_orientation(s.body + sizeof exif, s.length - sizeof exif);
    }
  }
}
