/* recipe.c: what random ops on pixels draw, as torchvision 0.29's get_params distributes it.
 *
 * An op takes its words one after the other from its own counter, so ops draw independently of
 * each other. How many it takes for what is a promise that golden vectors hold.
 */
#include "recipe.h"

#include <math.h>
#include <string.h>

static void set_fill(hrn_pixel_op *pixel, const hrn_op *op) {
  for (int c = 0; c < 3; c++) pixel->fill[c] = (uint8_t)op->fill[c];
}

/* A random permutation of 0..count-1, count at most 4: each place takes one of those left. */
static void permutation(hrn_draws *draws, int32_t count, int32_t *order) {
  for (int32_t k = 0; k < count; k++) order[k] = k;
  for (int32_t k = 0; k + 1 < count; k++) {
    const int32_t other = k + hrn_draw_below(draws, count - k);
    const int32_t swap = order[k];
    order[k] = order[other];
    order[other] = swap;
  }
}

static int color_jitter(const hrn_op *op, hrn_draws *draws, hrn_pixel_list *list,
                        hrn_status *status) {
  static const int32_t kinds[4] = {HRN_PIXEL_BRIGHTNESS, HRN_PIXEL_CONTRAST, HRN_PIXEL_SATURATION,
                                   HRN_PIXEL_HUE};
  int32_t order[4];
  double factor[4];
  permutation(draws, 4, order);
  /* Drawn for all four, so that leaving one out does not change the others. */
  for (int k = 0; k < 4; k++)
    factor[k] = hrn_draw_between(draws, op->colour.factor[k][0], op->colour.factor[k][1]);
  for (int k = 0; k < 4; k++) {
    if (!op->colour.drawn[order[k]]) continue;
    hrn_pixel_op *pixel = hrn_pixel_append(list, kinds[order[k]], status);
    if (pixel == NULL) return status->code;
    pixel->p[0] = factor[order[k]];
  }
  return HRN_OK;
}

static void affine(const hrn_op *op, hrn_draws *draws, int32_t width, int32_t height,
                   hrn_pixel_op *pixel) {
  const hrn_op_affine *a = &op->affine;
  const double angle = hrn_draw_between(draws, a->degrees[0], a->degrees[1]);
  const double reach_x = a->translate[0] * width, reach_y = a->translate[1] * height;
  /* Whole pixels, half to even, as Python rounds. */
  const double translate[2] = {rint(hrn_draw_between(draws, -reach_x, reach_x)),
                               rint(hrn_draw_between(draws, -reach_y, reach_y))};
  const double scale = hrn_draw_between(draws, a->scale[0], a->scale[1]);
  const double shear_x = hrn_draw_between(draws, a->shear_x[0], a->shear_x[1]);
  const double shear[2] = {shear_x, hrn_draw_between(draws, a->shear_y[0], a->shear_y[1])};
  const double middle[2] = {width * 0.5, height * 0.5};
  hrn_affine_map(a->version, a->has_centre ? a->centre : middle, angle, translate, scale, shear,
                 pixel->p);
}

static void perspective(const hrn_op *op, hrn_draws *draws, int32_t width, int32_t height,
                        hrn_pixel_op *pixel) {
  /* How far a corner may move; torchvision divides first and cuts the product off. */
  const int32_t x = (int32_t)(op->distortion * (width / 2)),
                y = (int32_t)(op->distortion * (height / 2));
  double corners[8];
  for (int k = 0; k < 4; k++) {
    const int right = k == 1 || k == 2, bottom = k >= 2;
    corners[2 * k] = (right ? width - x - 1 : 0) + hrn_draw_below(draws, x + 1);
    corners[2 * k + 1] = (bottom ? height - y - 1 : 0) + hrn_draw_below(draws, y + 1);
  }
  /* Corners that meet, as in an image one pixel wide, have no map: it stays as it is. */
  if (!hrn_perspective_map(corners, width, height, pixel->p)) pixel->kind = HRN_PIXEL_NOTHING;
}

/* A map whose numbers are given and want only the size of the image. */
static void fixed_map(const hrn_op *op, int32_t width, int32_t height, hrn_pixel_op *pixel) {
  const double *p = op->pixel.p, middle[2] = {width * 0.5, height * 0.5};
  const int32_t map = op->pixel.i[0], has_centre = op->pixel.i[1], expand = op->pixel.i[2];
  if (map == HRN_MAP_COEFFICIENTS) return;
  pixel->i[2] = pixel->i[3] = 0;
  if (map == HRN_MAP_AFFINE || map == HRN_MAP_AFFINE_OF_V2) {
    hrn_affine_map(map == HRN_MAP_AFFINE ? 1 : 2, has_centre ? p + 6 : middle, p[0], p + 1, p[3],
                   p + 4, pixel->p);
  } else if (map == HRN_MAP_ROTATION) {
    hrn_rotation_map(p[0], has_centre ? p + 1 : NULL, expand, width, height, pixel->p,
                     &pixel->filter, pixel->i + 2);
  }
}

