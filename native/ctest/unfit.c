/* unfit.c: a libjpeg that the hook does not fit must decode alone, and a libjpeg whose pixels
 * differ from ours must make all pixels. Both must be reported.
 *
 *   unfit [planes]
 *
 * Between the hook and libjpeg's decoder, the linker (--wrap) puts a decoder that spoils one
 * coefficient, as a library would that passes its blocks in another way. The hook's check must
 * notice that, and no pixel of any window may be wrong. With `planes` it is an inverse DCT that
 * spoils one sample of each call.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../jpeg/hook.h"
#include "reference.h"

static int spoilt, seen;
static bool spoils_planes;

void __real_hrn_decode_segments(const hrn_mcu *mcu, hrn_segment *first, hrn_segment *second);
void __wrap_hrn_decode_segments(const hrn_mcu *mcu, hrn_segment *first, hrn_segment *second) {
  /* That of the last MCU, which is always inside the window. */
  int16_t *const block =
      second->blocks + (size_t)(second->mcus - 1) * (size_t)mcu->blocks * HRN_BLOCK;
  __real_hrn_decode_segments(mcu, first, second);
  seen++;
  if (spoils_planes) return;
  block[1] = (int16_t)(block[1] + 40);
  spoilt++;
}

#if defined(__x86_64__)
void __real_hrn_idct_avx2(const hrn_block_pairs *, const int16_t *, uint8_t *, size_t);
void __wrap_hrn_idct_avx2(const hrn_block_pairs *pairs, const int16_t *quantisation, uint8_t *rows,
                          size_t stride) {
  __real_hrn_idct_avx2(pairs, quantisation, rows, stride);
  if (!spoils_planes || pairs->count == 0) return;
  rows[4 * stride + 9] ^= 64;
  spoilt++;
}
#endif

int main(int count, char **arguments) {
  spoils_planes = count > 1 && strcmp(arguments[1], "planes") == 0;
  if (spoils_planes && hrn_plane_kernels_chosen() == NULL) {
    puts("libjpeg makes the pixels here");
    return 0;
  }
  const char *expected = spoils_planes ? "libjpeg makes the pixels: its own differ"
                                       : "seek points are not used, libjpeg: its pixels differ";
  random_state r = random_seeded(1);
  hrn_context *context = hrn_context_new(NULL);
  int different = strstr(hrn_library_versions(), expected) == NULL;
  if (different) printf("not noticed: %s\n", hrn_library_versions());
  if (spoilt == 0)
    printf("the check did not use %s\n", spoils_planes ? "ours" : "points"), different++;
  spoilt = seen = 0;
  for (int n = 0; n < 40; n++) {
    image_bytes file =
        make_jpeg(&r, &jpeg_forms[n % jpeg_form_count], CODING_BASELINE, 0, 150, 90, 80);
    if (file.length == 0) continue;
    reference whole = reference_decode(&file);
    const hrn_box box = {20, 30, 100, 50};
    hrn_image image;
    hrn_status status;
    uint32_t width, height;
    image_bytes record = seek_record(context, &file, 8);
    hrn_decode_header(context, file.bytes, file.length, &width, &height, &status);
    hrn_decode_seek(context, record.bytes, record.length);
    hrn_decode_window(context, &box, &image, &status);
    if (status.code != HRN_OK || reference_differs(&whole, &box, &image) >= 0) {
      printf("%s: code %d or other pixels\n", jpeg_forms[n % jpeg_form_count].name, status.code);
      different++;
    }
    reference_free(&whole);
    free(record.bytes);
    free(file.bytes);
  }
  if (spoilt != 0) printf("what is unfit was used %d times\n", spoilt), different++;
  if ((seen > 0) != spoils_planes) printf("the hook was used %d times\n", seen), different++;
  hrn_context_free(context);
  printf("%d statements failed\n", different);
  return different != 0;
}
