/* maskwarp.h: the warps of a mask, whose classes are bytes, row after row. What lies outside of the
 * mask shows `fill`. */
#ifndef HRN_MASKWARP_H
#define HRN_MASKWARP_H

#include <stdint.h>

/* `m` has the six coefficients of the map from a place of the output to one of the mask. */
void hrn_warp_mask_affine(const uint8_t *mask, int32_t width, int32_t height, const double *m,
                          uint8_t *out, int32_t to_width, int32_t to_height, uint8_t fill);

/* `m` has the eight coefficients of that map; the output is as large as the mask. */
void hrn_warp_mask_perspective(const uint8_t *mask, int32_t width, int32_t height, const double *m,
                               uint8_t *out, uint8_t fill);

#endif
