/* inspect.c: finds what a record is, and whether it is good, without making pixels. */
#include <pthread.h>
#include <string.h>

#include "../core/crc32c.h"
#include "decoder.h"
#include "../jpeg/hook.h"

static int inspect(hrn_context *context, const uint8_t *bytes, size_t length, int depth,
                   uint32_t seek_step, hrn_facts *facts, hrn_status *status) {
  hrn_status_clear(status);
  memset(facts, 0, sizeof *facts);
  /* The checksum comes before any verdict: whatever a record is, it says whether the record is
   * still the same. */
  facts->crc32c = hrn_crc32c(0, bytes, length);
  if (hrn_decode_begin(context, bytes, length, status) != HRN_OK) return status->code;
  context->jpeg->seek_step = seek_step;

  uint8_t codec;
  if (hrn_sniff(bytes, length, &codec, status) != HRN_OK) return status->code;
  facts->codec = codec;
  hrn_record *record = context->record;
  switch (codec) {
    case HRN_CODEC_JPEG:
      return hrn_jpeg_inspect(context, depth, facts, status);
    case HRN_CODEC_PNG:
      return hrn_png_inspect(context, depth, facts, status);
    case HRN_CODEC_WEBP:
      return hrn_webp_inspect(context, &record->webp, depth, facts, status);
    case HRN_CODEC_BMP:
      return hrn_bmp_inspect(context, &record->bmp, depth, facts, status);
    case HRN_CODEC_GIF:
      return hrn_gif_inspect(context, &record->gif, depth, facts, status);
    case HRN_CODEC_TIFF:
      return hrn_tiff_inspect(context, &record->tiff, depth, facts, status);
    default:
      return hrn_ppm_inspect(context, facts, status);
  }
}

int hrn_inspect(hrn_context *context, const uint8_t *bytes, size_t length, int depth,
                hrn_facts *facts, hrn_status *status) {
  return inspect(context, bytes, length, depth, 0, facts, status);
}

int hrn_inspect_seek(hrn_context *context, const uint8_t *bytes, size_t length, uint32_t step,
                     hrn_facts *facts, const uint8_t **seek, size_t *seek_length,
                     hrn_status *status) {
  inspect(context, bytes, length, HRN_ENTROPY, step, facts, status);
  *seek = context->jpeg->seek;
  *seek_length = context->jpeg->seek != NULL ? context->jpeg->seek_length : 0;
  return status->code;
}

#define STRING(x) #x
#define EXPANDED(x) STRING(x)

/* The libraries are static archives, so the versions of the headers are those that are linked. */
#define VERSIONS "libjpeg-turbo " EXPANDED(LIBJPEG_TURBO_VERSION) ", zlib " ZLIB_VERSION

static char versions[200];

static void add_refusal(void) {
  const char *refusal = hrn_hook_refusal();
  const char *webp = hrn_webp_version();
  if (refusal != NULL) {
    snprintf(versions, sizeof versions,
             VERSIONS ", libwebp %s; seek points are not used, libjpeg: %s", webp, refusal);
  } else if (hrn_planes_refused()) {
    snprintf(versions, sizeof versions,
             VERSIONS ", libwebp %s; libjpeg makes the pixels: its own differ", webp);
  } else {
    snprintf(versions, sizeof versions, VERSIONS ", libwebp %s", webp);
  }
}

const char *hrn_library_versions(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, add_refusal);
  return versions;
}
