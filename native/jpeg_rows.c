/* jpeg_rows.c: from coefficients to the window's RGBX without libjpeg.
 *
 * libjpeg's way through one MCU at a time costs a call for each block and for each row, and keeps
 * blocks apart that the inverse DCT can take together. Here a row of MCUs is transformed as a
 * whole, block rows that the window does not touch are left out, and no column is decoded beside
 * the window but what its chroma is made from.
 *
 * Planes hold a few rows of samples, in a ring: with chroma of half the height the last row of an
 * MCU is finished when the row of MCUs below has come.
 */
#include "jpeg_rows.h"

#include <string.h>

#include "dispatch.h"

enum { LUMA, CB, CR, COMPONENTS };

/* Bytes before a plane's row: one is read, all keep the row aligned. */
#define MARGIN 32

typedef struct plane {
  int16_t quantisation[DCTSIZE2];
  uint8_t *rows;     /* of the first MCU's left column */
  size_t stride;     /* bytes */
  uint32_t ring;     /* rows in memory, a power of 2: row y lies at y % ring */
  uint32_t h, v;     /* blocks of an MCU */
  uint32_t offset;   /* coefficients in an MCU before this plane's */
  uint32_t from, to; /* rows that the window is made from */
} plane;

typedef struct rows {
  const hrn_plane_kernels *kernels;
  plane planes[COMPONENTS];
  int components;
  size_t mcu;                           /* coefficients */
  uint32_t first_column, mcus;          /* columns of MCUs: the first, how many */
  uint32_t left, right, top, bottom;    /* the window */
  uint32_t chroma_width, chroma_height; /* of the whole image, where chroma is smaller */
  uint8_t *doubled[COMPONENTS];         /* a row of chroma upsampled, from column left & ~1 on */
} rows;

static uint32_t halve_up(uint32_t length) { return length / 2 + length % 2; }

bool hrn_rows_accepts(const hrn_context *context) {
  const struct jpeg_decompress_struct *info = &context->jpeg.info;
  if (hrn_kernels_chosen()->planes == NULL || context->denominator != 1 ||
      info->out_color_space != JCS_EXT_RGBX) {
    return false;
  }
  const jpeg_component_info *luma = &info->comp_info[0];
  if (info->jpeg_color_space == JCS_GRAYSCALE && info->num_components == 1) return true;
  if (info->jpeg_color_space != JCS_YCbCr || info->num_components != COMPONENTS) return false;
  for (int i = 0; i < COMPONENTS; i++) {
    /* A scan may name the components in another order. */
    if (info->cur_comp_info[i] != &info->comp_info[i]) return false;
    if (i > 0 && (info->comp_info[i].h_samp_factor != 1 || info->comp_info[i].v_samp_factor != 1)) {
      return false;
    }
  }
  if (luma->h_samp_factor == 1) return luma->v_samp_factor == 1;
  /* libjpeg repeats samples where chroma is only two wide. */
  return luma->h_samp_factor == 2 && luma->v_samp_factor <= 2 && info->image_width > 4;
}

/* ---- the window --------------------------------------------------------------------------- */

static bool halved_x(const rows *r) { return r->planes[LUMA].h == 2; }
static bool halved_y(const rows *r) { return r->planes[LUMA].v == 2; }

/* Which rows of each plane the window needs, and which columns and rows of MCUs those lie in. */
static void find_extent(rows *r, uint32_t *last_column, uint32_t *first_row, uint32_t *last_row) {
  const plane *luma = &r->planes[LUMA];
  uint32_t from = r->left, last = r->right - 1, width = luma->h * DCTSIZE;
  if (halved_x(r)) { /* a pixel's own column of chroma and one on each side */
    from = from / 2 > 0 ? from / 2 - 1 : 0;
    last = last / 2 + 1 < r->chroma_width ? last / 2 + 1 : r->chroma_width - 1;
    width = DCTSIZE;
  }
  r->first_column = from / width;
  *last_column = last / width;
  r->mcus = *last_column - r->first_column + 1;

  for (int i = 0; i < r->components; i++) {
    r->planes[i].from = r->top;
    r->planes[i].to = r->bottom;
    if (i == LUMA || !halved_y(r)) continue;
    /* The row above of an even one, below of an odd one. */
    r->planes[i].from = halve_up(r->top) > 0 ? halve_up(r->top) - 1 : 0;
    const uint32_t below = halve_up(r->bottom - 1);
    r->planes[i].to = below < r->chroma_height ? below + 1 : r->chroma_height;
  }
  /* Chroma of half the height reaches as far as luma or further. */
  const plane *outer = &r->planes[r->components - 1];
  *first_row = outer->from / (DCTSIZE * outer->v);
  *last_row = (outer->to - 1) / (DCTSIZE * outer->v);
}

