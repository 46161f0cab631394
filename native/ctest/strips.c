#include "strips.h"

#include <stdlib.h>
#include <string.h>

static int take(hrn_rows *rows, hrn_image *image, hrn_status *status) {
  for (int32_t y = 0; y < image->height; y += 2) {
    const int32_t count = y + 1 < image->height ? 2 : 1;
    if (hrn_rows_need(rows, y, y + count, status) != HRN_OK) return status->code;
    for (int32_t i = 0; i < count; i++) {
      memcpy(image->pixels + (size_t)(y + i) * image->stride, hrn_row(rows, y + i), image->stride);
    }
  }
  return HRN_OK;
}

void decode_in_strips(hrn_context *context, const hrn_box *box, int32_t at_once, hrn_image *image,
                      hrn_status *status) {
  hrn_rows rows;
  int again = 1;
  *image = (hrn_image){NULL, (size_t)box->width * 4, box->width, box->height};
  if (hrn_decode_rows(context, box, at_once, &rows, status) != HRN_OK) return;
  image->pixels = malloc(image->stride * (size_t)image->height);
  if (image->pixels == NULL) abort();
  while (again && take(&rows, image, status) == HRN_OK) hrn_decode_settle(&rows, &again, status);
  if (status->code == HRN_OK) return;
  free(image->pixels);
  image->pixels = NULL;
}
