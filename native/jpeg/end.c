/* end.c: says where a truncated JPEG ends, for its error.
 *
 * libjpeg inserts an EOI marker where the bytes end and reports what follows from that, such as an
 * invalid Huffman table or a component that does not exist. The error should say instead that bytes
 * are missing. So when such an error is made, and only then, the segments are followed again to the
 * last byte, without libjpeg.
 */
#include "jpeg.h"

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

int hrn_jpeg_truncated(const hrn_jpeg *jpeg, hrn_status *status) {
  const struct jpeg_decompress_struct *info = &jpeg->info;
  const int64_t offset = (int64_t)jpeg->length;
  const uint32_t rows = info->total_iMCU_rows;
  const uint32_t row = jpeg->dry_row < rows ? jpeg->dry_row + 1 : rows;
  char other[8], scan[24] = "";
  hrn_jpeg_segment last = {0};
  size_t at = HRN_JPEG_FIRST_SEGMENT;
  while (hrn_jpeg_segment_next(jpeg->bytes, jpeg->length, &at, &last)) continue;
  if (last.end > jpeg->length) {
    return hrn_fail(status, HRN_TRUNCATED, offset,
                    "the file is truncated in segment %s (expected at least %llu bytes, found %zu)",
                    name_of(last.marker, other, sizeof other), (unsigned long long)last.end,
                    jpeg->length);
  }
  if (info->input_scan_number == 0) {
    return hrn_fail(status, HRN_TRUNCATED, offset,
                    "the file is truncated before its image data (found %zu bytes)", jpeg->length);
  }
  /* The entropy decoder was done, because libjpeg would have warned otherwise. For arithmetic
   * coding it does not warn. */
  if (!jpeg->truncated && !(info->arith_code && jpeg->dry_row < rows)) {
    return hrn_fail(status, HRN_TRUNCATED, offset,
                    "the file is truncated after scan %d, before all coefficients were sent (found "
                    "%zu bytes)",
                    info->input_scan_number, jpeg->length);
  }
  if (info->input_scan_number > 1) {
    snprintf(scan, sizeof scan, "scan %d, ", info->input_scan_number);
  }
  return hrn_fail(status, HRN_TRUNCATED, offset,
                  "the file is truncated in %srow %u of %u rows of MCUs (found %zu bytes)", scan,
                  row, rows, jpeg->length);
}
