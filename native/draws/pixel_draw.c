/* pixel_draw.c: what random ops on pixels draw, distributed as by torchvision 0.29's get_params.
 *
 * An op takes its words one after the other from its own counter, so ops draw independently of each
 * other. How many words it takes for what is a promise, which golden vectors check.
 */
#include "pixel_draw.h"

#include <math.h>
#include <string.h>

static void set_fill(hrn_pixel_op *pixel, const hrn_op *op) {
  for (int c = 0; c < 3; c++) pixel->fill[c] = (uint8_t)op->fill[c];
}

/* Draws a random permutation of 0..count-1, with count at most 4. Each place takes one of those
 * that are left. */
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
  /* Factors are drawn for all four, so that leaving one out does not change the others. */
  for (int k = 0; k < 4; k++)
    factor[k] = hrn_draw_between(draws, op->colour.factor[k][0], op->colour.factor[k][1]);
  for (int k = 0; k < 4; k++) {
    if (!op->colour.drawn[order[k]]) continue;
    hrn_pixel_op *pixel = hrn_pixel_append(list, kinds[order[k]], status);
    if (pixel == NULL) return status->code;
    pixel->args.factor = factor[order[k]];
  }
  return HRN_OK;
}

static void affine(const hrn_op *op, hrn_draws *draws, int32_t width, int32_t height,
                   hrn_pixel_op *pixel) {
  const hrn_op_affine *a = &op->affine;
  const double angle = hrn_draw_between(draws, a->degrees[0], a->degrees[1]);
  const double reach_x = a->translate[0] * width, reach_y = a->translate[1] * height;
  /* Rounded to whole pixels, halves to even, as Python rounds. */
  const double translate[2] = {rint(hrn_draw_between(draws, -reach_x, reach_x)),
                               rint(hrn_draw_between(draws, -reach_y, reach_y))};
  const double scale = hrn_draw_between(draws, a->scale[0], a->scale[1]);
  const double shear_x = hrn_draw_between(draws, a->shear_x[0], a->shear_x[1]);
  const double shear[2] = {shear_x, hrn_draw_between(draws, a->shear_y[0], a->shear_y[1])};
  const double middle[2] = {width * 0.5, height * 0.5};
  hrn_affine_map(a->version, a->has_centre ? a->centre : middle, angle, translate, scale, shear,
                 pixel->args.affine.coefficients);
}

static void perspective(const hrn_op *op, hrn_draws *draws, int32_t width, int32_t height,
                        hrn_pixel_op *pixel) {
  /* How far a corner may move. torchvision divides first and then truncates the product. */
  const int32_t x = (int32_t)(op->distortion * (width / 2)),
                y = (int32_t)(op->distortion * (height / 2));
  double corners[8];
  for (int k = 0; k < 4; k++) {
    const int right = k == 1 || k == 2, bottom = k >= 2;
    corners[2 * k] = (right ? width - x - 1 : 0) + hrn_draw_below(draws, x + 1);
    corners[2 * k + 1] = (bottom ? height - y - 1 : 0) + hrn_draw_below(draws, y + 1);
  }
  /* If corners meet, as in an image one pixel wide, there is no map. The image then stays as it
   * is. */
  if (!hrn_perspective_map(corners, width, height, pixel->args.perspective)) {
    pixel->kind = HRN_PIXEL_NOTHING;
  }
}

static void fixed_affine(const hrn_op_fixed_affine *a, int32_t width, int32_t height,
                         hrn_pixel_affine *found) {
  const double middle[2] = {width * 0.5, height * 0.5};
  hrn_affine_map(a->version, a->has_centre ? a->centre : middle, a->angle, a->translate, a->scale,
                 a->shear, found->coefficients);
}

static void rotation(double angle, const double *centre, int expand, int32_t width, int32_t height,
                     hrn_pixel_op *pixel) {
  hrn_pixel_affine *found = &pixel->args.affine;
  hrn_rotation_map(angle, centre, expand, width, height, found->coefficients, &pixel->filter,
                   found->size);
}

