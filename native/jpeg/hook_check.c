/* hook_check.c: tests whether the hook of hook.c fits the linked libjpeg.
 *
 * The hook relies on what no header promises: the head of the entropy decoder's struct, and when
 * libjpeg asks for which MCU. So before the first use a small image, of every alignment that
 * matters, is written with that library. A window of it, with rows and columns skipped, is decoded
 * once without the hook and once with it. Unless the bytes are the same and the hook was called for
 * every MCU, libjpeg keeps its own decoder, which is slower but right. The same window is then made
 * a third time without libjpeg's inverse DCT, upsampling and colour conversion (planes.c), and must
 * be the same again.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "hook.h"

/* The sides are no whole number of MCUs, and a row is no whole number of points. */
enum { WIDTH = 203, HEIGHT = 75, LEFT = 34, RIGHT = 181, TOP = 21, BOTTOM = 61 };

/* 2.1.4 is the first release whose cropped decode is free of known errors. Of version 4 nothing is
 * known yet. */
#define OLDEST 2001004
#define NEWEST 3999999

typedef struct sample {
  hrn_context *context;
  uint8_t *pixels[2]; /* decoded by libjpeg alone; with the hook */
  size_t stride;
  uint8_t *record; /* seek points */
  size_t record_length;
  bool complete;      /* the hook was called for each MCU */
  bool planes_differ; /* the pixels of planes.c differ from those of libjpeg alone */
  hrn_status status;
} sample;

/* Makes the file that was written the record that is read next. */
static void begin(sample *s) {
  const hrn_encoder *file = &s->context->jpeg->encoder;
  hrn_jpeg_begin(s->context);
  hrn_scratch_begin(s->context);
  hrn_status_clear(&s->status);
  s->context->bytes = file->bytes;
  s->context->length = file->length;
}

static int begin_with_points(sample *s) {
  uint32_t width, height;
  begin(s);
  s->context->jpeg->seek = s->record;
  s->context->jpeg->seek_length = s->record_length;
  return hrn_jpeg_header(s->context, &width, &height, &s->status);
}

/* Slopes with some noise: coefficients of all sizes, long codes among them. */
static void write_pixels(uint8_t *row, uint32_t y) {
  for (uint32_t x = 0; x < WIDTH; x++) {
    const uint32_t noise = (x * 2654435761u + y * 40503u) >> 13;
    row[4 * x] = (uint8_t)(x + y + (noise & 31));
    row[4 * x + 1] = (uint8_t)(x * y / 8);
    row[4 * x + 2] = (uint8_t)(x / 16 % 2 == y / 16 % 2 ? 255 : noise & 7);
    row[4 * x + 3] = 0;
  }
}

/* Writes the file as encode.c does: baseline, 4:2:0. */
static void encode(sample *s) {
  hrn_encoder *encoder = &s->context->jpeg->encoder;
  j_compress_ptr info = &encoder->info;
  uint8_t row[4 * WIDTH];
  JSAMPROW rows = row;
  s->context->jpeg->status = &s->status;
  if (setjmp(s->context->jpeg->escape) != 0) return;
  hrn_jpeg_errors_init(s->context->jpeg);
  hrn_encoder_open(s->context);
  info->image_width = WIDTH;
  info->image_height = HEIGHT;
  info->input_components = 4;
  info->in_color_space = JCS_EXT_RGBX;
  jpeg_set_defaults(info);
  jpeg_set_quality(info, 90, TRUE);
  jpeg_start_compress(info, TRUE);
  while (info->next_scanline < HEIGHT) {
    write_pixels(row, info->next_scanline);
    jpeg_write_scanlines(info, &rows, 1);
  }
  jpeg_finish_compress(info);
  hrn_encoder_close(encoder);
}

static void find_points(sample *s) {
  const hrn_jpeg *jpeg = s->context->jpeg;
  hrn_facts facts = {0};
  begin(s);
  s->context->jpeg->seek_step = HRN_SEEK_STEP;
  hrn_jpeg_inspect(s->context, HRN_ENTROPY, &facts, &s->status);
  if (jpeg->seek != NULL) s->record = malloc(jpeg->seek_length);
  if (s->record == NULL) return;
  s->record_length = jpeg->seek_length;
  memcpy(s->record, jpeg->seek, s->record_length);
}

