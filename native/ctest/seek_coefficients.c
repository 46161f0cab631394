/* seek_coefficients.c: the hook's coefficients equal those of jpeg_read_coefficients.
 *
 *   seek_coefficients [-n IMAGES] [-s SEED] [FILE ...]
 *
 * Pixels could hide a wrong coefficient, because most are rounded away. So each block of random
 * windows, dummy blocks at the edges included, is compared before any inverse DCT. That is done
 * with seek points of random steps and without, over generated images and over the files that are
 * named.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../jpeg/hook.h"
#include "reference.h"

/* jpegint.h's, as in jpeg/hook.c. */
struct jpeg_entropy_decoder {
  void (*start_pass)(j_decompress_ptr info);
  boolean (*decode_mcu)(j_decompress_ptr info, JBLOCKROW *blocks);
  boolean insufficient_data;
};

static long long compared, different;
static long windows_seen;

/* ---- libjpeg's ---- */

typedef struct expected {
  struct jpeg_decompress_struct info;
  struct jpeg_error_mgr errors;
  jvirt_barray_ptr *arrays;
} expected;

static void read_expected(expected *e, const image_bytes *file) {
  e->info.err = jpeg_std_error(&e->errors); /* its exit is right here, because the files are good */
  jpeg_create_decompress(&e->info);
  jpeg_mem_src(&e->info, file->bytes, file->length);
  jpeg_read_header(&e->info, TRUE);
  e->arrays = jpeg_read_coefficients(&e->info);
}

/* Block `y`, `x` of a component, counted over whole MCUs. */
static const JCOEF *expected_block(expected *e, int component, uint32_t y, uint32_t x) {
  j_common_ptr common = (j_common_ptr)&e->info;
  return e->info.mem->access_virt_barray(common, e->arrays[component], y, 1, FALSE)[0][x];
}

/* ---- ours ---- */

/* Compares one MCU's blocks, in the order of the scan (T.81 A.2.3). */
static void compare_mcu(expected *e, JBLOCKROW *blocks, uint32_t column, uint32_t row) {
  const struct jpeg_decompress_struct *info = &e->info;
  int number = 0;
  for (int i = 0; i < info->num_components; i++) {
    const jpeg_component_info *c = &info->comp_info[i];
    const bool alone = info->num_components == 1;
    const uint32_t h = alone ? 1 : (uint32_t)c->h_samp_factor;
    const uint32_t v = alone ? 1 : (uint32_t)c->v_samp_factor;
    for (uint32_t y = 0; y < v; y++) {
      for (uint32_t x = 0; x < h; x++, number++) {
        compared++;
        const JCOEF *block = expected_block(e, i, row * v + y, column * h + x);
        if (memcmp(block, blocks[number][0], sizeof(JBLOCK)) == 0) continue;
        if (different++ < 10) printf("MCU %u, %u: block %d differs\n", column, row, number);
      }
    }
  }
}

/* Walks the scan as libjpeg's coefficient controller does: NULL for the rows that are skipped. */
static void compare_window(hrn_context *context, random_state *r, const image_bytes *file,
                           const image_bytes *points, expected *e) {
  uint32_t width, height;
  hrn_status status;
  hrn_decode_header(context, file->bytes, file->length, &width, &height, &status);
  hrn_decode_seek(context, points->bytes, points->length);
  struct jpeg_decompress_struct *info = &context->jpeg->info;
  hrn_jpeg_start(context);
  const uint32_t columns = 1 + (uint32_t)random_below(r, width);
  const uint32_t left = (uint32_t)random_below(r, width - columns + 1);
  const uint32_t top = (uint32_t)random_below(r, height);
  const uint32_t bottom = top + (uint32_t)random_below(r, height - top + 1);
  /* A lone component with sampling factors of its own is left to libjpeg: see hrn_hook_accepts. */
  const jpeg_component_info *first = &info->comp_info[0];
  const bool ours = info->num_components > 1 || first->h_samp_factor * first->v_samp_factor == 1;
  const bool begun = hrn_hook_refusal() == NULL && hrn_hook_accepts(context);
  if (begun != ours ||
      (begun && hrn_hook_install(context, left, columns, bottom, &status) != HRN_OK)) {
    printf("the hook %s\n", begun ? "takes a file that is not for it" : "does not take a file");
    different++;
  }
  if (!begun || !ours) return;
  windows_seen++;
  const hrn_hook *hook = context->jpeg->kept_hook;
  if (hook->has_seek != (points->bytes != NULL)) different++;
  const uint32_t first_row = (uint32_t)((uint64_t)top * hook->rows / height);
  JBLOCK own[HRN_MAX_BLOCKS];
  for (uint32_t row = 0; row <= hook->last_row; row++) {
    for (uint32_t column = 0; column < hook->columns; column++) {
      JBLOCKROW blocks[HRN_MAX_BLOCKS];
      for (int i = 0; i < HRN_MAX_BLOCKS; i++) blocks[i] = &own[i];
      info->entropy->decode_mcu(info, row < first_row ? NULL : blocks);
      if (row >= first_row && column >= hook->first_column && column <= hook->last_column) {
        compare_mcu(e, blocks, column, row);
      }
    }
  }
  if (hook->irregular) {
    printf("a good file is called irregular\n");
    different++;
  }
}

