/* images_jpeg.c: JPEGs of every sampling and coding that libjpeg can write. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "images.h"

const jpeg_form jpeg_forms[] = {
    {"4:4:4", 3, JCS_YCbCr, {1, 1, 1}, {1, 1, 1}},
    {"4:2:2", 3, JCS_YCbCr, {2, 1, 1}, {1, 1, 1}},
    {"4:2:0", 3, JCS_YCbCr, {2, 1, 1}, {2, 1, 1}},
    {"4:4:0", 3, JCS_YCbCr, {1, 1, 1}, {2, 1, 1}},
    {"4:1:1", 3, JCS_YCbCr, {4, 1, 1}, {1, 1, 1}},
    {"4:1:0", 3, JCS_YCbCr, {4, 1, 1}, {2, 1, 1}},
    {"1x4", 3, JCS_YCbCr, {1, 1, 1}, {4, 1, 1}},
    {"2x4", 3, JCS_YCbCr, {2, 1, 1}, {4, 1, 1}},
    {"3x1", 3, JCS_YCbCr, {3, 1, 1}, {1, 1, 1}},
    {"3x2", 3, JCS_YCbCr, {3, 1, 1}, {2, 1, 1}},
    {"4:4:4 in 2x2", 3, JCS_YCbCr, {2, 2, 2}, {2, 2, 2}},
    {"4:2:2 in 2x2", 3, JCS_YCbCr, {2, 1, 1}, {2, 2, 2}},
    {"chroma apart", 3, JCS_YCbCr, {2, 1, 2}, {2, 2, 1}},
    {"chroma finer", 3, JCS_YCbCr, {1, 2, 2}, {1, 2, 2}},
    {"grey", 1, JCS_GRAYSCALE, {1}, {1}},
    {"grey 2x2", 1, JCS_GRAYSCALE, {2}, {2}},
    {"RGB", 3, JCS_RGB, {1, 1, 1}, {1, 1, 1}},
    {"RGB 4:2:0", 3, JCS_RGB, {2, 1, 1}, {2, 1, 1}},
    {"CMYK", 4, JCS_CMYK, {1, 1, 1, 1}, {1, 1, 1, 1}},
    {"YCCK 4:2:0", 4, JCS_YCCK, {2, 1, 1, 2}, {2, 1, 1, 2}},
    {"YCCK 4:2:2", 4, JCS_YCCK, {2, 1, 1, 2}, {1, 1, 1, 1}},
};
const int jpeg_form_count = sizeof jpeg_forms / sizeof jpeg_forms[0];

typedef struct encoder {
  struct jpeg_compress_struct info;
  struct jpeg_error_mgr errors;
  jmp_buf escape;
  unsigned char *bytes;
  unsigned long length;
  uint8_t *row;
} encoder;

/* The encoder refuses some combinations; those are not tests. */
static void give_up(j_common_ptr info) { longjmp(((encoder *)info)->escape, 1); }

static void choose_coding(encoder *e, const jpeg_form *form, enum jpeg_coding coding,
                          jpeg_scan_info *scans) {
  int blocks = 0;
  for (int i = 0; i < form->components; i++) {
    e->info.comp_info[i].h_samp_factor = form->h[i];
    e->info.comp_info[i].v_samp_factor = form->v[i];
    blocks += form->h[i] * form->v[i];
  }
  /* More than ten blocks do not fit into one MCU, but the components may come one by one. */
  if (coding == CODING_SEPARATE_SCANS || (blocks > 10 && form->components > 1)) {
    for (int i = 0; i < form->components; i++) {
      scans[i] = (jpeg_scan_info){1, {i}, 0, 63, 0, 0};
    }
    e->info.scan_info = scans;
    e->info.num_scans = form->components;
  } else if (coding == CODING_PROGRESSIVE) {
    jpeg_simple_progression(&e->info);
  }
  if (coding == CODING_ARITHMETIC) e->info.arith_code = TRUE;
}

/* Noise, a slope with noise, or hard edges: many bits, usual ones, long runs. */
static void fill(random_state *r, uint8_t *row, uint32_t samples, uint32_t y, int kind) {
  for (uint32_t i = 0; i < samples; i++) {
    uint64_t noise = random_next(r);
    if (kind == 0) row[i] = (uint8_t)noise;
    if (kind == 1) row[i] = (uint8_t)(3 * i + 5 * y + (noise & 15));
    if (kind == 2) row[i] = (uint8_t)(((i / 21 + y / 9) & 1) * 200 + (noise & 7));
  }
}

/* longjmp leaves the struct e alone, because it is memory. Locals in registers would not be
 * safe. */
image_bytes make_jpeg(random_state *r, const jpeg_form *form, enum jpeg_coding coding,
                      uint32_t restart, uint32_t width, uint32_t height, int quality) {
  static const J_COLOR_SPACE inputs[] = {0, JCS_GRAYSCALE, 0, JCS_RGB, JCS_CMYK};
  jpeg_scan_info scans[4];
  encoder e;
  memset(&e, 0, sizeof e);
  e.info.err = jpeg_std_error(&e.errors);
  e.errors.error_exit = give_up;
  if (setjmp(e.escape) != 0) {
    jpeg_destroy_compress(&e.info);
    free(e.bytes);
    free(e.row);
    return (image_bytes){NULL, 0};
  }
  jpeg_create_compress(&e.info);
  jpeg_mem_dest(&e.info, &e.bytes, &e.length);
  e.info.image_width = width;
  e.info.image_height = height;
  e.info.input_components = form->components;
  e.info.in_color_space = inputs[form->components];
  jpeg_set_defaults(&e.info);
  jpeg_set_colorspace(&e.info, (J_COLOR_SPACE)form->colour_space);
  jpeg_set_quality(&e.info, quality, TRUE);
  choose_coding(&e, form, coding, scans);
  e.info.restart_interval = restart;
  e.row = malloc((size_t)width * 4);
  jpeg_start_compress(&e.info, TRUE);
  int kind = (int)random_below(r, 3);
  for (uint32_t y = 0; y < height; y++) {
    fill(r, e.row, width * (uint32_t)form->components, y, kind);
    JSAMPROW row = e.row;
    jpeg_write_scanlines(&e.info, &row, 1);
  }
  jpeg_finish_compress(&e.info);
  jpeg_destroy_compress(&e.info);
  free(e.row);
  return (image_bytes){e.bytes, e.length};
}

image_bytes copy_bytes(const uint8_t *bytes, size_t length) {
  image_bytes copy = {malloc(length + (length == 0)), length};
  if (copy.bytes == NULL) abort();
  if (length > 0) memcpy(copy.bytes, bytes, length);
  return copy;
}
