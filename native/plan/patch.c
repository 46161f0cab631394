/* patch.c: which part of a sample goes where. */
#include "plan.h"

/* For NCHW a row is a row of one plane; the kernel finds the other two planes by the distance of
 * planes. */
hrn_pitch hrn_pitch_of(const hrn_format *format, int32_t width, int32_t height) {
  const size_t element = format->element;
  return (hrn_pitch){.row = (size_t)width * element * (format->layout == HRN_NHWC ? 3 : 1),
                     .plane = (size_t)width * (size_t)height * element};
}

int hrn_patch_runs(const hrn_patch *patch, int32_t y, int32_t width, int32_t from[2],
                   int32_t to[2]) {
  const int inside = y >= patch->top && y < patch->top + patch->height;
  const int32_t left = inside ? patch->left : 0, right = inside ? left + patch->width : 0;
  from[0] = patch->outside ? 0 : left;
  to[0] = patch->outside ? left : right;
  from[1] = right;
  to[1] = width;
  return patch->outside ? 2 : 1;
}
