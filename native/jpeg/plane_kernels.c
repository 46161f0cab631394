/* plane_kernels.c: the kernels on planes of samples, by instruction set. */
#include "plane_kernels.h"

#if defined(__x86_64__)
#define AVX2 \
  { hrn_idct_avx2, hrn_h2v1_avx2, hrn_h2v2_avx2, hrn_colour_avx2, hrn_grey_avx2 }
#endif

const hrn_plane_kernels hrn_plane_kernels_of[HRN_LEVELS] = {
    [HRN_LEVEL_SCALAR] = {0},
#if defined(__x86_64__)
    [HRN_LEVEL_AVX2] = AVX2,
    [HRN_LEVEL_AVX512] = AVX2,
#endif
};
