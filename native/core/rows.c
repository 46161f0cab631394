/* rows.c: an image that is processed from the top down, with a few rows in memory at a time. */
#include <string.h>

#include "image.h"

hrn_rows hrn_rows_of(const hrn_image *image) {
  return (hrn_rows){.image = *image, .ready = image->height, .at_once = image->height};
}

/* Gives up the rows before `from`. Rows that are still needed move to the front, so that those in
 * memory are always one block that kernels address by a stride. At most one row of at_once moves,
 * because passes take rows in pairs. */
static void give_up(hrn_rows *rows, int32_t from) {
  const int32_t kept = rows->ready - from;
  if (kept > 0) {
    /* Beside the window a row holds columns that only the decoder needs. There are none after the
     * last row's window. */
    memmove(rows->image.pixels, hrn_row(rows, from),
            (size_t)(kept - 1) * rows->image.stride + (size_t)rows->image.width * 4);
  }
  rows->first = from;
}

int hrn_rows_need(hrn_rows *rows, int32_t from, int32_t to, hrn_status *status) {
  if (to <= rows->ready) return HRN_OK;
  if (rows->source == NULL || from < rows->first || to > rows->image.height ||
      to - from > rows->at_once) {
    return hrn_fail(status, HRN_INTERNAL, -1, "rows [%d, %d) of %d, %d at once", from, to,
                    rows->image.height, rows->at_once);
  }
  /* Rows between those in memory and `from` have to be decoded as well. */
  while (rows->ready < to) {
    give_up(rows, from < rows->ready ? from : rows->ready);
    const int32_t room = rows->at_once - (rows->ready - rows->first);
    const int32_t left = rows->image.height - rows->ready;
    const int32_t count = room < left ? room : left;
    uint8_t *out = rows->image.pixels + (size_t)(rows->ready - rows->first) * rows->image.stride;
    if (rows->read(rows->source, out, rows->image.stride, (uint32_t)count, status) != HRN_OK) {
      return status->code;
    }
    rows->ready += count;
  }
  return HRN_OK;
}
