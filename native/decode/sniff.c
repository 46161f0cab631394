/* sniff.c: finds what kind of file the bytes are, by content, never by name.
 *
 * Datasets hold PNGs named .JPEG, web pages saved as .jpg, and archives that nobody unpacked. JPEG,
 * PNG, WebP, GIF, BMP, TIFF and binary PPM are decoded. A type that is recognised but not read is
 * *unsupported*, and the error names it so that a user knows what to convert. Everything else is
 * *bad*.
 */
#include "decoder.h"

#include <string.h>

/* Bytes at a place in the file that tell a type. */
typedef struct signature {
  uint16_t offset;
  uint8_t length;
  const char *bytes;
  const char *name;
} signature;

/* The first signature that fits wins, so longer ones stand before those that they contain. The list
 * is searched only if the file is of no type that is read, so its length costs nothing. It names
 * types that image folders and archives were seen to hold, only for the error, never to decode
 * them. */
static const signature signatures[] = {
    {8, 4, "WAVE", "WAV"},
    {8, 4, "AVI ", "AVI"},
    {0, 4, "II+\0", "BigTIFF"},
    {0, 4, "MM\0+", "BigTIFF"},
    {0, 12, "\0\0\0\x0CjP  \r\n\x87\n", "JPEG 2000"},
    {0, 4, "\xFF\x4F\xFF\x51", "JPEG 2000 codestream"},
    {0, 12, "\0\0\0\x0CJXL \r\n\x87\n", "JPEG XL"},
    {0, 2, "\xFF\x0A", "JPEG XL codestream"},
    {0, 3, "II\xBC", "JPEG XR"},
    {4, 8, "ftypavif", "AVIF"},
    {4, 8, "ftypavis", "AVIF"},
    {4, 8, "ftypheic", "HEIC"},
    {4, 8, "ftypheix", "HEIC"},
    {4, 8, "ftyphevc", "HEIC"},
    {4, 8, "ftypmif1", "HEIF"},
    {4, 8, "ftypmsf1", "HEIF"},
    {4, 4, "ftyp", "MP4"},
    {0, 4, "\0\0\1\0", "ICO"},
    {0, 4, "\0\0\2\0", "CUR"},
    {0, 4, "8BPS", "Photoshop"},
    {0, 4, "qoif", "QOI"},
    {0, 4, "DDS ", "DDS"},
    {0, 4, "\x76\x2F\x31\x01", "OpenEXR"},
    {0, 10, "#?RADIANCE", "Radiance HDR"},
    {0, 8, "\x8AMNG\r\n\x1A\n", "MNG"},
    {0, 5, "%PDF-", "PDF"},
    {0, 4, "%!PS", "PostScript"},
    {257, 5, "ustar", "tar archive"},
    {0, 2, "\x1F\x8B", "gzip"},
    {0, 4, "PK\3\4", "zip archive"},
    {0, 4, "\x28\xB5\x2F\xFD", "Zstandard"},
    {0, 6, "\xFD\x37zXZ\0", "xz"},
    {0, 3, "BZh", "bzip2"},
    {0, 6, "7z\xBC\xAF\x27\x1C", "7z archive"},
    {0, 8, "\x89HDF\r\n\x1A\n", "HDF5"},
    {0, 6, "\x93NUMPY", "NumPy array"},
    {0, 5, "<?xml", "XML or SVG"},
    {0, 4, "<svg", "SVG"},
    {0, 9, "<!DOCTYPE", "HTML"},
    {0, 9, "<!doctype", "HTML"},
    {0, 5, "<html", "HTML"},
};

/* memcmp that does not look behind the end. */
static bool starts(const uint8_t *bytes, size_t length, size_t offset, const void *with,
                   size_t count) {
  return length >= offset + count && memcmp(bytes + offset, with, count) == 0;
}

/* Netpbm: P1 to P7 and white space. Two letters alone are not enough to recognise a type. */
static bool netpbm(const uint8_t *bytes, size_t length) {
  return length > 2 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '7' &&
         (bytes[2] == ' ' || (bytes[2] >= '\t' && bytes[2] <= '\r'));
}

#define READ "only JPEG, PNG, WebP, GIF, BMP, TIFF and binary PPM are"