static void describe_planes(rows *r, const struct jpeg_decompress_struct *info) {
  r->components = info->num_components;
  r->chroma_width = halve_up(info->image_width);
  r->chroma_height = halve_up(info->image_height);
  uint32_t blocks = 0;
  for (int i = 0; i < r->components; i++) {
    plane *p = &r->planes[i];
    const jpeg_component_info *component = &info->comp_info[i];
    p->h = (uint32_t)component->h_samp_factor;
    p->v = (uint32_t)component->v_samp_factor;
    p->offset = blocks * HRN_BLOCK;
    blocks += p->h * p->v;
    /* As libjpeg's multipliers, 16 bits of whatever the file says. */
    for (int k = 0; k < DCTSIZE2; k++) {
      p->quantisation[k] = (int16_t)component->quant_table->quantval[k];
    }
  }
  r->mcu = (size_t)blocks * HRN_BLOCK;
}

static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* One buffer for the planes and the doubled rows of chroma. */
static bool place_planes(hrn_context *context, rows *r, hrn_status *status) {
  const uint32_t extra = halved_y(r) ? 2 : 1; /* rows of MCUs in memory */
  size_t bytes = 0;
  for (int i = 0; i < r->components; i++) {
    plane *p = &r->planes[i];
    p->stride = aligned(MARGIN + (size_t)r->mcus * p->h * DCTSIZE + HRN_PLANE_PADDING);
    p->ring = DCTSIZE * p->v * extra;
    bytes += p->stride * p->ring;
  }
  const size_t doubled =
      halved_x(r) ? aligned((size_t)(r->right - r->left) + 2 + 2 * HRN_PLANE_PADDING) : 0;
  uint8_t *at = hrn_scratch(context, HRN_SCRATCH_PLANES, bytes + 2 * doubled, status);
  if (at == NULL) return false;
  for (int i = 0; i < r->components; i++) {
    r->planes[i].rows = at + MARGIN;
    at += r->planes[i].stride * r->planes[i].ring;
  }
  r->doubled[CB] = at;
  r->doubled[CR] = at + doubled;
  return true;
}

/* ---- rows of MCUs ------------------------------------------------------------------------- */

static uint8_t *row_of(const plane *p, uint32_t y) { return p->rows + y % p->ring * p->stride; }

/* Beyond the image's sides upsampling takes the outermost column again. */
static void repeat_sides(const rows *r, uint8_t *row) {
  const uint32_t width = r->chroma_width - r->first_column * DCTSIZE;
  if (r->first_column == 0) row[-1] = row[0];
  if (width <= r->mcus * DCTSIZE) row[width] = row[width - 1];
}

static void transform_blocks(const rows *r, const plane *p, const int16_t *blocks, uint8_t *to) {
  if (p->h == 2) {
    const hrn_block_pairs all = {blocks, HRN_BLOCK, r->mcu, r->mcus};
    r->kernels->idct(&all, p->quantisation, to, p->stride);
    return;
  }
  const hrn_block_pairs even = {blocks, r->mcu, 2 * r->mcu, r->mcus / 2};
  r->kernels->idct(&even, p->quantisation, to, p->stride);
  if (r->mcus % 2 != 0) { /* the last one twice, into the padding */
    const hrn_block_pairs one = {blocks + (r->mcus - 1) * r->mcu, 0, 0, 1};
    r->kernels->idct(&one, p->quantisation, to + (r->mcus - 1) * DCTSIZE, p->stride);
  }
}

