/* plane_scalar.c: turns bytes of one channel into finished values, with the tables that define
 * them. */
#include <string.h>

#include "write.h"

/* Inlined with constants for both distances in the frequent cases. */
static inline void look_up(const hrn_format *format, int c, const uint8_t *from, int64_t step,
                           int32_t count, uint8_t *to, size_t apart) {
  if (format->element == 4) {
    const float *value = format->value[c];
    for (int32_t x = 0; x < count; x++) memcpy(to + x * apart, &value[from[x * step]], 4);
  } else if (format->element == 2) {
    const uint16_t *value = format->half[c];
    for (int32_t x = 0; x < count; x++) memcpy(to + x * apart, &value[from[x * step]], 2);
  } else {
    for (int32_t x = 0; x < count; x++) to[x * apart] = from[x * step];
  }
}

void hrn_plane_scalar(const hrn_format *format, int c, const uint8_t *from, int64_t step,
                      int32_t count, uint8_t *to, size_t apart) {
  if (apart == 4 && step == 1) {
    look_up(format, c, from, 1, count, to, 4);
  } else if (apart == 4 && step == 3) {
    look_up(format, c, from, 3, count, to, 4);
  } else {
    look_up(format, c, from, step, count, to, apart);
  }
}
