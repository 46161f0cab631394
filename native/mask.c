/* mask.c: moves a mask with its image, op by op, as torchvision's v2 moves a Mask.
 *
 * A mask holds classes, so each output shows one source or a fill. That source is not Pillow's
 * nearest pixel: torchvision resizes and warps masks as tensors. Their rule for a resize is another
 * one (floor(o * scale), not the pixel under the centre), and their warps work in single precision.
 * Ops along the axes only change which column and row are shown, so a run of such ops costs one
 * pass. Nothing of a file is decoded before it is known what that pass looks at.
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "maskwarp.h"
#include "native.h"

/* What is shown of a mask: the source of each column and row. Numbers below 0 are places outside,
 * which show a value: -1 - value for op 0, -257 - value for op 1, and so on. A later op has a lower
 * number, and its value is the one that shows. */
typedef struct seen {
  hrn_context *context;
  const uint8_t *pixels; /* pixels of the mask when the maps were last written out */
  bool encoded; /* the mask is a file that the context has open; nothing is written out yet */
  int32_t stride;
  int32_t width, height; /* size now */
  int32_t *columns, *rows;
  int turn, spare; /* which scratch buffers the next maps and the next mask go to */
  int32_t ops;
  int32_t fill; /* HRN_MASK_FILL_OF_OP, or what all ops show */
} seen;

/* The mask's value for what lies outside the image, for an op that fills images with `value`. */
static uint8_t fill_of(const seen *s, double value) {
  return (uint8_t)(s->fill == HRN_MASK_FILL_OF_OP ? value : s->fill);
}

/* One axis of an op: which position of the line before the op is shown at `at`. */
enum rule_kind { SHIFT, MIRROR, RESIZE, PAD };
typedef struct rule {
  enum rule_kind kind;
  int32_t length, result; /* before and after the op */
  int32_t start;
  hrn_padding padding;
  int32_t mode;
} rule;

static int32_t source_of(const rule *r, int32_t at) {
  switch (r->kind) {
    case SHIFT:
      at += r->start;
      return at >= 0 && at < r->length ? at : -1;
    case MIRROR:
      return r->length - 1 - at;
    case RESIZE: {
      /* torch's interpolate(mode="nearest"): in single precision, truncated. */
      const float scale = (float)r->length / (float)r->result;
      const int32_t found = (int32_t)floorf((float)at * scale);
      return found < r->length ? found : r->length - 1;
    }
    default:
      return hrn_padded_source(&r->padding, r->mode, r->length, at);
  }
}

/* Takes room for `width` columns and, behind them, `height` rows. */
static int32_t *next_maps(seen *s, int32_t width, int32_t height, hrn_status *status) {
  int32_t *maps = hrn_scratch(s->context, s->turn ? HRN_SCRATCH_FILTER : HRN_SCRATCH_MAPS,
                              ((size_t)width + (size_t)height) * sizeof *maps, status);
  s->turn = !s->turn;
  return maps;
}

static void apply_rule(const rule *r, int32_t outside, const int32_t *before, int32_t *after) {
  for (int32_t at = 0; at < r->result; at++) {
    const int32_t source = source_of(r, at);
    after[at] = source < 0 ? outside : before[source];
  }
}

static int apply(seen *s, const rule *x, const rule *y, uint8_t fill, hrn_status *status) {
  int32_t *columns = next_maps(s, x->result, y->result, status);
  if (columns == NULL) return status->code;
  int32_t *rows = columns + x->result;
  const int32_t outside = -1 - 256 * s->ops++ - fill;
  apply_rule(x, outside, s->columns, columns);
  apply_rule(y, outside, s->rows, rows);
  s->columns = columns;
  s->rows = rows;
  s->width = x->result;
  s->height = y->result;
  return HRN_OK;
}