/* Whether a file that is shorter than a type's signature begins as that does. */
static bool begins(const uint8_t *bytes, size_t length, const char *signature, size_t whole) {
  return length < whole && memcmp(bytes, signature, length) == 0;
}

/* The same for WebP: any four bytes, a size, stand inside its signature. */
static bool begins_webp(const uint8_t *bytes, size_t length) {
  return begins(bytes, length, "RIFF", 4) ||
         (length < 15 && starts(bytes, length, 0, "RIFF", 4) &&
          (length <= 8 || begins(bytes + 8, length - 8, "WEBPVP8", 7)));
}

/* Fails if the file is empty, or ends inside the signature of a type that is read. */
static int cut_in_signature(const uint8_t *bytes, size_t length, hrn_status *status) {
  size_t expected = 0;
  if (length == 0) {
    return hrn_fail(status, HRN_TRUNCATED, 0, "the file is truncated, it is empty (found 0 bytes)");
  }
  if (begins(bytes, length, "\xFF\xD8\xFF", 3)) expected = 3;
  if (begins(bytes, length, "P5", 3) || begins(bytes, length, "P6", 3)) expected = 3;
  if (begins(bytes, length, "\x89PNG\r\n\x1A\n", 8)) expected = 8;
  if (begins_webp(bytes, length)) expected = 15;
  if (begins(bytes, length, "GIF87a", 6) || begins(bytes, length, "GIF89a", 6)) expected = 6;
  if (begins(bytes, length, "II*\0", 4) || begins(bytes, length, "MM\0*", 4)) expected = 4;
  if (begins(bytes, length, "BM", 2)) expected = 2;
  if (expected == 0) return HRN_OK;
  return hrn_fail(status, HRN_TRUNCATED, (int64_t)length,
                  "the file is truncated in its signature (expected at least %zu bytes, found %zu)",
                  expected, length);
}

/* JPEG and PNG come first, because nearly all files are one of them. */
int hrn_sniff(const uint8_t *bytes, size_t length, uint8_t *codec, hrn_status *status) {
  *codec = HRN_CODEC_UNKNOWN;
  /* Three bytes, as Pillow demands: SOI and the start of a marker. */
  if (starts(bytes, length, 0, "\xFF\xD8\xFF", 3)) {
    *codec = HRN_CODEC_JPEG;
    return HRN_OK;
  }
  if (starts(bytes, length, 0, "\x89PNG\r\n\x1A\n", 8)) {
    *codec = HRN_CODEC_PNG;
    return HRN_OK;
  }
  if (starts(bytes, length, 0, "RIFF", 4) && starts(bytes, length, 8, "WEBPVP8", 7)) {
    *codec = HRN_CODEC_WEBP;
    return HRN_OK;
  }
  if (starts(bytes, length, 0, "GIF87a", 6) || starts(bytes, length, 0, "GIF89a", 6)) {
    *codec = HRN_CODEC_GIF;
    return HRN_OK;
  }
  if (starts(bytes, length, 0, "II*\0", 4) || starts(bytes, length, 0, "MM\0*", 4)) {
    *codec = HRN_CODEC_TIFF;
    return HRN_OK;
  }
  if (starts(bytes, length, 0, "BM", 2)) {
    *codec = HRN_CODEC_BMP;
    return HRN_OK;
  }
  if (netpbm(bytes, length) && (bytes[1] == '5' || bytes[1] == '6')) {
    *codec = HRN_CODEC_PPM;
    return HRN_OK;
  }
  if (cut_in_signature(bytes, length, status) != HRN_OK) return status->code;
  for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++) {
    const signature *s = &signatures[i];
    if (starts(bytes, length, s->offset, s->bytes, s->length)) {
      return hrn_fail(status, HRN_UNSUPPORTED, 0, "%s is not read, " READ, s->name);
    }
  }
  if (netpbm(bytes, length)) {
    return hrn_fail(status, HRN_UNSUPPORTED, 0, "Netpbm of type P%c is not read, " READ, bytes[1]);
  }
  return hrn_fail(
      status, HRN_BAD, 0,
      "neither JPEG, PNG, WebP, GIF, BMP, TIFF nor PPM, nor any other known type of image");
}
