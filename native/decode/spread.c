/* spread.c: turns the RGB of files into the RGBX of the stages. */
#include "spread.h"

#include <string.h>

void hrn_spread_scalar(const uint8_t *rgb, int32_t count, uint8_t *rgbx) {
  for (int32_t x = 0; x < count; x++, rgb += 3, rgbx += 4) {
    memcpy(rgbx, rgb, 3);
    rgbx[3] = 255;
  }
}

#if defined(__x86_64__)
#include <immintrin.h>

/* Eight pixels a step, from two overlapping loads. The second load ends four bytes behind its
 * pixels, so the last two pixels of a row are left to the scalar loop. Nothing behind the record is
 * read. */
__attribute__((target("avx2"))) void hrn_spread_avx2(const uint8_t *rgb, int32_t count,
                                                     uint8_t *rgbx) {
  const __m256i order =
      _mm256_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, /* low lane */
                       0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
  int32_t x = 0;
  for (; x + 10 <= count; x += 8, rgb += 24) {
    const __m128i low = _mm_loadu_si128((const __m128i *)rgb);
    const __m128i high = _mm_loadu_si128((const __m128i *)(rgb + 12));
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    _mm256_storeu_si256((__m256i *)(rgbx + 4 * (size_t)x), _mm256_shuffle_epi8(both, order));
  }
  hrn_spread_scalar(rgb, count - x, rgbx + 4 * (size_t)x);
}
#endif

const hrn_spread_kernel hrn_spread_of[HRN_LEVELS] = {
    [HRN_LEVEL_SCALAR] = hrn_spread_scalar,
#if defined(__x86_64__)
    [HRN_LEVEL_AVX2] = hrn_spread_avx2,
    [HRN_LEVEL_AVX512] = hrn_spread_avx2,
#endif
};