/* Finds the first source of a map and the one behind the last; 0 and 0 if all is outside. */
static void reach(const int32_t *map, int32_t length, int32_t *first, int32_t *end) {
  *first = *end = 0;
  for (int32_t at = 0; at < length; at++) {
    if (map[at] < 0) continue;
    if (*end == 0 || map[at] < *first) *first = map[at];
    if (map[at] >= *end) *end = map[at] + 1;
  }
}

static void shift(int32_t *map, int32_t length, int32_t by) {
  for (int32_t at = 0; at < length; at++) {
    if (map[at] >= 0) map[at] -= by;
  }
}

/* Decodes the part of a file that the maps look at, and makes them look at that part. */
static int decode_seen(seen *s, hrn_status *status) {
  int32_t left, right, top, bottom;
  reach(s->columns, s->width, &left, &right);
  reach(s->rows, s->height, &top, &bottom);
  if (right == 0 || bottom == 0) { /* no pixel is looked at, but there must be one */
    left = top = 0;
    right = bottom = 1;
  }
  const hrn_box box = {left, top, right - left, bottom - top};
  uint8_t *classes;
  if (hrn_decode_classes(s->context, &box, &classes, status) != HRN_OK) return status->code;
  shift(s->columns, s->width, left);
  shift(s->rows, s->height, top);
  s->pixels = classes;
  s->stride = box.width;
  s->encoded = false;
  return HRN_OK;
}

static int write_out(seen *s, uint8_t *out, hrn_status *status) {
  if (s->encoded && decode_seen(s, status) != HRN_OK) return status->code;
  for (int32_t y = 0; y < s->height; y++) {
    const int32_t row = s->rows[y];
    const uint8_t *source = row < 0 ? NULL : s->pixels + (size_t)row * (size_t)s->stride;
    for (int32_t x = 0; x < s->width; x++) {
      const int32_t column = s->columns[x], place = row < column ? row : column;
      *out++ = place < 0 ? (uint8_t)((-1 - place) % 256) : source[column];
    }
  }
  return HRN_OK;
}

/* Begins with a mask that is shown as it is. */
static int begin(seen *s, const uint8_t *pixels, int32_t width, int32_t height,
                 hrn_status *status) {
  s->columns = next_maps(s, width, height, status);
  if (s->columns == NULL) return status->code;
  s->rows = s->columns + width;
  for (int32_t x = 0; x < width; x++) s->columns[x] = x;
  for (int32_t y = 0; y < height; y++) s->rows[y] = y;
  s->pixels = pixels;
  s->stride = s->width = width;
  s->height = height;
  return HRN_OK;
}

static uint8_t *spare_mask(seen *s, int32_t width, int32_t height, hrn_status *status) {
  uint8_t *pixels = hrn_scratch(s->context, s->spare ? HRN_SCRATCH_PIXELS_B : HRN_SCRATCH_PIXELS_A,
                                (size_t)width * (size_t)height, status);
  s->spare = !s->spare;
  return pixels;
}

static int crop(seen *s, const hrn_op_box *box, hrn_status *status) {
  const rule x = {.kind = SHIFT, .length = s->width, .result = box->width, .start = box->left};
  const rule y = {.kind = SHIFT, .length = s->height, .result = box->height, .start = box->top};
  return apply(s, &x, &y, 0, status);
}

static int resize(seen *s, const hrn_op_size *size, hrn_status *status) {
  const rule x = {.kind = RESIZE, .length = s->width, .result = size->width};
  const rule y = {.kind = RESIZE, .length = s->height, .result = size->height};
  return apply(s, &x, &y, 0, status);
}

static int flip(seen *s, int across, hrn_status *status) {
  rule x = {.kind = SHIFT, .length = s->width, .result = s->width};
  rule y = {.kind = SHIFT, .length = s->height, .result = s->height};
  *(across ? &x.kind : &y.kind) = MIRROR;
  return apply(s, &x, &y, 0, status);
}

/* Pads as geometry.c pads the image: by the op's numbers, and then, for a random crop, by what is
 * missing for its size. */
