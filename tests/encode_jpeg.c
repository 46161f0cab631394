/* Encodes raw samples on stdin as a JPEG on stdout, of kinds that Pillow cannot write: any chroma
 * sampling, arithmetic coding, restart intervals, YCCK and RGB as stored colour spaces.
 *
 * usage: encode_jpeg WIDTH HEIGHT COLOUR QUALITY SAMPLING RESTART [progressive] [arithmetic]
 * [dense] [lossless PREDICTOR [scans]]
 *   COLOUR      grey | ycc | rgb | cmyk | ycck  (as stored; the input is grey, RGB or CMYK)
 *   SAMPLING  factors of each component, e.g. 2x1,1x1,1x1
 *   RESTART   MCUs between restart markers, 0 for none
 *   dense     reads nothing: every coefficient is as large as may be
 *   lossless  by predictor 1 to 7, which wants libjpeg-turbo 3; scans: one for each component */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

static int fail(const char *reason) {
  fprintf(stderr, "encode_jpeg: %s\n", reason);
  return 1;
}

/* Coefficients in the place of samples, no block with a zero in it. */
static void write_dense(struct jpeg_compress_struct *c) {
  jvirt_barray_ptr arrays[4];
  int h = 1, v = 1;
  for (int i = 0; i < c->num_components; i++) {
    if (c->comp_info[i].h_samp_factor > h) h = c->comp_info[i].h_samp_factor;
    if (c->comp_info[i].v_samp_factor > v) v = c->comp_info[i].v_samp_factor;
  }
  JDIMENSION columns = (c->image_width + 8 * h - 1) / (8 * h);
  JDIMENSION rows = (c->image_height + 8 * v - 1) / (8 * v);
  for (int i = 0; i < c->num_components; i++) {
    const jpeg_component_info *info = &c->comp_info[i];
    arrays[i] = c->mem->request_virt_barray((j_common_ptr)c, JPOOL_IMAGE, TRUE,
                                            columns * info->h_samp_factor,
                                            rows * info->v_samp_factor, info->v_samp_factor);
  }
  jpeg_write_coefficients(c, arrays);
  for (int i = 0; i < c->num_components; i++) {
    const jpeg_component_info *info = &c->comp_info[i];
    for (JDIMENSION y = 0; y < rows * info->v_samp_factor; y++) {
      JBLOCKROW row = c->mem->access_virt_barray((j_common_ptr)c, arrays[i], y, 1, TRUE)[0];
      for (JDIMENSION x = 0; x < columns * info->h_samp_factor; x++) {
        for (int k = 0; k < DCTSIZE2; k++) row[x][k] = 1023;
        row[x][0] = x % 2 ? 1023 : -1023; /* differences are coded */
      }
    }
  }
}

static int make_lossless(struct jpeg_compress_struct *c, int predictor) {
#if LIBJPEG_TURBO_VERSION_NUMBER >= 3000000
  jpeg_enable_lossless(c, predictor, 0);
  return 1;
#else
  (void)c, (void)predictor;
  return 0;
#endif
}

int main(int argc, char **argv) {
  if (argc < 7) return fail("six arguments are needed");
  struct jpeg_compress_struct c;
  struct jpeg_error_mgr errors;
  c.err = jpeg_std_error(&errors);
  jpeg_create_compress(&c);
  jpeg_stdio_dest(&c, stdout);

  const char *colour = argv[3];
  c.image_width = (JDIMENSION)atoi(argv[1]);
  c.image_height = (JDIMENSION)atoi(argv[2]);
  int four = !strcmp(colour, "cmyk") || !strcmp(colour, "ycck");
  c.input_components = !strcmp(colour, "grey") ? 1 : four ? 4 : 3;
  c.in_color_space = c.input_components == 1 ? JCS_GRAYSCALE : four ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&c);
  if (!strcmp(colour, "rgb")) jpeg_set_colorspace(&c, JCS_RGB);
  if (!strcmp(colour, "cmyk")) jpeg_set_colorspace(&c, JCS_CMYK);
  if (!strcmp(colour, "ycck")) jpeg_set_colorspace(&c, JCS_YCCK);
  jpeg_set_quality(&c, atoi(argv[4]), TRUE);

  const char *factors = argv[5];
  for (int i = 0; i < c.num_components; i++) {
    int h, v, used;
    if (sscanf(factors, "%dx%d%n", &h, &v, &used) != 2) return fail("sampling is not understood");
    c.comp_info[i].h_samp_factor = h;
    c.comp_info[i].v_samp_factor = v;
    factors += used + (factors[used] == ',');
  }
  c.restart_interval = (unsigned)atoi(argv[6]);
  int dense = 0, predictor = 0, apart = 0;
  for (int i = 7; i < argc; i++) {
    if (!strcmp(argv[i], "dense")) dense = 1;
    if (!strcmp(argv[i], "progressive")) jpeg_simple_progression(&c);
    if (!strcmp(argv[i], "arithmetic")) c.arith_code = TRUE;
    if (!strcmp(argv[i], "lossless") && i + 1 < argc) predictor = atoi(argv[++i]);
    if (!strcmp(argv[i], "scans")) apart = 1;
  }
  jpeg_scan_info scans[4];
  for (int i = 0; apart && i < c.num_components; i++) {
    scans[i] = (jpeg_scan_info){1, {i}, predictor, 0, 0, 0};
    c.scan_info = scans;
    c.num_scans = c.num_components;
  }
  if (predictor > 0 && !make_lossless(&c, predictor)) return fail("this libjpeg writes none");

  if (dense) {
    write_dense(&c);
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    return 0;
  }
  jpeg_start_compress(&c, TRUE);
  size_t stride = (size_t)c.image_width * (size_t)c.input_components;
  JSAMPROW row = malloc(stride);
  if (row == NULL) return fail("memory is short");
  while (c.next_scanline < c.image_height) {
    if (fread(row, 1, stride, stdin) != stride) return fail("the input is too short");
    jpeg_write_scanlines(&c, &row, 1);
  }
  jpeg_finish_compress(&c);
  jpeg_destroy_compress(&c);
  free(row);
  return 0;
}
