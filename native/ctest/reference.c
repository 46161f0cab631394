/* reference.c: a plain decode by libjpeg, as its example shows it; windows and seek points to
 * compare with it. */
#include "reference.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "../decode/decoder.h" /* the one conversion from CMYK: Pillow's, not libjpeg's */

typedef struct plain {
  struct jpeg_decompress_struct info;
  struct jpeg_error_mgr errors;
  jmp_buf escape;
  reference whole;
  uint8_t *row;
} plain;

static void escape(j_common_ptr info) { longjmp(((plain *)info)->escape, 1); }

static void count(j_common_ptr info, int level) {
  if (level < 0) ((plain *)info)->whole.warnings++;
}

/* libjpeg's own source then gives an EOI. Here it is only noted that it had to. */
static _Thread_local boolean (*fill_from_memory)(j_decompress_ptr info);
static boolean fill(j_decompress_ptr info) {
  ((plain *)info)->whole.dry = true;
  return fill_from_memory(info);
}

static void decode(plain *p, const image_bytes *file) {
  struct jpeg_decompress_struct *info = &p->info;
  jpeg_create_decompress(info);
  jpeg_mem_src(info, file->bytes, file->length);
  fill_from_memory = info->src->fill_input_buffer;
  info->src->fill_input_buffer = fill;
  jpeg_read_header(info, TRUE);
  bool cmyk = info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
  info->out_color_space = cmyk ? JCS_CMYK : JCS_EXT_RGBX;
  jpeg_start_decompress(info);
  size_t width = info->output_width, height = info->output_height;
  p->whole.width = info->output_width;
  p->whole.height = info->output_height;
  p->whole.rgb = malloc(width * height * 3);
  p->row = malloc(width * 4);
  if (p->whole.rgb == NULL || p->row == NULL) abort();
  for (uint8_t *to = p->whole.rgb; info->output_scanline < height;) {
    JSAMPROW row = p->row;
    jpeg_read_scanlines(info, &row, 1);
    if (cmyk) hrn_cmyk_to_rgbx(p->row, width);
    for (size_t x = 0; x < width; x++, to += 3) memcpy(to, p->row + 4 * x, 3);
  }
  jpeg_finish_decompress(info); /* reads on to EOI */
}

reference reference_decode(const image_bytes *file) {
  plain p;
  memset(&p, 0, sizeof p);
  p.info.err = jpeg_std_error(&p.errors);
  p.errors.error_exit = escape;
  p.errors.emit_message = count;
  if (setjmp(p.escape) == 0) {
    decode(&p, file);
  } else {
    p.whole.failed = true;
  }
  jpeg_destroy_decompress(&p.info);
  free(p.row);
  return p.whole;
}

void reference_free(reference *whole) {
  free(whole->rgb);
  whole->rgb = NULL;
}

int32_t reference_differs(const reference *whole, const hrn_box *box, const hrn_image *image) {
  for (int32_t y = 0; y < box->height; y++) {
    const uint8_t *found = image->pixels + (size_t)y * image->stride;
    const uint8_t *expected =
        whole->rgb + ((size_t)(box->top + y) * whole->width + (size_t)box->left) * 3;
    for (int32_t x = 0; x < box->width; x++, found += 4, expected += 3) {
      if (memcmp(found, expected, 3) != 0) return y;
    }
  }
  return -1;
}

static int32_t below(random_state *r, int32_t bound) {
  return (int32_t)random_below(r, (uint64_t)bound);
}

hrn_box some_box(random_state *r, int32_t width, int32_t height) {
  hrn_box box = {0, 0, 1 + below(r, width), 1 + below(r, height)};
  if (below(r, 2)) box.width = 1 + below(r, box.width), box.height = 1 + below(r, box.height);
  box.left = below(r, width - box.width + 1);
  box.top = below(r, height - box.height + 1);
  return box;
}

image_bytes seek_record(hrn_context *context, const image_bytes *file, uint32_t step) {
  hrn_facts facts;
  hrn_status status;
  const uint8_t *record;
  size_t length;
  hrn_inspect_seek(context, file->bytes, file->length, step, &facts, &record, &length, &status);
  return record != NULL ? copy_bytes(record, length) : (image_bytes){NULL, 0};
}
