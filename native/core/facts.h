/* facts.h: the facts that a record's header gives. */
#ifndef HEADRACE_CORE_FACTS_H
#define HEADRACE_CORE_FACTS_H

#include <stdint.h>

enum hrn_codec {
  HRN_CODEC_UNKNOWN = 0,
  HRN_CODEC_JPEG = 1,
  HRN_CODEC_PNG = 2,
  HRN_CODEC_PPM = 3, /* binary PPM and PGM of 8 bits: pixels, not coded */
  HRN_CODEC_RAW = 4, /* pixels without a header: part of an array */
  HRN_CODEC_WEBP = 5,
  HRN_CODEC_BMP = 6,
  HRN_CODEC_GIF = 7,
  HRN_CODEC_TIFF = 8
};
enum hrn_sampling {
  HRN_SAMPLING_UNKNOWN = 0,
  HRN_SAMPLING_444 = 1,
  HRN_SAMPLING_422 = 2,
  HRN_SAMPLING_420 = 3,
  HRN_SAMPLING_440 = 4,
  HRN_SAMPLING_411 = 5,
  HRN_SAMPLING_GREY = 6,
  HRN_SAMPLING_OTHER = 7
};
enum hrn_process { /* how the entropy data is coded */
                   HRN_PROCESS_UNKNOWN = 0,
                   HRN_PROCESS_BASELINE = 1, /* SOF0 and sequential Huffman SOF1 */
                   HRN_PROCESS_PROGRESSIVE = 2,
                   HRN_PROCESS_ARITHMETIC = 3,
                   HRN_PROCESS_LOSSLESS = 4,
                   HRN_PROCESS_PNG = 5,
                   HRN_PROCESS_PNG_INTERLACED = 6,
                   HRN_PROCESS_RAW = 7, /* not coded */
                   HRN_PROCESS_WEBP = 8,
                   HRN_PROCESS_WEBP_LOSSLESS = 9,
                   HRN_PROCESS_RLE = 10,    /* of a BMP */
                   HRN_PROCESS_LZW = 11,    /* of a GIF or TIFF */
                   HRN_PROCESS_DEFLATE = 12 /* of a TIFF */
};

/* How much of a record an inspection reads. */
enum hrn_depth { HRN_HEADER = 0, HRN_ENTROPY = 1 };

/* MCUs from one seek point to the next, in a row. */
#define HRN_SEEK_STEP 8

typedef struct hrn_facts {
  uint32_t width, height;    /* pixels; 0 if the header could not be read */
  uint32_t restart_interval; /* MCUs, 0 for none */
  uint32_t scan_offset; /* offset of the first scan's first entropy-coded byte; 0 except for JPEG */
  uint32_t crc32c;      /* of all bytes, whatever the verdict */
  uint32_t scans;       /* counted when the entropy data was read */
  uint8_t codec, sampling, process;
  uint8_t channels;    /* components of a pixel as stored: 1, 2, 3, 4 */
  uint8_t bits;        /* bits of a sample */
  uint8_t orientation; /* EXIF 1-8, 0 if there is none or it is out of range */
} hrn_facts;

#endif
