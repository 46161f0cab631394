/* planes.c: makes the window's RGBX pixels from coefficients, without libjpeg.
 *
 * libjpeg works through one MCU at a time. That costs a call for each block and for each row, and
 * separates blocks that the inverse DCT can take together. Here a row of MCUs is transformed as a
 * whole, and block rows that the window does not touch are left out. Beside the window only those
 * columns are decoded that its chroma is made from.
 *
 * A plane holds a few rows of samples, in a ring. With chroma of half the height, the last row of
 * pixels of an MCU can only be finished when the row of MCUs below is there.
 */
#include "hook.h"

/* Bytes before a plane's row. One is read; the number keeps the row aligned. */
#define MARGIN 32

static uint32_t halve_up(uint32_t length) { return length / 2 + length % 2; }

bool hrn_planes_accept(const hrn_context *context) {
  const struct jpeg_decompress_struct *info = &context->jpeg->info;
  if (hrn_plane_kernels_chosen() == NULL || context->jpeg->denominator != 1 ||
      info->out_color_space != JCS_EXT_RGBX) {
    return false;
  }
  const jpeg_component_info *luma = &info->comp_info[0];
  if (info->jpeg_color_space == JCS_GRAYSCALE && info->num_components == 1) return true;
  if (info->jpeg_color_space != JCS_YCbCr || info->num_components != HRN_PLANES) return false;
  for (int i = 0; i < HRN_PLANES; i++) {
    /* A scan may name the components in another order. */
    if (info->cur_comp_info[i] != &info->comp_info[i]) return false;
    if (i > 0 && (info->comp_info[i].h_samp_factor != 1 || info->comp_info[i].v_samp_factor != 1)) {
      return false;
    }
  }
  if (luma->h_samp_factor == 1) return luma->v_samp_factor == 1;
  /* libjpeg repeats samples if chroma is only two wide. */
  return luma->h_samp_factor == 2 && luma->v_samp_factor <= 2 && info->image_width > 4;
}

/* ---- the window --------------------------------------------------------------------------- */

static bool halved_x(const hrn_planes *p) { return p->plane[HRN_LUMA].h == 2; }
static bool halved_y(const hrn_planes *p) { return p->plane[HRN_LUMA].v == 2; }

/* Which rows of each plane the window needs, and which columns and rows of MCUs those lie in. */
static void find_extent(hrn_planes *p) {
  const hrn_plane *luma = &p->plane[HRN_LUMA];
  uint32_t from = p->left, last = p->right - 1, width = luma->h * DCTSIZE;
  if (halved_x(p)) { /* a pixel's own column of chroma and one on each side */
    from = from / 2 > 0 ? from / 2 - 1 : 0;
    last = last / 2 + 1 < p->chroma_width ? last / 2 + 1 : p->chroma_width - 1;
    width = DCTSIZE;
  }
  p->first_column = from / width;
  p->mcus = last / width - p->first_column + 1;

  for (int i = 0; i < p->count; i++) {
    p->plane[i].from = p->top;
    p->plane[i].to = p->bottom;
    if (i == HRN_LUMA || !halved_y(p)) continue;
    /* An even row of pixels needs the row of chroma above its own, an odd one the row below. */
    p->plane[i].from = halve_up(p->top) > 0 ? halve_up(p->top) - 1 : 0;
    const uint32_t below = halve_up(p->bottom - 1);
    p->plane[i].to = below < p->chroma_height ? below + 1 : p->chroma_height;
  }
  /* Chroma of half the height reaches as far as luma or further. */
  const hrn_plane *outer = &p->plane[p->count - 1];
  p->row = outer->from / (DCTSIZE * outer->v);
  p->last_row = (outer->to - 1) / (DCTSIZE * outer->v);
}

static void describe_planes(hrn_planes *p, const struct jpeg_decompress_struct *info) {
  p->count = info->num_components;
  p->chroma_width = halve_up(info->image_width);
  p->chroma_height = halve_up(info->image_height);
  uint32_t blocks = 0;
  for (int i = 0; i < p->count; i++) {
    hrn_plane *plane = &p->plane[i];
    const jpeg_component_info *component = &info->comp_info[i];
    plane->h = (uint32_t)component->h_samp_factor;
    plane->v = (uint32_t)component->v_samp_factor;
    plane->offset = blocks * HRN_BLOCK;
    blocks += plane->h * plane->v;
    /* 16 bits of whatever the file says, as libjpeg's multipliers. */
    for (int k = 0; k < DCTSIZE2; k++) {
      plane->quantisation[k] = (int16_t)component->quant_table->quantval[k];
    }
  }
  p->mcu = (size_t)blocks * HRN_BLOCK;
}

static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* One buffer for the planes and the doubled rows of chroma. */
static bool place_planes(hrn_context *context, hrn_planes *p, hrn_status *status) {
  const uint32_t extra = halved_y(p) ? 2 : 1; /* rows of MCUs in memory */
  size_t bytes = 0;
  for (int i = 0; i < p->count; i++) {
    hrn_plane *plane = &p->plane[i];
    plane->stride = aligned(MARGIN + (size_t)p->mcus * plane->h * DCTSIZE + HRN_PLANE_PADDING);
    plane->ring = DCTSIZE * plane->v * extra;
    bytes += plane->stride * plane->ring;
  }
  const size_t doubled =
      halved_x(p) ? aligned((size_t)(p->right - p->left) + 2 + 2 * HRN_PLANE_PADDING) : 0;
  uint8_t *at = hrn_scratch(context, HRN_SCRATCH_PLANES, bytes + 2 * doubled, status);
  if (at == NULL) return false;
  for (int i = 0; i < p->count; i++) {
    p->plane[i].rows = at + MARGIN;
    at += p->plane[i].stride * p->plane[i].ring;
  }
  p->doubled[HRN_CB] = at;
  p->doubled[HRN_CR] = at + doubled;
  return true;
}

