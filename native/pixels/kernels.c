/* kernels.c: the inner loops of ops on pixels, by instruction set. */
#include "kernels.h"

#if defined(__x86_64__)
#define AVX2                                                                                     \
  {                                                                                              \
    hrn_blend_avx2, hrn_saturate_avx2, hrn_turn_grey_avx2, hrn_sum_grey_avx2, hrn_extremes_avx2, \
        hrn_turn_hue_avx2, hrn_sharpen_avx2, hrn_blur_open_avx2, hrn_blur_across_avx2,           \
        hrn_blur_down_avx2, hrn_blur_again_avx2, hrn_nearest_avx2, hrn_bilinear_avx2,            \
        hrn_bicubic_avx2                                                                         \
  }
#endif

const hrn_pixel_kernels hrn_pixel_kernels_of[HRN_LEVELS] = {
    [HRN_LEVEL_SCALAR] = {hrn_blend_scalar, hrn_saturate_scalar, hrn_turn_grey_scalar,
                          hrn_sum_grey_scalar, hrn_extremes_scalar, hrn_turn_hue_scalar,
                          hrn_sharpen_scalar, hrn_blur_open_scalar, hrn_blur_across_scalar,
                          hrn_blur_down_scalar, hrn_blur_again_scalar, hrn_nearest_scalar,
                          hrn_bilinear_scalar, hrn_bicubic_scalar},
#if defined(__x86_64__)
    [HRN_LEVEL_AVX2] = AVX2,
    [HRN_LEVEL_AVX512] = AVX2,
#endif
};
