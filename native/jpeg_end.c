/* jpeg_end.c: says where the bytes of a JPEG end that has lost its end.
 *
 * libjpeg invents an EOI there and then says whatever that comes to: a Huffman table that is none,
 * a component that does not exist. Who reads the sentence is to learn that bytes are missing. So
 * the segments are followed to the last byte once more, without libjpeg, on the way to an error
 * alone.
 */
#include "decoder.h"

static uint32_t read16(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }

static const char *name_of(int marker, char *other, size_t size) {
  switch (marker) {
    case 0xC4:
      return "DHT";
    case 0xCC:
      return "DAC";
    case 0xDA:
      return "SOS";
    case 0xDB:
      return "DQT";
    case 0xDC:
      return "DNL";
    case 0xDD:
      return "DRI";
    case 0xFE:
      return "COM";
    default:
      break;
  }
  if (marker >= 0xC0 && marker <= 0xCF) {
    snprintf(other, size, "SOF%d", marker - 0xC0);
  } else if (marker >= 0xE0 && marker <= 0xEF) {
    snprintf(other, size, "APP%d", marker - 0xE0);
  } else {
    snprintf(other, size, "0x%02X", (unsigned)marker);
  }
  return other;
}

/* The segment that the bytes end in: its marker, and in *expected the bytes that there would be
 * with the whole of it, or of its length. 0 where they end elsewhere. What is no marker is passed
 * over, as libjpeg does, and that covers entropy-coded data. */
static int last_segment(const uint8_t *bytes, size_t length, uint64_t *expected) {
  size_t at = 2; /* behind SOI */
  while (length - at >= 2) {
    const int marker = bytes[at + 1];
    if (bytes[at] != 0xFF || marker == 0xFF) {
      at++;
      continue;
    }
    const bool bare = marker == 0 || marker == 1 || (marker >= 0xD0 && marker <= 0xD9);
    if (bare) {
      at += 2;
      continue;
    }
    *expected = (uint64_t)at + 4;
    if (length - at < 4) return marker;
    const uint32_t size = read16(bytes + at + 2);
    *expected = (uint64_t)at + 2 + (size < 2 ? 2 : size);
    if (*expected > length) return marker;
    at = (size_t)*expected;
  }
  return 0;
}

int hrn_jpeg_truncated(const hrn_jpeg *jpeg, hrn_status *status) {
  const struct jpeg_decompress_struct *info = &jpeg->info;
  const int64_t offset = (int64_t)jpeg->length;
  const uint32_t rows = info->total_iMCU_rows;
  const uint32_t row = jpeg->dry_row < rows ? jpeg->dry_row + 1 : rows;
  char other[8], scan[24] = "";
  uint64_t expected;
  const int marker = last_segment(jpeg->bytes, jpeg->length, &expected);
  if (marker != 0) {
    return hrn_fail(status, HRN_TRUNCATED, offset,
                    "the file is truncated in segment %s (expected at least %llu bytes, found %zu)",
                    name_of(marker, other, sizeof other), (unsigned long long)expected,
                    jpeg->length);
  }
  if (info->input_scan_number == 0) {
    return hrn_fail(status, HRN_TRUNCATED, offset,
                    "the file is truncated before its image data (found %zu bytes)", jpeg->length);
  }
  /* The entropy decoder was done, or the library would have said so. An arithmetic one never does.
   */
  if (!jpeg->truncated && !info->arith_code) {
    return hrn_fail(status, HRN_TRUNCATED, offset,
                    "the file is truncated after scan %d, before all coefficients were sent (found "
                    "%zu bytes)",
                    info->input_scan_number, jpeg->length);
  }
  if (info->input_scan_number > 1) {
    snprintf(scan, sizeof scan, "scan %d, ", info->input_scan_number);
  }
  /* It reads ahead, too. */
  return hrn_fail(status, HRN_TRUNCATED, offset,
                  "the file is truncated %s %srow %u of %u rows of MCUs (found %zu bytes)",
                  info->arith_code ? "in or behind" : "in", scan, row, rows, jpeg->length);
}
