/* directory.c: reads the first directory of a TIFF (TIFF 6.0, section 2).
 *
 * It accepts what datasets of photographs contain: samples of up to 8 bits, in strips. For
 * everything else there is an error that names it, so that the caller can let Pillow read the file.
 * That includes a field of an unusual type, on which readers do not agree.
 */
#include <string.h>

#include "tiff.h"

/* Types of values: 16 and 32 bits without a sign. */
enum { TYPE_SHORT = 3, TYPE_LONG = 4 };

/* Fields, by their tags (TIFF 6.0, appendix A; tiles, section 15). */
enum {
  TAG_WIDTH = 256,
  TAG_HEIGHT = 257,
  TAG_BITS = 258,
  TAG_COMPRESSION = 259,
  TAG_PHOTOMETRIC = 262,
  TAG_FILL_ORDER = 266,
  TAG_OFFSETS = 273,
  TAG_ORIENTATION = 274,
  TAG_SAMPLES = 277,
  TAG_ROWS_PER_STRIP = 278,
  TAG_LENGTHS = 279,
  TAG_PLANAR = 284,
  TAG_PREDICTOR = 317,
  TAG_COLOURS = 320,
  TAG_TILE_WIDTH = 322,
  TAG_TILE_HEIGHT = 323,
  TAG_TILE_OFFSETS = 324,
  TAG_TILE_LENGTHS = 325,
  TAG_EXTRA = 338,
  TAG_FORMAT = 339,
  TAG_WINDOWS_PHOTO = 0xBC01
};

/* The header says the order of bytes for the whole file: "MM" is big-endian. */
static uint32_t read16(const uint8_t *p, bool big) {
  return big ? (uint32_t)p[0] << 8 | p[1] : (uint32_t)p[1] << 8 | p[0];
}

static uint32_t read32(const uint8_t *p, bool big) {
  return big ? read16(p, big) << 16 | read16(p + 2, big)
             : read16(p + 2, big) << 16 | read16(p, big);
}

uint32_t hrn_tiff_value(const hrn_tiff *tiff, const hrn_tiff_values *values, uint32_t number) {
  const uint8_t *p = values->at + (size_t)number * values->bytes;
  return values->bytes == 2 ? read16(p, tiff->big) : read32(p, tiff->big);
}

/* Finds an entry's values. They are in the entry itself if they fit its last four bytes. */
static int read_values(const hrn_tiff *tiff, const uint8_t *entry, hrn_tiff_values *values,
                       hrn_status *status) {
  const uint32_t tag = read16(entry, tiff->big), type = read16(entry + 2, tiff->big);
  const uint32_t count = read32(entry + 4, tiff->big);
  const int64_t place = entry - tiff->bytes;
  if (type != TYPE_SHORT && type != TYPE_LONG) {
    return hrn_fail(status, HRN_UNSUPPORTED, place, "TIFF whose field %u is of type %u", tag, type);
  }
  if (values->at != NULL || count == 0) {
    return hrn_fail(
        status, HRN_UNSUPPORTED, place,
        values->at != NULL ? "TIFF that has field %u twice" : "TIFF whose field %u is empty", tag);
  }
  const uint32_t bytes = type == TYPE_SHORT ? 2 : 4;
  const uint64_t total = (uint64_t)count * bytes, at = read32(entry + 8, tiff->big);
  if (total > 4 && (at > tiff->length || total > tiff->length - at)) {
    return hrn_fail(status, HRN_TRUNCATED, (int64_t)tiff->length,
                    "the file is truncated before the values of field %u (expected %llu bytes, "
                    "found %zu)",
                    tag, (unsigned long long)(at + total), tiff->length);
  }
  *values = (hrn_tiff_values){total > 4 ? tiff->bytes + at : entry + 8, count, bytes};
  return HRN_OK;
}

/* Fields of the first directory that are looked at. */
typedef struct fields {
  hrn_tiff_values width, height, bits, compression, photometric, fill_order, offsets, orientation,
      samples, rows, lengths, planar, predictor, colours, extra, format;
  bool tiles, windows_photo;
} fields;