static int pad(seen *s, const hrn_op *op, const hrn_op_padding *p, const hrn_op_size *size,
               hrn_status *status) {
  const int32_t wide = s->width + p->left + p->right, high = s->height + p->top + p->bottom;
  const int32_t across = size != NULL && wide < size->width ? size->width - wide : 0;
  const int32_t down = size != NULL && high < size->height ? size->height - high : 0;
  const rule x = {PAD, s->width, wide + 2 * across, 0, {p->left, p->right, across}, p->mode};
  const rule y = {PAD, s->height, high + 2 * down, 0, {p->top, p->bottom, down}, p->mode};
  return apply(s, &x, &y, fill_of(s, op->fill[0]), status);
}

static int affine(seen *s, const hrn_op *op, hrn_status *status) {
  const hrn_pixel_affine *a = &op->pixel.args.affine;
  const int32_t width = s->width, height = s->height;
  const int32_t to_width = a->size[0] > 0 ? a->size[0] : width;
  const int32_t to_height = a->size[0] > 0 ? a->size[1] : height;
  uint8_t *from = spare_mask(s, width, height, status);
  if (from == NULL || write_out(s, from, status) != HRN_OK) return status->code;
  uint8_t *to = spare_mask(s, to_width, to_height, status);
  if (to == NULL) return status->code;
  hrn_warp_mask_affine(from, width, height, a->coefficients, to, to_width, to_height,
                       fill_of(s, op->fill[0]));
  return begin(s, to, to_width, to_height, status);
}

static int perspective(seen *s, const hrn_op *op, hrn_status *status) {
  const int32_t width = s->width, height = s->height;
  uint8_t *from = spare_mask(s, width, height, status);
  if (from == NULL || write_out(s, from, status) != HRN_OK) return status->code;
  uint8_t *to = spare_mask(s, width, height, status);
  if (to == NULL) return status->code;
  hrn_warp_mask_perspective(from, width, height, op->pixel.args.perspective, to,
                            fill_of(s, op->fill[0]));
  return begin(s, to, width, height, status);
}

/* torchvision's elastic_mask. */
static int displace(seen *s, const hrn_op *op, hrn_status *status) {
  const int32_t width = s->width, height = s->height;
  const hrn_pixel_op pixel = {.kind = op->pixel.kind, .args = op->pixel.args};
  uint8_t *from = spare_mask(s, width, height, status);
  if (from == NULL || write_out(s, from, status) != HRN_OK) return status->code;
  uint8_t *to = spare_mask(s, width, height, status), *out = to;
  if (to == NULL) return status->code;
  const float *field = hrn_displacements(s->context, &pixel, width, height, status);
  if (field == NULL) return status->code;
  const uint8_t fill = pixel.args.elastic.outside.filled ? fill_of(s, op->fill[0]) : 0;
  for (int32_t y = 0; y < height; y++) {
    for (int32_t x = 0; x < width; x++, field += 2) {
      float place[2];
      hrn_displaced_place(field, x, y, width, height, place);
      const float across = rintf(place[0]), down = rintf(place[1]);
      const int inside = across >= 0 && across < (float)width && down >= 0 && down < (float)height;
      *out++ = inside ? from[(size_t)down * (size_t)width + (size_t)across] : fill;
    }
  }
  return begin(s, to, width, height, status);
}

static int move_pixels(seen *s, const hrn_op *op, hrn_status *status) {
  switch (op->pixel.kind) {
    case HRN_PIXEL_AFFINE:
      return affine(s, op, status);
    case HRN_PIXEL_PERSPECTIVE:
      return perspective(s, op, status);
    case HRN_PIXEL_ELASTIC:
      return displace(s, op, status);
    default: /* colour */
      return HRN_OK;
  }
}