/* Decodes the window as window.c does. */
static void decode(sample *s, bool hooked) {
  hrn_context *context = s->context;
  struct jpeg_decompress_struct *info = &context->jpeg->info;
  JDIMENSION first = LEFT, columns = RIGHT - LEFT;
  if (begin_with_points(s) != HRN_OK || setjmp(context->jpeg->escape) != 0) return;
  hrn_jpeg_start(context);
  if (hooked && !hrn_hook_accepts(context)) return;
  jpeg_crop_scanline(info, &first, &columns);
  if (hooked && hrn_hook_install(context, first, columns, BOTTOM, &s->status) != HRN_OK) return;
  jpeg_skip_scanlines(info, TOP);
  s->stride = (size_t)columns * 4;
  s->pixels[hooked] = calloc(BOTTOM - TOP, s->stride);
  while (s->pixels[hooked] != NULL && info->output_scanline < BOTTOM) {
    JSAMPROW row = s->pixels[hooked] + (info->output_scanline - TOP) * s->stride;
    jpeg_read_scanlines(info, &row, 1);
  }
  const hrn_hook *hook = context->jpeg->kept_hook;
  if (hooked) {
    s->complete =
        hook->has_seek && !hook->irregular && hook->column == 0 && hook->row > hook->last_row;
  }
}

/* Makes the window with planes.c, which decodes no column beside it, and compares. The outermost
 * columns of the other two decodes are left out, because a crop makes them wrong. */
static void compare_planes(sample *s) {
  hrn_context *context = s->context;
  const hrn_box box = {LEFT + 2, TOP, RIGHT - LEFT - 4, BOTTOM - TOP};
  const uint32_t first = LEFT - LEFT % 16;
  if (begin_with_points(s) != HRN_OK || setjmp(context->jpeg->escape) != 0) return;
  hrn_jpeg_start(context);
  if (!hrn_hook_accepts(context) || !hrn_planes_accept(context)) return; /* not on this CPU */
  if (!hrn_planes_begin(context, &box, &s->status)) return;
  for (int y = 0; y < box.height; y++) {
    uint8_t row[4 * WIDTH + HRN_COLOUR_PADDING];
    const uint8_t *expected = s->pixels[0] + (size_t)y * s->stride + (LEFT + 2 - first) * 4;
    hrn_planes_read(context, row, 0, 1);
    if (memcmp(row, expected, (size_t)box.width * 4) != 0) s->planes_differ = true;
  }
}

static const char *refusal;
static bool planes_refused;

static void check(void) {
  hrn_context context = {.limits = hrn_default_limits()};
  sample s = {.context = &context};
  refusal = "its check failed"; /* stays only if the memory ran out, if at all */
  if (!hrn_jpeg_new(&context)) return;
  encode(&s);
  if (s.status.code == HRN_OK) find_points(&s);
  if (s.record != NULL) decode(&s, false);
  if (s.pixels[0] != NULL) decode(&s, true);
  if (s.pixels[0] != NULL && s.pixels[1] != NULL && s.status.code == HRN_OK) {
    refusal = NULL;
    if (!s.complete) refusal = "it does not ask for every MCU in turn";
    if (memcmp(s.pixels[0], s.pixels[1], s.stride * (BOTTOM - TOP)) != 0) {
      refusal = "its pixels differ";
    }
  }
  if (refusal == NULL) compare_planes(&s);
  planes_refused = s.planes_differ || s.status.code != HRN_OK;
  free(s.record);
  free(s.pixels[0]);
  free(s.pixels[1]);
  hrn_jpeg_free(&context);
  hrn_scratch_free(&context);
}

static void check_once(void) {
  if (LIBJPEG_TURBO_VERSION_NUMBER < OLDEST || LIBJPEG_TURBO_VERSION_NUMBER > NEWEST) {
    refusal = "its version is not one that was tested";
  } else {
    check();
  }
}

const char *hrn_hook_refusal(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, check_once);
  return refusal;
}

bool hrn_planes_refused(void) {
  hrn_hook_refusal();
  return planes_refused;
}
