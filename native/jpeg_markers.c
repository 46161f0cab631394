/* jpeg_markers.c: what the marker segments before the first scan say, read without libjpeg.
 *
 * libjpeg refuses lossless and 12-bit files before it tells their size, and keeps EXIF only as a
 * copy. This walk fills the facts of those files, too. Where libjpeg accepts a file its values
 * replace these.
 */
#include "decoder.h"

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

void hrn_jpeg_markers(const uint8_t *bytes, size_t length, hrn_facts *facts) {
  static const uint8_t exif[6] = {'E', 'x', 'i', 'f', 0, 0};
  bool seen_exif = false, seen_frame = false;
  size_t at = 2; /* behind SOI */
  while (length - at >= 4) {
    if (bytes[at] != 0xFF) {
      at++; /* garbage between segments: libjpeg skips it with a warning */
      continue;
    }
    int marker = bytes[at + 1];
    if (marker == 0xFF || marker == 0 || marker == 1 || (marker >= 0xD0 && marker <= 0xD8)) {
      at += marker == 0xFF ? 1 : 2; /* fill bytes, and markers without a body */
      continue;
    }
    if (marker == 0xDA || marker == 0xD9) return; /* SOS, EOI */
    size_t size = read16(bytes + at + 2), left = length - at - 2;
    if (size < 2) return;
    const uint8_t *body = bytes + at + 4;
    size_t body_length = (size < left ? size : left) - 2;
    if (is_frame(marker) && !seen_frame) {
      seen_frame = true;
      read_frame(facts, marker, body, body_length);
    } else if (marker == 0xE1 && !seen_exif && body_length > sizeof exif &&
               memcmp(body, exif, sizeof exif) == 0) {
      seen_exif = true;
      facts->orientation = hrn_exif_orientation(body + sizeof exif, body_length - sizeof exif);
    }
    if (size > left) return;
    at += 2 + size;
  }
}