static void test(hrn_context *context, random_state *r, const image_bytes *file) {
  expected e;
  read_expected(&e, file);
  for (int n = 0; n < 6; n++) {
    image_bytes points = {NULL, 0};
    if (n > 0) points = seek_record(context, file, 1 + (uint32_t)random_below(r, 20));
    compare_window(context, r, file, &points, &e);
    free(points.bytes);
  }
  jpeg_destroy_decompress(&e.info);
}

static bool read_file(const char *path, image_bytes *file) {
  FILE *stream = fopen(path, "rb");
  if (stream == NULL || fseek(stream, 0, SEEK_END) != 0) return false;
  file->length = (size_t)ftell(stream);
  file->bytes = malloc(file->length + 1);
  rewind(stream);
  const bool whole = fread(file->bytes, 1, file->length, stream) == file->length;
  fclose(stream);
  return whole;
}

int main(int count, char **arguments) {
  long images = 600;
  uint64_t seed = 1;
  int files = count;
  for (int i = 1; i < count && files == count; i++) {
    if (strcmp(arguments[i], "-n") == 0) {
      images = atol(arguments[++i]);
    } else if (strcmp(arguments[i], "-s") == 0) {
      seed = strtoull(arguments[++i], NULL, 10);
    } else {
      files = i;
    }
  }
  random_state r = random_seeded(seed);
  hrn_limits limits = hrn_default_limits();
  hrn_context *context = hrn_context_new(&limits);
  if (context == NULL) abort();
  for (long n = 0; n < images; n++) {
    const jpeg_form *form = &jpeg_forms[n % jpeg_form_count];
    int blocks = 0;
    for (int i = 0; i < form->components; i++) blocks += form->h[i] * form->v[i];
    if (blocks > (form->components == 1 ? 1 : 10)) continue; /* never the hook's */
    const uint32_t restart = random_below(&r, 3) == 0 ? 1 + (uint32_t)random_below(&r, 20) : 0;
    const uint32_t width = 1 + (uint32_t)random_below(&r, 300);
    const uint32_t height = 1 + (uint32_t)random_below(&r, 200);
    image_bytes file = make_jpeg(&r, form, CODING_BASELINE, restart, width, height,
                                 1 + (int)random_below(&r, 100));
    if (file.length == 0) continue;
    test(context, &r, &file);
    free(file.bytes);
  }
  for (; files < count; files++) {
    image_bytes file;
    if (!read_file(arguments[files], &file)) {
      perror(arguments[files]);
      return 2;
    }
    hrn_facts facts;
    hrn_status status;
    hrn_inspect(context, file.bytes, file.length, HRN_ENTROPY, &facts, &status);
    if (status.code == HRN_OK && status.warnings == 0 && facts.process == HRN_PROCESS_BASELINE &&
        facts.scans == 1) {
      test(context, &r, &file);
    }
    free(file.bytes);
  }
  hrn_context_free(context);
  printf("%lld blocks of %ld windows compared, %lld different\n", compared, windows_seen,
         different);
  return compared == 0 || different != 0;
}