/* Where the values of a tag go; NULL if it is not looked at. */
static hrn_tiff_values *field_of(fields *f, uint32_t tag) {
  switch (tag) {
    case TAG_WIDTH:
      return &f->width;
    case TAG_HEIGHT:
      return &f->height;
    case TAG_BITS:
      return &f->bits;
    case TAG_COMPRESSION:
      return &f->compression;
    case TAG_PHOTOMETRIC:
      return &f->photometric;
    case TAG_FILL_ORDER:
      return &f->fill_order;
    case TAG_OFFSETS:
      return &f->offsets;
    case TAG_ORIENTATION:
      return &f->orientation;
    case TAG_SAMPLES:
      return &f->samples;
    case TAG_ROWS_PER_STRIP:
      return &f->rows;
    case TAG_LENGTHS:
      return &f->lengths;
    case TAG_PLANAR:
      return &f->planar;
    case TAG_PREDICTOR:
      return &f->predictor;
    case TAG_COLOURS:
      return &f->colours;
    case TAG_EXTRA:
      return &f->extra;
    case TAG_FORMAT:
      return &f->format;
    default:
      return NULL;
  }
}

/* Goes through the directory: a count, and entries of 12 bytes (tag, type, count, values or their
 * offset). Every offset is compared with the length before it is used. */
static int read_fields(hrn_tiff *tiff, fields *f, hrn_status *status) {
  const size_t length = tiff->length;
  if (length < 8) {
    return hrn_fail(status, HRN_TRUNCATED, (int64_t)length,
                    "the file is truncated in its header (expected 8 bytes, found %zu)", length);
  }
  const size_t at = read32(tiff->bytes + 4, tiff->big);
  const size_t count = at <= length - 2 ? read16(tiff->bytes + at, tiff->big) : 0;
  if (at > length - 2 || count * 12 > length - at - 2) {
    return hrn_fail(status, HRN_TRUNCATED, (int64_t)length,
                    "the file is truncated in its directory (expected %zu bytes, found %zu)",
                    at + 2 + 12 * count, length);
  }
  for (size_t i = 0; i < count; i++) {
    const uint8_t *entry = tiff->bytes + at + 2 + 12 * i;
    const uint32_t tag = read16(entry, tiff->big);
    hrn_tiff_values *values = field_of(f, tag);
    f->tiles = f->tiles || (tag >= TAG_TILE_WIDTH && tag <= TAG_TILE_LENGTHS);
    f->windows_photo = f->windows_photo || tag == TAG_WINDOWS_PHOTO;
    if (values != NULL && read_values(tiff, entry, values, status) != HRN_OK) return status->code;
  }
  return HRN_OK;
}

/* The first value of a field, or the standard's default if the field is absent. */
static uint32_t first(const hrn_tiff *tiff, const hrn_tiff_values *values, uint32_t otherwise) {
  return values->at != NULL ? hrn_tiff_value(tiff, values, 0) : otherwise;
}

/* Whether all values of a field are this one. True if the field is absent. */
static bool all(const hrn_tiff *tiff, const hrn_tiff_values *values, uint32_t value) {
  for (uint32_t i = 0; values->at != NULL && i < values->count; i++) {
    if (hrn_tiff_value(tiff, values, i) != value) return false;
  }
  return true;
}

static int unsupported(hrn_status *status, const char *what, uint32_t number) {
  return hrn_fail(status, HRN_UNSUPPORTED, -1, "TIFF with %s %u", what, number);
}

