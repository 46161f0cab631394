/* decoder.h: what the files of this package share. */
#ifndef HEADRACE_DECODE_DECODER_H
#define HEADRACE_DECODE_DECODER_H

#include "decode.h"
#include "../bmp/bmp.h"
#include "../gif/gif.h"
#include "../jpeg/jpeg.h"
#include "../png/png.h"
#include "../tiff/tiff.h"
#include "../webp/webp.h"

/* What a PPM's header says, and where its pixels begin. */
typedef struct hrn_ppm {
  const uint8_t *pixels;
  uint32_t width, height;
  uint8_t channels; /* 3, or 1 for a PGM */
  uint8_t orientation;
} hrn_ppm;

/* The record in progress. */
typedef struct hrn_record {
  uint32_t width, height;
  uint8_t codec; /* enum hrn_codec, unknown until a header was read */
  bool fast;     /* hrn_decode_fast was asked for */
  hrn_ppm ppm;
  hrn_raw raw; /* for HRN_CODEC_RAW */
  hrn_webp webp;
  hrn_bmp bmp;
  hrn_gif gif;
  hrn_tiff tiff;
} hrn_record;

/* decode.c: starts work on a record. */
int hrn_decode_begin(hrn_context *context, const uint8_t *bytes, size_t length, hrn_status *status);

/* sniff.c: HRN_OK with a codec that is decoded, HRN_UNSUPPORTED, HRN_TRUNCATED or HRN_BAD. */
int hrn_sniff(const uint8_t *bytes, size_t length, uint8_t *codec, hrn_status *status);

/* ppm.c */
int hrn_ppm_header(hrn_context *context, uint32_t *width, uint32_t *height, hrn_status *status);
int hrn_ppm_window(hrn_context *context, const hrn_box *box, hrn_image *image, hrn_status *status);
int hrn_ppm_inspect(hrn_context *context, hrn_facts *facts, hrn_status *status);

/* raw.c */
int hrn_raw_window(hrn_context *context, const hrn_box *box, hrn_image *image, hrn_status *status);

#endif
