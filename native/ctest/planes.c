/* planes.c: pixels that are made from our coefficients equal libjpeg's, whatever the file contains.
 *
 *   planes [-n IMAGES] [-s SEED]
 *
 * First every triple of Y, Cb and Cr is compared with libjpeg's formula. Then images are written
 * coefficient by coefficient, with values up to the largest that Huffman codes can say, and
 * quantisation tables of up to 16 bits. There, products wrap and sums saturate at places that only
 * libjpeg-turbo knows. Blocks are empty in all the ways for which the inverse DCT has short cuts.
 * Windows are compared with libjpeg's decode.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../jpeg/hook.h"
#include "reference.h"

static long compared, different;

/* ---- colour ------------------------------------------------------------------------------- */

static uint8_t clip(int value) { return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value); }

/* jdcolor.c's tables, with constants to 16 bits. Shifts are arithmetic. */
static void convert(int y, int cb, int cr, uint8_t rgbx[4]) {
  cb -= 128, cr -= 128;
  rgbx[0] = clip(y + ((91881 * cr + 32768) >> 16));
  rgbx[1] = clip(y + ((-22554 * cb - 46802 * cr + 32768) >> 16));
  rgbx[2] = clip(y + ((116130 * cb + 32768) >> 16));
  rgbx[3] = 255;
}

static void all_colours(const hrn_plane_kernels *kernels) {
  uint8_t y[256], cb[256], cr[256], found[4 * 256], expected[4 * 256];
  for (int i = 0; i < 256; i++) y[i] = (uint8_t)i;
  for (int pair = 0; pair < 256 * 256; pair++) {
    memset(cb, pair >> 8, sizeof cb);
    memset(cr, pair & 255, sizeof cr);
    kernels->colour(y, cb, cr, 256, found);
    for (int i = 0; i < 256; i++) convert(i, pair >> 8, pair & 255, expected + 4 * i);
    if (memcmp(found, expected, sizeof found) != 0 && different++ < 20) {
      printf("Cb %d, Cr %d: other colours\n", pair >> 8, pair & 255);
    }
  }
}

/* ---- coefficients ------------------------------------------------------------------------- */

static int between(random_state *r, int low, int high) {
  return low + (int)random_below(r, (uint64_t)(high - low + 1));
}

/* How extreme an image is: as encoders write; all that a code can say; with tables of 16 bits. */
enum { TAME, LARGE, HOSTILE, KINDS };

/* The largest AC coefficient. Differences of two such DC coefficients can be coded as well. */
#define MOST 1023

static void fill_block(random_state *r, int kind, int16_t *block) {
  /* Rows and columns that may hold something. */
  static const int extents[][2] = {{1, 1}, {1, 8}, {8, 1}, {2, 2}, {4, 4},
                                   {4, 8}, {8, 4}, {5, 4}, {4, 5}, {8, 8}};
  const int *extent = extents[random_below(r, sizeof extents / sizeof *extents)];
  const int often = between(r, 1, 8), most = kind == TAME ? 60 : MOST;
  memset(block, 0, sizeof(JBLOCK));
  for (int y = 0; y < extent[0]; y++) {
    for (int x = 0; x < extent[1]; x++) {
      if (between(r, 1, often) > 1) continue;
      block[8 * y + x] = (int16_t)between(r, -most, most);
      if (between(r, 0, 30) == 0) block[8 * y + x] = (int16_t)(random_next(r) & 1 ? MOST : -MOST);
    }
  }
  block[0] = (int16_t)(kind == TAME ? between(r, -200, 200) : between(r, -MOST, MOST));
}

static void fill_table(random_state *r, int kind, JQUANT_TBL *table) {
  for (int k = 0; k < DCTSIZE2; k++) {
    static const int most[KINDS] = {40, 255, 65535};
    table->quantval[k] = (UINT16)between(r, 1, most[kind]);
    /* No encoder writes this, but libjpeg accepts it: a coefficient that is present and counts for
     * nothing. */
    if (kind == HOSTILE && k > 0 && between(r, 0, 2) == 0) table->quantval[k] = 0;
  }
}

/* Tables of more than 8 bits are not baseline, as libjpeg says. */
static void silent(j_common_ptr info, int level) { (void)info, (void)level; }

