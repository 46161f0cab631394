/* filters.c: compares the kernels that undo a PNG's filters with the plain loops, in random rows of
 * every pixel size. The rows end at the end of their allocation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../png/png.h"
#include "random.h"

int main(void) {
  random_state r = random_seeded(7);
  int vectors = 0;
  for (int round = 0; round < 20000; round++) {
    static const uint8_t channels[] = {1, 2, 3, 4};
    const hrn_png png = {.channels = channels[random_below(&r, 4)],
                         .bit_depth = random_below(&r, 4) == 0 ? 16 : 8};
    const size_t step = (size_t)png.channels * png.bit_depth / 8;
    const size_t bytes = step * random_below(&r, 70);
    const int filter = (int)random_below(&r, 5);
    uint8_t *row = malloc(bytes), *plain = malloc(bytes), *above = malloc(bytes);
    if (bytes > 0 && (row == NULL || plain == NULL || above == NULL)) return 2;
    /* Values close together are where Paeth's ties are. */
    const uint32_t values = random_below(&r, 2) == 0 ? 256 : 4;
    for (size_t i = 0; i < bytes; i++) {
      row[i] = plain[i] = (uint8_t)random_below(&r, values);
      above[i] = (uint8_t)random_below(&r, values);
    }
    hrn_png_undo_scalar(filter, plain, above, bytes, step);
    if (!hrn_png_unfilter(&png, filter, row, above, bytes) ||
        (bytes > 0 && memcmp(row, plain, bytes) != 0)) {
      printf("filter %d of %zu bytes a pixel differs in a row of %zu bytes\n", filter, step, bytes);
      return 1;
    }
    vectors += step == 3 || step == 4;
    free(row);
    free(plain);
    free(above);
  }
  uint8_t none = 0;
  const hrn_png png = {.channels = 3, .bit_depth = 8};
  if (hrn_png_unfilter(&png, 5, &none, &none, 0)) return 1;
  printf("filters: 20000 rows, %d of 3 or 4 bytes a pixel, are the plain loops'\n", vectors);
  return 0;
}