/* ---- rows of MCUs ------------------------------------------------------------------------- */

static uint8_t *row_of(const hrn_plane *plane, uint32_t y) {
  return plane->rows + y % plane->ring * plane->stride;
}

/* Upsampling repeats the outermost column beyond the image's sides. */
static void repeat_sides(const hrn_planes *p, uint8_t *row) {
  const uint32_t width = p->chroma_width - p->first_column * DCTSIZE;
  if (p->first_column == 0) row[-1] = row[0];
  if (width <= p->mcus * DCTSIZE) row[width] = row[width - 1];
}

static void transform_blocks(const hrn_planes *p, const hrn_plane *plane, const int16_t *blocks,
                             uint8_t *to) {
  if (plane->h == 2) {
    const hrn_block_pairs all = {blocks, HRN_BLOCK, p->mcu, p->mcus};
    p->kernels->idct(&all, plane->quantisation, to, plane->stride);
    return;
  }
  const hrn_block_pairs even = {blocks, p->mcu, 2 * p->mcu, p->mcus / 2};
  p->kernels->idct(&even, plane->quantisation, to, plane->stride);
  if (p->mcus % 2 != 0) { /* the last one is paired with itself; the copy goes into the padding */
    const hrn_block_pairs one = {blocks + (p->mcus - 1) * p->mcu, 0, 0, 1};
    p->kernels->idct(&one, plane->quantisation, to + (p->mcus - 1) * DCTSIZE, plane->stride);
  }
}

static void transform_row(const hrn_planes *p, const int16_t *mcus) {
  for (int i = 0; i < p->count; i++) {
    const hrn_plane *plane = &p->plane[i];
    for (uint32_t block = 0; block < plane->v; block++) {
      const uint32_t y = (p->row * plane->v + block) * DCTSIZE;
      if (y + DCTSIZE <= plane->from || y >= plane->to) continue;
      transform_blocks(p, plane, mcus + plane->offset + block * plane->h * HRN_BLOCK,
                       row_of(plane, y));
      if (i == HRN_LUMA || !halved_x(p)) continue;
      for (uint32_t k = 0; k < DCTSIZE; k++) repeat_sides(p, row_of(plane, y + k));
    }
  }
}

/* ---- rows of pixels ----------------------------------------------------------------------- */

/* A row of chroma at the width of the image. */
static const uint8_t *upsample(const hrn_planes *p, int component, uint32_t y) {
  const hrn_plane *plane = &p->plane[component];
  const uint32_t column = p->left / 2 - p->first_column * DCTSIZE;
  const int32_t count = (int32_t)(halve_up(p->right) - p->left / 2);
  uint8_t *to = p->doubled[component];
  if (!halved_y(p)) {
    p->kernels->h2v1(row_of(plane, y) + column, count, to);
  } else {
    const uint32_t near = y / 2, above = near > 0 ? near - 1 : 0,
                   below = near + 1 < p->chroma_height ? near + 1 : near;
    p->kernels->h2v2(row_of(plane, near) + column,
                     row_of(plane, y % 2 == 0 ? above : below) + column, count, to);
  }
  return to + p->left % 2;
}

static void finish_row(const hrn_planes *p, uint8_t *rgbx) {
  const uint32_t y = p->y;
  const uint32_t column = p->left - p->first_column * DCTSIZE * p->plane[HRN_LUMA].h;
  const int32_t count = (int32_t)(p->right - p->left);
  const uint8_t *luma = row_of(&p->plane[HRN_LUMA], y) + column;
  if (p->count == 1) {
    p->kernels->grey(luma, count, rgbx);
  } else if (halved_x(p)) {
    p->kernels->colour(luma, upsample(p, HRN_CB, y), upsample(p, HRN_CR, y), count, rgbx);
  } else {
    p->kernels->colour(luma, row_of(&p->plane[HRN_CB], y) + column,
                       row_of(&p->plane[HRN_CR], y) + column, count, rgbx);
  }
}

bool hrn_planes_begin(hrn_context *context, const hrn_box *box, hrn_status *status) {
  hrn_planes *p = &context->jpeg->kept_hook->planes;
  *p = (hrn_planes){.kernels = hrn_plane_kernels_chosen(),
                    .left = (uint32_t)box->left,
                    .right = (uint32_t)box->left + (uint32_t)box->width,
                    .top = (uint32_t)box->top,
                    .bottom = (uint32_t)box->top + (uint32_t)box->height};
  p->y = p->ready = p->top;
  describe_planes(p, &context->jpeg->info);
  find_extent(p);
  return hrn_hook_window(context, p->first_column, p->first_column + p->mcus - 1, p->last_row,
                         status) == HRN_OK &&
         place_planes(context, p, status);
}

void hrn_planes_read(hrn_context *context, uint8_t *first, size_t stride, uint32_t count) {
  hrn_planes *p = &context->jpeg->kept_hook->planes;
  for (; count > 0 && p->y < p->bottom; count--, p->y++, first += stride) {
    while (p->y >= p->ready) {
      const int16_t *mcus = hrn_hook_row(context->jpeg->kept_hook, p->row);
      if (mcus == NULL) return;
      transform_row(p, mcus);
      /* The last row of pixels needs chroma of the MCUs below, if there are any. */
      const uint32_t below = (p->row + 1) * DCTSIZE * p->plane[HRN_LUMA].v;
      p->ready = p->row == p->last_row ? p->bottom : below - (halved_y(p) ? 1 : 0);
      p->row++;
    }
    finish_row(p, first);
  }
}
