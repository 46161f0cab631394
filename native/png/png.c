/* png.c: reads the header of a PNG, the pixels of a window of it, and its verdict. */
#include <string.h>

#include "png.h"

/* Adam7: the image is stored as seven small ones. Each is a grid of its pixels: where the grid
 * begins, and how far apart its lines are. */
typedef struct pass {
  uint32_t left, top, dx, dy;
} pass;

static const pass adam7[] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                             {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
static const pass whole[] = {{0, 0, 1, 1}};

/* How many of a grid's lines are below `end`. */
static uint32_t lines(uint32_t end, uint32_t first, uint32_t apart) {
  return end <= first ? 0 : (end - first + apart - 1) / apart;
}

/* The chunks before the image data are read once; windows then begin at the first IDAT. */
int hrn_png_header(hrn_context *context, uint32_t *width, uint32_t *height, hrn_status *status) {
  hrn_png *png = context->png;
  if (hrn_png_read_chunks(png, context->bytes, context->length, status) != HRN_OK) {
    return status->code;
  }
  *width = png->width;
  *height = png->height;
  return hrn_check_pixels(context, *width, *height, status);
}

/* What a row's samples become, with so many bytes for each pixel. */
typedef struct form {
  size_t bytes;
  void (*row)(const hrn_png *png, const uint8_t *row, uint32_t left, uint32_t count, uint8_t *to);
} form;

static const form colours = {4, hrn_png_row}, classes = {1, hrn_png_class_row};

/* Two rows of stored samples, with their filter bytes, which take turns; and the pixels of one row
 * that still have to be spread. */
typedef struct rows {
  const form *form;
  uint8_t *current, *above, *spread;
} rows;

/* Reads row `y` of a pass into r->current; the row read before becomes r->above. The filter is
 * undone for the first `seen` of its `bytes`. */
static int read_row(hrn_png *png, rows *r, uint32_t y, size_t bytes, size_t seen,
                    hrn_status *status) {
  uint8_t *last = r->above;
  r->above = r->current;
  r->current = last;
  /* The row above the first one is zeros (PNG 9.2), in each pass. */
  if (y == 0) memset(r->above, 0, bytes + 1);
  if (hrn_png_stream_read(png, r->current, bytes + 1, status) != HRN_OK) return status->code;
  if (!hrn_png_unfilter(png, r->current[0], r->current + 1, r->above + 1, seen)) {
    return hrn_fail(status, HRN_BAD, -1, "row %u has filter type %d", y, r->current[0]);
  }
  return HRN_OK;
}

/* Makes the pixels of a pass that lie in the window. Filters need each row above, so the filters of
 * rows above the window are undone as well, up to its right edge, but their pixels are not made. A
 * pass without columns has no rows. */
static int read_pass(hrn_png *png, const pass *p, const hrn_box *box, rows *r, uint8_t *pixels,
                     size_t stride, hrn_status *status) {
  uint32_t left = (uint32_t)box->left, right = left + (uint32_t)box->width;
  uint32_t top = (uint32_t)box->top, bottom = top + (uint32_t)box->height;
  uint32_t columns = lines(png->width, p->left, p->dx);
  uint32_t rows_here = lines(png->height, p->top, p->dy);
  uint32_t first = lines(left, p->left, p->dx), count = lines(right, p->left, p->dx) - first;
  size_t bytes = hrn_png_row_bytes(png, columns), pixel = r->form->bytes;
  size_t seen = hrn_png_row_bytes(png, first + count);
  if (columns == 0) return HRN_OK;
  /* Only the last pass may stop below the window: the others have more data behind them. */
  if (p->dx == 1) rows_here = lines(bottom, p->top, p->dy);

  for (uint32_t i = 0; i < rows_here; i++) {
    if (read_row(png, r, i, bytes, seen, status) != HRN_OK) return status->code;
    uint32_t y = p->top + i * p->dy;
    if (y < top || y >= bottom || count == 0) continue;
    uint8_t *to = pixels + (size_t)(y - top) * stride;
    if (p->dx == 1) {
      r->form->row(png, r->current + 1, first, count, to);
      continue;
    }
    /* A pass of Adam7 has every dx-th pixel. They are made side by side and then spread. */
    r->form->row(png, r->current + 1, first, count, r->spread);
    to += (size_t)(p->left + first * p->dx - left) * pixel;
    for (uint32_t x = 0; x < count; x++, to += pixel * p->dx) {
      memcpy(to, r->spread + pixel * x, pixel);
    }
  }
  return HRN_OK;
}

/* Takes one block of scratch memory: the window's pixels, two rows, and one row to spread.
 * max_pixels can be set to anything, so these products may be large. */
static uint8_t *take_scratch(hrn_context *context, const hrn_box *box, size_t stride, rows *r,
                             hrn_status *status) {
  const hrn_png *png = context->png;
  size_t row = hrn_png_row_bytes(png, png->width) + 1, pixels, total;
  if (__builtin_mul_overflow(stride, (size_t)box->height, &pixels) ||
      __builtin_add_overflow(pixels, 2 * row + stride, &total)) {
    total = SIZE_MAX; /* refused with its number by the limit */
  }
  uint8_t *base = hrn_scratch(context, HRN_SCRATCH_DECODE, total, status);
  if (base == NULL) return NULL;
  r->current = base + pixels;
  r->above = r->current + row;
  r->spread = r->above + row;
  return base;
}

/* For an interlaced image, too, only the window is kept: every pass writes its pixels to their
 * places in it. */
static int read_window(hrn_context *context, const form *form, const hrn_box *box, uint8_t **found,
                       hrn_status *status) {
  hrn_png *png = context->png;
  size_t stride = (size_t)box->width * form->bytes;
  rows r = {.form = form};
  uint8_t *pixels = take_scratch(context, box, stride, &r, status);
  if (pixels == NULL || hrn_png_stream_begin(png, status) != HRN_OK) return status->code;
  /* An image that is not interlaced is one pass with a grid of distance 1. */
  const pass *passes = png->interlaced ? adam7 : whole;
  for (int i = 0; i < (png->interlaced ? 7 : 1); i++) {
    if (read_pass(png, &passes[i], box, &r, pixels, stride, status) != HRN_OK) return status->code;
  }
  *found = pixels;
  return HRN_OK;
}

int hrn_png_window(hrn_context *context, const hrn_box *box, hrn_image *image, hrn_status *status) {
  uint8_t *pixels;
  if (read_window(context, &colours, box, &pixels, status) != HRN_OK) return status->code;
  *image = (hrn_image){pixels, (size_t)box->width * colours.bytes, box->width, box->height};
  return HRN_OK;
}

int hrn_png_classes(hrn_context *context, const hrn_box *box, uint8_t **found, hrn_status *status) {
  return read_window(context, &classes, box, found, status);
}

/* Reads all rows for the verdict: inflates them and checks their filter types, but makes no
 * pixels. */
static int read_all(hrn_context *context, hrn_status *status) {
  hrn_png *png = context->png;
  const pass *passes = png->interlaced ? adam7 : whole;
  uint8_t *row =
      hrn_scratch(context, HRN_SCRATCH_DECODE, hrn_png_row_bytes(png, png->width) + 1, status);
  if (row == NULL || hrn_png_stream_begin(png, status) != HRN_OK) return status->code;
  for (int i = 0; i < (png->interlaced ? 7 : 1); i++) {
    uint32_t columns = lines(png->width, passes[i].left, passes[i].dx);
    uint32_t count = columns == 0 ? 0 : lines(png->height, passes[i].top, passes[i].dy);
    uint64_t bytes = hrn_png_row_bytes(png, columns) + 1;
    for (uint32_t y = 0; y < count; y++) {
      if (hrn_png_stream_read(png, row, bytes, status) != HRN_OK) return status->code;
      if (row[0] > 4) {
        return hrn_fail(status, HRN_BAD, -1, "row %u has filter type %d", y, row[0]);
      }
    }
  }
  status->warnings = hrn_png_stream_end(png);
  return HRN_OK;
}

/* Facts are given even if the chunks are bad, so those of the last record are cleared first. */
int hrn_png_inspect(hrn_context *context, int depth, hrn_facts *facts, hrn_status *status) {
  hrn_png *png = context->png;
  uint32_t width = 0, height = 0;
  memset(png->palette, 0, sizeof png->palette);
  png->width = png->height = 0;
  png->channels = png->bit_depth = 0;
  png->interlaced = false;
  hrn_png_header(context, &width, &height, status);
  facts->width = png->width;
  facts->height = png->height;
  facts->channels = png->channels;
  facts->bits = png->bit_depth;
  facts->process = png->interlaced ? HRN_PROCESS_PNG_INTERLACED : HRN_PROCESS_PNG;
  facts->orientation = png->orientation;
  if (status->code != HRN_OK || depth != HRN_ENTROPY) return status->code;
  facts->scans = 1;
  return read_all(context, status);
}
