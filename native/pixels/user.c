/* user.c: calls a function of the program's own on an image's pixels.
 *
 * The program gave the function's address through the C ABI. Nothing can check it.
 */
#include "pixels.h"

int hrn_user_run(const hrn_pixel_user *user, const hrn_image *image, hrn_status *status) {
  const hrn_user_function function = (hrn_user_function)(uintptr_t)user->function;
  const int32_t code = function((void *)(uintptr_t)user->context, image->pixels, image->height,
                                image->width, image->stride, user->random, user->sample);
  if (code == 0) return HRN_OK;
  return hrn_fail(status, HRN_BAD, -1, "the program's own function of a Native returned %d", code);
}