/* Bits and samples of a pixel: the common combinations of Pillow's TiffImagePlugin.OPEN_INFO. */
static int read_layout(hrn_tiff *tiff, const fields *f, hrn_status *status) {
  const uint32_t extra = f->extra.at != NULL ? f->extra.count : 0;
  const uint32_t kind = extra > 0 ? first(tiff, &f->extra, 0) : 0;
  tiff->bits = first(tiff, &f->bits, 1);
  tiff->samples = first(tiff, &f->samples, 1);
  tiff->photometric = first(tiff, &f->photometric, 0);
  const uint32_t colours = tiff->photometric == TIFF_RGB    ? 3
                           : tiff->photometric == TIFF_CMYK ? 4
                                                            : 1;
  if (tiff->photometric > TIFF_PALETTE && tiff->photometric != TIFF_CMYK) {
    return unsupported(status, "photometric interpretation", tiff->photometric);
  }
  if (!all(tiff, &f->bits, tiff->bits) ||
      (f->bits.at != NULL && f->bits.count != 1 && f->bits.count != tiff->samples)) {
    return unsupported(status, "other numbers of bits in a pixel beside", tiff->bits);
  }
  if (tiff->bits != 8 &&
      (tiff->samples != 1 || (tiff->bits != 1 && tiff->bits != 2 && tiff->bits != 4))) {
    return unsupported(status, "a number of bits a sample of", tiff->bits);
  }
  /* ExtraSamples (section 18): 0 is unspecified, 2 is alpha that the colours are independent of.
   * With 1 the colours were multiplied by alpha, and would have to be divided by it. */
  const bool alpha = tiff->samples == colours + 1 && extra <= 1 && tiff->photometric != TIFF_CMYK &&
                     tiff->photometric != TIFF_WHITE_IS_ZERO && tiff->photometric != TIFF_PALETTE &&
                     (extra == 1 ? kind == 0 || kind == 2 : tiff->photometric == TIFF_RGB);
  if (!alpha && (tiff->samples != colours || extra != 0)) {
    return unsupported(status, "samples a pixel, of this kind or number:", tiff->samples);
  }
  if (tiff->photometric != TIFF_PALETTE) return HRN_OK;
  /* Three values for each index, all reds first (section 5). */
  tiff->colours = f->colours;
  if (f->colours.at == NULL || f->colours.bytes != 2 || f->colours.count != 3u << tiff->bits) {
    return unsupported(status, "a palette whose values number", f->colours.count);
  }
  return HRN_OK;
}

/* Whether the samples of a pixel are side by side, or each kind is in a plane of its own. What
 * Pillow does with planes depends on the compression, because it has two readers: its own for raw
 * strips, and libtiff. Pillow's own reader ignores a plane without a colour; libtiff refuses it.
 * Alpha that the file does not declare counts as multiplied into the colours. */
static int read_planes(hrn_tiff *tiff, const fields *f, hrn_status *status) {
  const uint32_t planar = first(tiff, &f->planar, 1),
                 colours = tiff->photometric == TIFF_CMYK ? 4 : 3;
  tiff->planes = 1;
  if (!all(tiff, &f->planar, planar) || planar < 1 || planar > 2) {
    return unsupported(status, "planar configuration", planar);
  }
  if (planar == 1) return HRN_OK;
  const bool raw = tiff->compression == TIFF_RAW;
  if (tiff->samples == 1) {
    /* With planes, Pillow takes the first letter of its name for such pixels as the name of each
     * plane, so only names of one letter are right. */
    const bool grey =
        tiff->photometric == TIFF_BLACK_IS_ZERO && (tiff->bits == 1 || tiff->bits == 8);
    const bool plain = grey || (tiff->photometric == TIFF_PALETTE && tiff->bits == 8);
    if (!raw || (plain && first(tiff, &f->fill_order, 1) == 1)) return HRN_OK;
    return unsupported(status, "planes apart, of bits", tiff->bits);
  }
  const bool named = f->extra.at != NULL, unnamed = named && first(tiff, &f->extra, 0) == 0;
  if (tiff->samples < colours || (tiff->samples > colours && (raw ? unnamed : !named))) {
    return unsupported(status, "planes apart, of this kind or number:", tiff->samples);
  }
  /* Alpha is decoded as well, though not used, because a file whose alpha is truncated is
   * truncated. */
  tiff->planes = tiff->samples > colours && !unnamed ? colours + 1 : colours;
  return HRN_OK;
}

/* FillOrder 2 means that the bits of each byte are in reverse order. It is accepted where Pillow
 * reverses them. */
static int read_fill_order(hrn_tiff *tiff, const fields *f, hrn_status *status) {
  const uint32_t order = first(tiff, &f->fill_order, 1);
  const bool raw = tiff->compression == TIFF_RAW;
  const bool white = tiff->photometric == TIFF_WHITE_IS_ZERO && tiff->bits == 8;
  const bool palette = tiff->photometric == TIFF_PALETTE && tiff->bits != 8;
  const uint32_t samples = tiff->photometric == TIFF_RGB ? 3 : 1;
  if (!all(tiff, &f->fill_order, order) || order < 1 || order > 2 ||
      (order == 2 &&
       (tiff->samples != samples || tiff->planes != 1 || (raw && (white || palette))))) {
    return unsupported(status, "order of bits", order);
  }
  tiff->reversed = order == 2;
  return HRN_OK;
}