static void gaussian_blur(const hrn_op_blur *blur, hrn_draws *draws, hrn_pixel_blur *found) {
  memcpy(found->kernel, blur->kernel, sizeof found->kernel);
  found->sigma[0] = found->sigma[1] = hrn_draw_between(draws, blur->sigma[0], blur->sigma[1]);
}

static void draw_key(hrn_draws *draws, uint64_t key[2]) {
  for (int k = 0; k < 2; k++) key[k] = hrn_draw_word(draws);
}

static void noise(const hrn_op_noise *op, hrn_draws *draws, hrn_pixel_noise *found) {
  draw_key(draws, found->key);
  found->mean = op->mean;
  found->deviation = op->deviation;
  found->clip = op->clip;
}

static void elastic(const hrn_op_elastic *op, hrn_draws *draws, hrn_pixel_elastic *found) {
  draw_key(draws, found->key);
  memcpy(found->alpha, op->alpha, sizeof found->alpha);
  memcpy(found->sigma, op->sigma, sizeof found->sigma);
  found->outside = op->outside;
}

static void fixed(const hrn_op *op, hrn_draws *draws, hrn_pixel_op *pixel) {
  pixel->args = op->pixel.args;
  if (op->pixel.kind != HRN_PIXEL_USER) return;
  hrn_pixel_user *user = &pixel->args.user;
  for (int k = 0; k < 4; k++) user->random[k] = hrn_draw_word(draws);
  user->sample = draws->key->sample;
}

/* Makes the one pixel op of an op that always draws one. */
static void single(const hrn_op *op, hrn_draws *draws, int32_t width, int32_t height,
                   hrn_pixel_op *pixel) {
  hrn_pixel_args *args = &pixel->args;
  pixel->filter = op->filter;
  set_fill(pixel, op);
  switch (op->kind) {
    case HRN_OP_PIXEL:
      fixed(op, draws, pixel);
      return;
    case HRN_OP_CHANNEL_PERMUTATION:
      permutation(draws, 3, args->channels);
      return;
    case HRN_OP_GAUSSIAN_BLUR:
      gaussian_blur(&op->blur, draws, &args->blur);
      return;
    case HRN_OP_JPEG:
      args->quality = op->quality[0] + hrn_draw_below(draws, op->quality[1] - op->quality[0] + 1);
      return;
    case HRN_OP_PILLOW_BLUR:
      args->radius[0] = args->radius[1] = hrn_draw_between(draws, op->radius[0], op->radius[1]);
      return;
    case HRN_OP_GAUSSIAN_NOISE:
      noise(&op->noise, draws, &args->noise);
      return;
    case HRN_OP_ELASTIC:
      elastic(&op->elastic, draws, &args->elastic);
      return;
    case HRN_OP_FIXED_AFFINE:
      fixed_affine(&op->fixed_affine, width, height, &args->affine);
      return;
    case HRN_OP_FIXED_ROTATION: {
      const hrn_op_fixed_rotation *r = &op->fixed_rotation;
      rotation(r->angle, r->has_centre ? r->centre : NULL, r->expand, width, height, pixel);
      return;
    }
    case HRN_OP_ROTATION: {
      const hrn_op_rotation *r = &op->rotation;
      rotation(hrn_draw_between(draws, r->degrees[0], r->degrees[1]),
               r->has_centre ? r->centre : NULL, r->expand, width, height, pixel);
      return;
    }
    case HRN_OP_AFFINE:
      affine(op, draws, width, height, pixel);
      return;
    default:
      perspective(op, draws, width, height, pixel);
      return;
  }
}

int hrn_pixel_draw(const hrn_op *op, int32_t index, const hrn_key *key, int32_t width,
                   int32_t height, hrn_pixel_list *list, hrn_status *status) {
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
    case HRN_OP_FIXED_AFFINE:
    case HRN_OP_FIXED_ROTATION:
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