static int move(seen *s, const hrn_drawn *drawn, hrn_status *status) {
  const hrn_op *op = &drawn->op;
  switch (op->kind) {
    case HRN_OP_CROP:
      return crop(s, &op->box, status);
    case HRN_OP_CENTER_CROP: {
      const hrn_op_box box = {hrn_centre(s->height, op->size.height),
                              hrn_centre(s->width, op->size.width), op->size.height,
                              op->size.width};
      return crop(s, &box, status);
    }
    case HRN_OP_RESIZE:
      return resize(s, &op->size, status);
    case HRN_OP_RESIZE_SHORTER: {
      hrn_op_size size = {s->height, s->width};
      if (hrn_op_size_after(op, &size.width, &size.height, status) != HRN_OK) return status->code;
      return resize(s, &size, status);
    }
    case HRN_OP_RESIZE_BOX: /* only functional has it, and that has no masks */
      return hrn_fail(status, HRN_INTERNAL, -1, "no mask moves with resize_box");
    case HRN_OP_REDUCE:
      return hrn_fail(status, HRN_INTERNAL, -1, "no mask moves with reduce");
    case HRN_OP_RANDOM_RESIZED_CROP:
      if (crop(s, &drawn->box, status) != HRN_OK) return status->code;
      return resize(s, &op->resized_crop.size, status);
    case HRN_OP_RANDOM_CROP: {
      const hrn_op_random_crop *c = &op->random_crop;
      if (pad(s, op, &c->padding, c->if_needed ? &c->size : NULL, status) != HRN_OK) {
        return status->code;
      }
      return crop(s, &drawn->box, status);
    }
    case HRN_OP_PAD:
      return pad(s, op, &op->padding, NULL, status);
    case HRN_OP_HORIZONTAL_FLIP:
    case HRN_OP_VERTICAL_FLIP:
      return flip(s, op->kind == HRN_OP_HORIZONTAL_FLIP, status);
    case HRN_OP_PIXEL:
      return move_pixels(s, op, status);
    default: /* five crops and erasings, which have no masks */
      return HRN_OK;
  }
}

static int move_all(seen *s, const hrn_drawn *drawn, int32_t count, const hrn_mask *mask,
                    hrn_status *status) {
  if (mask->pixels == NULL) {
    s->encoded = true;
    if (hrn_decode_mask(s->context, mask->file, mask->length, mask->width, mask->height, status) !=
        HRN_OK) {
      return status->code;
    }
  }
  if (begin(s, mask->pixels, mask->width, mask->height, status) != HRN_OK) return status->code;
  for (int32_t k = 0; k < count; k++) {
    /* The ops were drawn for an image of another size. */
    if (drawn[k].width != s->width || drawn[k].height != s->height) {
      return hrn_fail(status, HRN_ARGUMENT, -1, "a mask of %dx%d where the image has %dx%d",
                      s->width, s->height, drawn[k].width, drawn[k].height);
    }
    if (move(s, &drawn[k], status) != HRN_OK) return status->code;
  }
  if (s->width != mask->to_width || s->height != mask->to_height) {
    return hrn_fail(status, HRN_ARGUMENT, -1, "a moved mask of %dx%d, the destination holds %dx%d",
                    s->width, s->height, mask->to_width, mask->to_height);
  }
  return write_out(s, mask->to, status);
}

int hrn_move_mask(hrn_context *context, const hrn_drawn *drawn, int32_t count, const hrn_mask *mask,
                  hrn_status *status) {
  hrn_status_clear(status);
  const int32_t sides[4] = {mask->width, mask->height, mask->to_width, mask->to_height};
  for (int k = 0; k < 4; k++) {
    if (sides[k] < 1 || sides[k] > HRN_MAX_LENGTH) {
      return hrn_fail(status, HRN_ARGUMENT, -1, "a mask's side of %d", sides[k]);
    }
  }
  if (mask->fill != HRN_MASK_FILL_OF_OP && (mask->fill < 0 || mask->fill > 255)) {
    return hrn_fail(status, HRN_ARGUMENT, -1, "a mask's fill of %d", mask->fill);
  }
  seen s = {.context = context, .fill = mask->fill};
  move_all(&s, drawn, count, mask, status);
  hrn_scratch_end(context);
  return status->code;
}
