/* pad.c: which pixel stands where after padding. The modes are NumPy's, which torchvision uses for
 * PIL images. Constant padding is that of Pillow's ImageOps.expand. */
#include "plan.h"

/* The source of position `at` in a line of `length` pixels that is continued on both sides, or
 * -1. */
static int32_t continued(int32_t mode, int32_t length, int32_t at) {
  if (at >= 0 && at < length) return at;
  if (mode == HRN_PAD_CONSTANT) return -1;
  if (mode == HRN_PAD_EDGE) return at < 0 ? 0 : length - 1;
  /* Both reflections repeat. A period is once there and back. */
  if (mode == HRN_PAD_REFLECT) {
    if (length == 1) return 0;
    const int32_t period = 2 * (length - 1);
    int32_t phase = at % period;
    if (phase < 0) phase += period;
    return phase < length ? phase : period - phase;
  }
  const int32_t period = 2 * length;
  int32_t phase = at % period;
  if (phase < 0) phase += period;
  return phase < length ? phase : period - 1 - phase;
}

int32_t hrn_padded_source(const hrn_padding *padding, int32_t mode, int32_t length, int32_t at) {
  /* The second padding was put around the first, so it is resolved first. */
  const int32_t once = length + padding->before + padding->after;
  at = continued(mode, once, at - padding->missing);
  return at < 0 ? -1 : continued(mode, length, at - padding->before);
}