/* The one pixel op of an op that always draws one. */
static void single(const hrn_op *op, hrn_draws *draws, int32_t width, int32_t height,
                   hrn_pixel_op *pixel) {
  pixel->filter = op->filter;
  set_fill(pixel, op);
  switch (op->kind) {
    case HRN_OP_PIXEL:
      memcpy(pixel->i, op->pixel.i, sizeof pixel->i);
      memcpy(pixel->p, op->pixel.p, sizeof pixel->p);
      if (op->pixel.kind == HRN_PIXEL_AFFINE) fixed_map(op, width, height, pixel);
      if (op->pixel.kind == HRN_PIXEL_USER) {
        uint64_t words[4];
        for (int k = 0; k < 4; k++) words[k] = hrn_draw_word(draws);
        hrn_user_draw(words, draws->key->sample, pixel);
      }
      return;
    case HRN_OP_CHANNEL_PERMUTATION:
      permutation(draws, 3, pixel->i);
      return;
    case HRN_OP_GAUSSIAN_BLUR:
      pixel->i[0] = op->blur.kernel[0];
      pixel->i[1] = op->blur.kernel[1];
      pixel->p[0] = pixel->p[1] = hrn_draw_between(draws, op->blur.sigma[0], op->blur.sigma[1]);
      return;
    case HRN_OP_JPEG:
      pixel->i[0] = op->quality[0] + hrn_draw_below(draws, op->quality[1] - op->quality[0] + 1);
      return;
    case HRN_OP_PILLOW_BLUR:
      pixel->p[0] = pixel->p[1] = hrn_draw_between(draws, op->radius[0], op->radius[1]);
      return;
    case HRN_OP_GAUSSIAN_NOISE: {
      const uint64_t first = hrn_draw_word(draws), key[2] = {first, hrn_draw_word(draws)};
      memcpy(pixel->i, key, sizeof key);
      pixel->p[0] = op->noise.mean;
      pixel->p[1] = op->noise.deviation;
      pixel->p[2] = op->noise.clip;
      return;
    }
    case HRN_OP_ELASTIC: {
      const uint64_t first = hrn_draw_word(draws), key[2] = {first, hrn_draw_word(draws)};
      memcpy(pixel->i, key, sizeof key);
      for (int k = 0; k < 2; k++) {
        pixel->p[k] = op->elastic.alpha[k];
        pixel->p[2 + k] = op->elastic.sigma[k];
      }
      pixel->p[4] = op->elastic.filled;
      pixel->p[5] = op->elastic.version;
      return;
    }
    case HRN_OP_ROTATION:
      hrn_rotation_map(hrn_draw_between(draws, op->rotation.degrees[0], op->rotation.degrees[1]),
                       op->rotation.has_centre ? op->rotation.centre : NULL, op->rotation.expand,
                       width, height, pixel->p, &pixel->filter, pixel->i + 2);
      return;
    case HRN_OP_AFFINE:
      affine(op, draws, width, height, pixel);
      return;
    default:
      perspective(op, draws, width, height, pixel);
      return;
  }
}

int hrn_recipe(const hrn_op *op, int32_t index, const hrn_key *key, int32_t width, int32_t height,
               hrn_pixel_list *list, hrn_status *status) {
  hrn_draws draws = hrn_draws_of(key, index);
  int32_t kind;
  switch (op->kind) {
    case HRN_OP_PIXEL:
      kind = op->pixel.kind;
      break;
    case HRN_OP_CHANNEL_PERMUTATION:
      kind = HRN_PIXEL_CHANNELS;
      break;
    case HRN_OP_GAUSSIAN_BLUR:
      kind = HRN_PIXEL_BLUR;
      break;
    case HRN_OP_JPEG:
      kind = HRN_PIXEL_JPEG;
      break;
    case HRN_OP_PILLOW_BLUR:
      kind = HRN_PIXEL_PILLOW_BLUR;
      break;
    case HRN_OP_GAUSSIAN_NOISE:
      kind = HRN_PIXEL_NOISE;
      break;
    case HRN_OP_ELASTIC:
      kind = HRN_PIXEL_ELASTIC;
      break;
    case HRN_OP_ROTATION:
    case HRN_OP_AFFINE:
      kind = HRN_PIXEL_AFFINE;
      break;
    case HRN_OP_PERSPECTIVE:
      kind = HRN_PIXEL_PERSPECTIVE;
      break;
    case HRN_OP_COLOR_JITTER:
      return color_jitter(op, &draws, list, status);
    case HRN_OP_TIMM:
      return hrn_timm_draw(op, &draws, width, height, list, status);
    case HRN_OP_RAND_AUGMENT:
    case HRN_OP_TRIVIAL_AUGMENT:
    case HRN_OP_AUTO_AUGMENT:
    case HRN_OP_AUG_MIX:
      return hrn_policy_draw(op, &draws, width, height, list, status);
    default:
      return hrn_fail(status, HRN_INTERNAL, -1, "op %d has kind %d", index, op->kind);
  }
  hrn_pixel_op *pixel = hrn_pixel_append(list, kind, status);
  if (pixel == NULL) return status->code;
  single(op, &draws, width, height, pixel);
  return HRN_OK;
}