static image_bytes make(random_state *r, const jpeg_form *form, int kind, uint32_t width,
                        uint32_t height) {
  struct jpeg_compress_struct info;
  struct jpeg_error_mgr errors;
  unsigned char *bytes = NULL;
  unsigned long length = 0;
  jvirt_barray_ptr planes[3];
  info.err = jpeg_std_error(&errors);
  errors.emit_message = silent;
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &bytes, &length);
  info.image_width = width;
  info.image_height = height;
  info.input_components = form->components;
  info.in_color_space = form->components == 1 ? JCS_GRAYSCALE : JCS_YCbCr;
  jpeg_set_defaults(&info);
  info.optimize_coding = random_next(r) & 1;
  for (int i = 0; i < 2; i++) fill_table(r, kind, info.quant_tbl_ptrs[i]);
  for (int i = 0; i < form->components; i++) {
    jpeg_component_info *c = &info.comp_info[i];
    c->h_samp_factor = form->h[i];
    c->v_samp_factor = form->v[i];
    /* Whole MCUs. */
    const uint32_t columns = width / (8 * (uint32_t)form->h[0]) + 1,
                   rows = height / (8 * (uint32_t)form->v[0]) + 1;
    planes[i] = info.mem->request_virt_barray(
        (j_common_ptr)&info, JPOOL_IMAGE, TRUE, columns * (JDIMENSION)form->h[i],
        rows * (JDIMENSION)form->v[i], (JDIMENSION)form->v[i]);
  }
  jpeg_write_coefficients(&info, planes);
  for (int i = 0; i < form->components; i++) {
    const jpeg_component_info *c = &info.comp_info[i];
    for (JDIMENSION y = 0; y < c->height_in_blocks; y++) {
      JBLOCKROW row = info.mem->access_virt_barray((j_common_ptr)&info, planes[i], y, 1, TRUE)[0];
      for (JDIMENSION x = 0; x < c->width_in_blocks; x++) {
        fill_block(r, kind, row[x]);
      }
    }
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  return (image_bytes){bytes, length};
}

/* ---- windows ------------------------------------------------------------------------------ */

static void compare(hrn_context *context, const image_bytes *file, const image_bytes *points,
                    const reference *whole, const hrn_box *box, const char *name, int kind) {
  uint32_t width, height;
  hrn_image image;
  hrn_status status;
  hrn_decode_header(context, file->bytes, file->length, &width, &height, &status);
  hrn_decode_seek(context, points->bytes, points->length);
  hrn_decode_window(context, box, &image, &status);
  compared++;
  const hrn_hook *hook = context->jpeg->hook;
  const bool good = status.code == HRN_OK && hook != NULL && !hook->irregular;
  const int32_t row = good ? reference_differs(whole, box, &image) : -1;
  if ((!good || row >= 0) && different++ < 20) {
    printf("%s, kind %d, %u x %u: window %d, %d, %d x %d: code %d, hooked %d, differs in row %d\n",
           name, kind, whole->width, whole->height, box->left, box->top, box->width, box->height,
           status.code, good, row);
  }
}

static void test(hrn_context *context, random_state *r, int form, int kind) {
  const uint32_t width = (uint32_t)between(r, 1, 150), height = (uint32_t)between(r, 1, 100);
  image_bytes file = make(r, &jpeg_forms[form], kind, width, height);
  reference whole = reference_decode(&file);
  if (whole.failed || whole.warnings > 0) {
    printf("libjpeg refuses its own file\n");
    different++;
  } else {
    image_bytes points = seek_record(context, &file, 3), none = {NULL, 0};
    const hrn_box all = {0, 0, (int32_t)width, (int32_t)height};
    compare(context, &file, &none, &whole, &all, jpeg_forms[form].name, kind);
    for (int n = 0; n < 4; n++) {
      const hrn_box box = some_box(r, (int32_t)width, (int32_t)height);
      compare(context, &file, &points, &whole, &box, jpeg_forms[form].name, kind);
    }
    free(points.bytes);
  }
  reference_free(&whole);
  free(file.bytes);
}

int main(int count, char **arguments) {
  long images = 3000;
  uint64_t seed = 1;
  for (int i = 1; i + 1 < count; i += 2) {
    if (strcmp(arguments[i], "-n") == 0) images = atol(arguments[i + 1]);
    if (strcmp(arguments[i], "-s") == 0) seed = strtoull(arguments[i + 1], NULL, 10);
  }
  const hrn_plane_kernels *kernels = hrn_plane_kernels_chosen();
  if (kernels == NULL) {
    puts("libjpeg makes the pixels here");
    return 0;
  }
  all_colours(kernels);
  int forms[32], usual = 0;
  for (int i = 0; i < jpeg_form_count; i++) {
    static const char *const names[] = {"4:4:4", "4:2:2", "4:2:0", "grey"};
    for (int k = 0; k < 4; k++) {
      if (strcmp(jpeg_forms[i].name, names[k]) == 0) forms[usual++] = i;
    }
  }
  random_state r = random_seeded(seed);
  hrn_context *context = hrn_context_new(NULL);
  if (context == NULL || usual != 4) abort();
  for (long n = 0; n < images; n++) test(context, &r, forms[n % 4], (int)(n / 4 % KINDS));
  hrn_context_free(context);
  printf("16777216 colours and %ld windows compared, %ld different\n", compared, different);
  return different != 0;
}
