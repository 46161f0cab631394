/* kernels.c: the kernels of a resize, by instruction set. */
#include "resize.h"

const hrn_resize_kernels hrn_resize_kernels_of[HRN_LEVELS] = {
    [HRN_LEVEL_SCALAR] = {hrn_arrange_scalar, hrn_horizontal_scalar, hrn_vertical_scalar},
#if defined(__x86_64__)
    [HRN_LEVEL_AVX2] = {hrn_arrange_avx2, hrn_horizontal_avx2, hrn_vertical_avx2},
    [HRN_LEVEL_AVX512] = {hrn_arrange_avx512, hrn_horizontal_avx512, hrn_vertical_avx512},
#endif
};
