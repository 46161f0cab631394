/* move_rows.c: writes an image of an array whose pixels are only moved, row by row of each
 * channel. */
#include "write.h"

enum { LONGEST = 1 << 30 }; /* pixels of a row, so that a few more still fit an int32 */

hrn_moved hrn_moved_as_rows(const hrn_moved *image) {
  hrn_moved rows = *image;
  const int whole = image->left == 0 && image->right == image->width && image->top == 0 &&
                    image->bottom == image->height;
  if (whole && image->row == image->width * image->pixel &&
      (int64_t)image->width * image->height <= LONGEST) {
    rows.width = rows.right = image->width * image->height;
    rows.height = rows.bottom = 1;
  }
  return rows;
}

static inline void move_rows(const hrn_format *format, const hrn_moved *image, uint8_t *to,
                             hrn_plane_kernel write) {
  const hrn_moved m = hrn_moved_as_rows(image);
  const size_t apart = format->layout == HRN_NHWC ? 3 * format->element : format->element;
  const size_t row = (size_t)m.width * apart;
  const size_t plane = format->layout == HRN_NHWC ? format->element : (size_t)m.height * row;
  for (uint32_t c = 0; c < format->channels; c++) {
    uint8_t *out = to + c * plane;
    for (int32_t y = 0; y < m.height; y++, out += row) {
      const int seen = y >= m.top && y < m.bottom && m.left < m.right;
      const int32_t left = seen ? m.left : 0, right = seen ? m.right : 0;
      /* With a step of 0 the fill is written. */
      if (left > 0) write(format, (int)c, &m.fill[c], 0, left, out, apart);
      if (right < m.width) {
        write(format, (int)c, &m.fill[c], 0, m.width - right, out + (size_t)right * apart, apart);
      }
      if (!seen) continue;
      write(format, (int)c, m.from + (y - m.top) * m.row + c * m.channel, m.pixel, right - left,
            out + (size_t)left * apart, apart);
    }
  }
}

void hrn_move_scalar(const hrn_format *format, const hrn_moved *image, uint8_t *to) {
  move_rows(format, image, to, hrn_plane_scalar);
}

#if defined(__x86_64__)
void hrn_move_avx2(const hrn_format *format, const hrn_moved *image, uint8_t *to) {
  move_rows(format, image, to, hrn_plane_avx2);
}
#endif
