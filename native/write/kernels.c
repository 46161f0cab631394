/* kernels.c: the kernels that finish a sample, by instruction set. */
#include "write.h"

const hrn_write_kernels hrn_write_kernels_of[HRN_LEVELS] = {
    [HRN_LEVEL_SCALAR] = {hrn_write_scalar, hrn_reverse_scalar, hrn_weigh_scalar, NULL,
                          hrn_move_scalar},
#if defined(__x86_64__)
    [HRN_LEVEL_AVX2] = {hrn_write_avx2, hrn_reverse_avx2, hrn_weigh_avx2, hrn_mix_avx2,
                        hrn_move_avx2},
    [HRN_LEVEL_AVX512] = {hrn_write_avx512, hrn_reverse_avx2, hrn_weigh_avx2, hrn_mix_avx512,
                          hrn_move_avx512},
#endif
};