/* Finds the strips. By default RowsPerStrip is the whole image. Each plane has strips of its own
 * (section 8). The lengths of raw strips follow from the rows; compressed strips need a length
 * each. */
static int read_strips(hrn_tiff *tiff, const fields *f, hrn_status *status) {
  tiff->rows_per_strip = first(tiff, &f->rows, tiff->height);
  tiff->offsets = f->offsets;
  tiff->lengths = f->lengths;
  if (f->offsets.at == NULL) return hrn_fail(status, HRN_BAD, -1, "the TIFF has no strips");
  if (tiff->rows_per_strip == 0) return unsupported(status, "rows a strip of", 0);
  if (tiff->rows_per_strip > tiff->height) tiff->rows_per_strip = tiff->height;
  uint64_t strips = (tiff->height - 1) / tiff->rows_per_strip + 1;
  if (tiff->planes > 1) strips *= tiff->samples;
  if (f->offsets.count != strips)
    return unsupported(status, "strips whose number is not that of its rows:", f->offsets.count);
  if (tiff->compression != TIFF_RAW && (f->lengths.at == NULL || f->lengths.count != strips)) {
    return unsupported(status, "lengths of strips whose number is", f->lengths.count);
  }
  return HRN_OK;
}

int hrn_tiff_read_directory(hrn_tiff *tiff, const uint8_t *bytes, size_t length,
                            hrn_status *status) {
  fields f;
  memset(&f, 0, sizeof f);
  memset(tiff, 0, sizeof *tiff);
  tiff->bytes = bytes;
  tiff->length = length;
  tiff->big = bytes[0] == 'M';
  if (read_fields(tiff, &f, status) != HRN_OK) return status->code;
  if (f.tiles) return hrn_fail(status, HRN_UNSUPPORTED, -1, "tiled TIFF");
  if (f.windows_photo || f.width.at == NULL || f.height.at == NULL) {
    return hrn_fail(status, f.windows_photo ? HRN_UNSUPPORTED : HRN_BAD, -1,
                    f.windows_photo ? "TIFF of Windows Media Photo" : "the TIFF has no size");
  }
  tiff->width = first(tiff, &f.width, 0);
  tiff->height = first(tiff, &f.height, 0);
  tiff->compression = first(tiff, &f.compression, TIFF_RAW);
  tiff->predictor = first(tiff, &f.predictor, 1);
  if (tiff->compression == TIFF_OLD_DEFLATE) tiff->compression = TIFF_DEFLATE;
  if (tiff->width == 0 || tiff->height == 0) {
    return hrn_fail(status, HRN_BAD, -1, "the image has %u x %u pixels", tiff->width, tiff->height);
  }
  if (f.width.count != 1 || f.height.count != 1)
    return unsupported(status, "sides, their number:", f.width.count);
  if (tiff->compression != TIFF_RAW && tiff->compression != TIFF_LZW &&
      tiff->compression != TIFF_DEFLATE) {
    return unsupported(status, "compression", tiff->compression);
  }
  if (!all(tiff, &f.format, 1))
    return unsupported(status, "sample format", first(tiff, &f.format, 1));
  /* Pillow turns a TIFF by its orientation when it is opened, but no other kind of file. It ignores
   * values that are not defined, and so do we. */
  tiff->orientation = first(tiff, &f.orientation, 1);
  if (!all(tiff, &f.orientation, tiff->orientation) || f.orientation.count > 1)
    return unsupported(status, "orientations, the first of which is", tiff->orientation);
  if (tiff->orientation < 1 || tiff->orientation > 8) tiff->orientation = 1;
  if (read_layout(tiff, &f, status) != HRN_OK || read_planes(tiff, &f, status) != HRN_OK ||
      read_fill_order(tiff, &f, status) != HRN_OK) {
    return status->code;
  }
  if (tiff->predictor != 1 &&
      (tiff->predictor != 2 || tiff->bits != 8 || tiff->compression == TIFF_RAW)) {
    return unsupported(status, "predictor", tiff->predictor);
  }
  return read_strips(tiff, &f, status);
}