static void transform_row(const rows *r, const int16_t *mcus, uint32_t row) {
  for (int i = 0; i < r->components; i++) {
    const plane *p = &r->planes[i];
    for (uint32_t block = 0; block < p->v; block++) {
      const uint32_t y = (row * p->v + block) * DCTSIZE;
      if (y + DCTSIZE <= p->from || y >= p->to) continue;
      transform_blocks(r, p, mcus + p->offset + block * p->h * HRN_BLOCK, row_of(p, y));
      if (i == LUMA || !halved_x(r)) continue;
      for (uint32_t k = 0; k < DCTSIZE; k++) repeat_sides(r, row_of(p, y + k));
    }
  }
}

/* ---- rows of pixels ----------------------------------------------------------------------- */

/* A row of chroma at the width of the image. */
static const uint8_t *upsample(const rows *r, int component, uint32_t y) {
  const plane *p = &r->planes[component];
  const uint32_t column = r->left / 2 - r->first_column * DCTSIZE;
  const int32_t count = (int32_t)(halve_up(r->right) - r->left / 2);
  uint8_t *to = r->doubled[component];
  if (!halved_y(r)) {
    r->kernels->h2v1(row_of(p, y) + column, count, to);
  } else {
    const uint32_t near = y / 2, above = near > 0 ? near - 1 : 0,
                   below = near + 1 < r->chroma_height ? near + 1 : near;
    r->kernels->h2v2(row_of(p, near) + column, row_of(p, y % 2 == 0 ? above : below) + column,
                     count, to);
  }
  return to + r->left % 2;
}

static void finish_row(const rows *r, uint32_t y, uint8_t *rgbx) {
  const uint32_t column = r->left - r->first_column * DCTSIZE * r->planes[LUMA].h;
  const int32_t count = (int32_t)(r->right - r->left);
  const uint8_t *luma = row_of(&r->planes[LUMA], y) + column;
  if (r->components == 1) {
    r->kernels->grey(luma, count, rgbx);
  } else if (halved_x(r)) {
    r->kernels->colour(luma, upsample(r, CB, y), upsample(r, CR, y), count, rgbx);
  } else {
    r->kernels->colour(luma, row_of(&r->planes[CB], y) + column, row_of(&r->planes[CR], y) + column,
                       count, rgbx);
  }
}

bool hrn_rows_window(hrn_context *context, const hrn_box *box, hrn_image *image,
                     hrn_status *status) {
  rows r = {.kernels = hrn_kernels_chosen()->planes,
            .left = (uint32_t)box->left,
            .right = (uint32_t)box->left + (uint32_t)box->width,
            .top = (uint32_t)box->top,
            .bottom = (uint32_t)box->top + (uint32_t)box->height};
  uint32_t last_column, first_row, last_row;
  describe_planes(&r, &context->jpeg.info);
  find_extent(&r, &last_column, &first_row, &last_row);
  if (hrn_hook_window(context, r.first_column, last_column, last_row, status) != HRN_OK ||
      !place_planes(context, &r, status)) {
    return false;
  }
  const size_t stride = (size_t)box->width * 4;
  uint8_t *pixels = hrn_scratch(context, HRN_SCRATCH_DECODE,
                                (size_t)box->height * stride + HRN_COLOUR_PADDING, status);
  if (pixels == NULL) return false;
  *image = (hrn_image){pixels, stride, box->width, box->height};

  uint32_t y = r.top;
  for (uint32_t row = first_row; row <= last_row; row++) {
    const int16_t *mcus = hrn_hook_row(context->hook, row);
    if (mcus == NULL) break;
    transform_row(&r, mcus, row);
    /* The last row of pixels needs chroma of the MCUs below, if there are any. */
    uint32_t ready = (row + 1) * DCTSIZE * r.planes[LUMA].v - (halved_y(&r) ? 1 : 0);
    if (row == last_row || ready > r.bottom) ready = r.bottom;
    for (; y < ready; y++) finish_row(&r, y, pixels + (size_t)(y - r.top) * stride);
  }
  return true;
}
