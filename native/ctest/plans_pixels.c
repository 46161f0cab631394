/* plans_pixels.c: ops on pixels, and ops that draw a size, with any parameters that are
 * accepted. */
#include <string.h>

#include "../pixels/pixels.h"
#include "plans.h"

double some_real(random_state *r, double low, double high) {
  return low + (high - low) * ((double)random_below(r, 1 << 20) / (1 << 20));
}

void some_interval(random_state *r, double low, double high, double *p) {
  p[0] = some_real(r, low, high);
  p[1] = random_below(r, 4) ? some_real(r, p[0], high) : p[0];
}

static void some_warp(random_state *r, hrn_op *op) {
  static const int32_t filters[] = {HRN_NEAREST, HRN_BILINEAR, HRN_BICUBIC};
  op->filter = filters[random_below(r, 3)];
  for (int c = 0; c < 3; c++) op->fill[c] = (double)random_below(r, 256);
}

/* Small and extreme coefficients: a horizon through the image, a scale of thousands, or 0. */
static double some_coefficient(random_state *r) {
  static const double reach[] = {0, 0.01, 2, 300, 1e5, 1e9};
  const double most = reach[random_below(r, 6)];
  return some_real(r, -most, most);
}

static hrn_op_noise some_noise(random_state *r) {
  hrn_op_noise noise = {.mean = some_real(r, -10, 10)};
  noise.deviation = some_real(r, 0, random_below(r, 2) ? 0.2 : 10);
  noise.clip = (int32_t)random_below(r, 2);
  return noise;
}

/* With blurs that all images except the smallest are large enough for. */
static void some_elastic(random_state *r, hrn_op *op) {
  hrn_op_elastic elastic = {.outside.filled = (int32_t)random_below(r, 2)};
  some_warp(r, op);
  if (op->filter == HRN_BICUBIC) op->filter = HRN_BILINEAR;
  const int blurs = random_below(r, 3) > 0;
  for (int k = 0; k < 2; k++) {
    elastic.alpha[k] = random_below(r, 4) ? some_real(r, -90, 90) : some_real(r, -1e6, 1e6);
    elastic.sigma[k] = blurs ? some_real(r, 1e-6, 1.5) : 0;
  }
  elastic.outside.version = 1 + (int32_t)random_below(r, 2);
  op->elastic = elastic;
}

static void some_key(random_state *r, uint64_t key[2]) {
  for (int k = 0; k < 2; k++) key[k] = random_below(r, (uint64_t)1 << 62);
}

static void some_fixed_warp(random_state *r, hrn_op *op) {
  hrn_pixel_args *args = &op->pixel.args;
  some_warp(r, op);
  if (op->pixel.kind == HRN_PIXEL_PERSPECTIVE) {
    for (int k = 0; k < 8; k++) args->perspective[k] = some_coefficient(r);
    return;
  }
  if (op->pixel.kind == HRN_PIXEL_TENSOR_AFFINE) {
    if (op->filter == HRN_BICUBIC) op->filter = HRN_BILINEAR;
    args->tensor_affine.filled = (int32_t)random_below(r, 2);
    for (int k = 0; k < 6; k++) args->tensor_affine.coefficients[k] = some_coefficient(r);
    return;
  }
  for (int k = 0; k < 6; k++) args->affine.coefficients[k] = some_coefficient(r);
  const int sized = (int)random_below(r, 2);
  for (int k = 0; k < 2; k++) args->affine.size[k] = sized ? some_side(r) : 0;
}

static void some_fixed_elastic(random_state *r, hrn_op *op) {
  some_elastic(r, op);
  const hrn_op_elastic drawn = op->elastic;
  hrn_pixel_elastic elastic = {.outside = drawn.outside};
  some_key(r, elastic.key);
  memcpy(elastic.alpha, drawn.alpha, sizeof elastic.alpha);
  memcpy(elastic.sigma, drawn.sigma, sizeof elastic.sigma);
  op->pixel = (hrn_op_pixel){.kind = HRN_PIXEL_ELASTIC, .args.elastic = elastic};
}

static void some_fixed_noise(random_state *r, hrn_pixel_noise *noise) {
  const hrn_op_noise some = some_noise(r);
  *noise = (hrn_pixel_noise){.mean = some.mean, .deviation = some.deviation, .clip = some.clip};
  some_key(r, noise->key);
}

static void some_fixed_pixel_op(random_state *r, hrn_op *op) {
  hrn_pixel_args *args = &op->pixel.args;
  const int32_t of_tensors = HRN_PIXEL_ELASTIC - HRN_PIXEL_NOISE, last = HRN_PIXEL_JPEG;
  int32_t kind = (int32_t)random_below(r, (uint64_t)(last + 2 + of_tensors));
  if (kind > last) kind += HRN_PIXEL_NOISE - last - 1;
  op->pixel.kind = kind;
  switch (kind) {
    case HRN_PIXEL_POSTERIZE:
      args->bits = (int32_t)random_below(r, 9);
      break;
    case HRN_PIXEL_SOLARIZE:
      args->threshold = some_real(r, -10, 300);
      break;
    case HRN_PIXEL_HUE:
      args->factor = some_real(r, -0.5, 0.5);
      break;
    case HRN_PIXEL_GAMMA:
      args->gamma = (hrn_pixel_gamma){some_real(r, 0, 9), some_coefficient(r)};
      break;
    case HRN_PIXEL_CHANNELS:
      for (int c = 0; c < 3; c++) args->channels[c] = (int32_t)random_below(r, 3);
      break;
    case HRN_PIXEL_BLUR:
      for (int k = 0; k < 2; k++) args->blur.kernel[k] = 1 + 2 * (int32_t)random_below(r, 12);
      some_interval(r, 1e-6, random_below(r, 2) ? 3 : 1e9, args->blur.sigma);
      break;
    case HRN_PIXEL_SOLARIZE_ADD:
      args->solarize_add.add = (int32_t)random_below(r, 256);
      args->solarize_add.threshold = (int32_t)random_below(r, 257);
      break;
    case HRN_PIXEL_PILLOW_BLUR:
      for (int k = 0; k < 2; k++) args->radius[k] = some_real(r, 0, random_below(r, 4) ? 3 : 1000);
      break;
    case HRN_PIXEL_JPEG:
      args->quality = 1 + (int32_t)random_below(r, 100);
      break;
    case HRN_PIXEL_NOISE:
      some_fixed_noise(r, &args->noise);
      break;
    case HRN_PIXEL_ELASTIC:
      some_fixed_elastic(r, op);
      break;
    case HRN_PIXEL_TENSOR_AFFINE:
    case HRN_PIXEL_AFFINE:
    case HRN_PIXEL_PERSPECTIVE:
      some_fixed_warp(r, op);
      break;
    default: /* the enhancers take a factor, the others nothing */
      args->factor = random_below(r, 2) ? some_real(r, 0, 4) : some_real(r, 0, 1e9);
      break;
  }
}

static void some_fixed_affine(random_state *r, hrn_op_fixed_affine *a) {
  a->has_centre = (int32_t)random_below(r, 2);
  a->version = 1 + (int32_t)random_below(r, 2);
  a->angle = some_coefficient(r);
  a->scale = some_real(r, 1e-6, random_below(r, 2) ? 3 : 1e6);
  for (int k = 0; k < 2; k++) {
    a->translate[k] = some_coefficient(r);
    a->shear[k] = some_coefficient(r);
    a->centre[k] = some_coefficient(r);
  }
}

static void some_fixed_rotation(random_state *r, hrn_op_fixed_rotation *rotation) {
  rotation->has_centre = (int32_t)random_below(r, 2);
  rotation->expand = (int32_t)random_below(r, 2);
  rotation->angle = some_coefficient(r);
  for (int k = 0; k < 2; k++) rotation->centre[k] = some_coefficient(r);
}

static void some_affine(random_state *r, hrn_op_affine *a) {
  a->has_centre = (int32_t)random_below(r, 2);
  a->version = 1 + (int32_t)random_below(r, 2);
  some_interval(r, -400, 400, a->degrees);
  for (int k = 0; k < 2; k++) a->translate[k] = some_real(r, 0, 1);
  some_interval(r, 1e-6, random_below(r, 2) ? 2 : 1e6, a->scale);
  some_interval(r, -90, 90, a->shear_x);
  some_interval(r, -90, 90, a->shear_y);
  for (int k = 0; k < 2; k++) a->centre[k] = some_coefficient(r);
}

static void some_timm(random_state *r, hrn_op *op) {
  hrn_op_timm *t = &op->timm;
  t->set = (int32_t)random_below(r, HRN_TIMM_AUTO_3A + 1);
  t->layers = 1 + (int32_t)random_below(r, 3);
  t->magnitude = (int32_t)random_below(r, 12);
  t->depth = (int32_t)random_below(r, 3);
  if (random_below(r, 2)) op->filter = HRN_FILTER_DRAWN;
  t->probability = some_real(r, 0, 1);
  t->deviation = some_real(r, -1, 3);
  t->most = some_real(r, 0, 12);
  t->translation = some_real(r, 0, 1);
  t->alpha = some_real(r, 1e-3, random_below(r, 2) ? 2 : 1e3);
}

static void some_aug_mix(random_state *r, hrn_op *op) {
  hrn_op_aug_mix *m = &op->aug_mix;
  m->severity = 1 + (int32_t)random_below(r, 10);
  m->chains = 1 + (int32_t)random_below(r, 4);
  m->depth = (int32_t)random_below(r, 3);
  m->all_ops = (int32_t)random_below(r, 2);
  m->fills = (int32_t)random_below(r, 2);
  if (op->filter == HRN_BICUBIC) op->filter = HRN_BILINEAR;
  m->version = 1 + (int32_t)random_below(r, 2);
  m->alpha = some_real(r, 1e-3, random_below(r, 2) ? 2 : 1e3);
}

hrn_op some_pixel_op(random_state *r) {
  hrn_op op = {.kind = HRN_OP_FIXED_AFFINE + (int32_t)random_below(r, 18)};
  some_warp(r, &op);
  switch (op.kind) {
    case HRN_OP_FIXED_AFFINE:
      some_fixed_affine(r, &op.fixed_affine);
      break;
    case HRN_OP_FIXED_ROTATION:
      some_fixed_rotation(r, &op.fixed_rotation);
      break;
    case HRN_OP_PIXEL:
      some_fixed_pixel_op(r, &op);
      break;
    case HRN_OP_COLOR_JITTER:
      for (int k = 0; k < 4; k++) op.colour.drawn[k] = (int32_t)random_below(r, 2);
      for (int k = 0; k < 3; k++) some_interval(r, 0, 3, op.colour.factor[k]);
      some_interval(r, -0.5, 0.5, op.colour.factor[3]);
      break;
    case HRN_OP_JPEG:
      op.quality[0] = 1 + (int32_t)random_below(r, 100);
      op.quality[1] = op.quality[0] + (int32_t)random_below(r, (uint64_t)(101 - op.quality[0]));
      break;
    case HRN_OP_PILLOW_BLUR:
      some_interval(r, 0, random_below(r, 4) ? 3 : 1000, op.radius);
      break;
    case HRN_OP_ELASTIC:
      some_elastic(r, &op);
      break;
    case HRN_OP_GAUSSIAN_NOISE:
      op.noise = some_noise(r);
      break;
    case HRN_OP_GAUSSIAN_BLUR:
      op.blur.kernel[0] = 1 + 2 * (int32_t)random_below(r, 5);
      op.blur.kernel[1] = 1 + 2 * (int32_t)random_below(r, 5);
      some_interval(r, 0.01, 5, op.blur.sigma);
      break;
    case HRN_OP_ROTATION:
      op.rotation.has_centre = (int32_t)random_below(r, 2);
      op.rotation.expand = (int32_t)random_below(r, 2);
      some_interval(r, -1e6, 1e6, op.rotation.degrees);
      for (int k = 0; k < 2; k++) op.rotation.centre[k] = some_coefficient(r);
      break;
    case HRN_OP_AFFINE:
      some_affine(r, &op.affine);
      break;
    case HRN_OP_PERSPECTIVE:
      /* It is below 1, because four corners that meet have no map, which is an error of that
       * sample. */
      op.distortion = some_real(r, 0, 0.9);
      break;
    case HRN_OP_RAND_AUGMENT:
      op.augment.ops = (int32_t)random_below(r, 4);
      op.augment.bins = 1 + (int32_t)random_below(r, 40);
      op.augment.magnitude = (int32_t)random_below(r, (uint64_t)op.augment.bins);
      op.augment.version = 1 + (int32_t)random_below(r, 2);
      break;
    case HRN_OP_TRIVIAL_AUGMENT:
      op.augment.bins = 1 + (int32_t)random_below(r, 40);
      break;
    case HRN_OP_TIMM:
      some_timm(r, &op);
      break;
    case HRN_OP_AUG_MIX:
      some_aug_mix(r, &op);
      break;
    case HRN_OP_AUTO_AUGMENT:
      op.augment.policy = (int32_t)random_below(r, 3);
      break;
    default:
      break;
  }
  return op;
}

hrn_op some_sizing_op(random_state *r) {
  hrn_op op = {.kind = HRN_OP_RANDOM_SHORTEST_SIZE + (int32_t)random_below(r, 4),
               .filter = (int32_t)random_below(r, HRN_TENSOR_BICUBIC + 1)};
  switch (op.kind) {
    case HRN_OP_RANDOM_SHORTEST_SIZE:
      op.shortest.max_size = random_below(r, 2) ? some_side(r) : 0;
      op.shortest.count = 1 + (int32_t)random_below(r, HRN_MAX_SIZES);
      for (int32_t k = 0; k < op.shortest.count; k++) op.shortest.size[k] = some_side(r);
      break;
    case HRN_OP_RANDOM_RESIZE:
      op.resize_between.least = some_side(r);
      op.resize_between.end = op.resize_between.least + 1 + (int32_t)random_below(r, 9);
      break;
    case HRN_OP_SCALE_JITTER:
      op.jitter.target.width = some_side(r);
      op.jitter.target.height = some_side(r);
      some_interval(r, 0.1, 2, op.jitter.scale);
      break;
    default:
      for (int c = 0; c < 3; c++) op.fill[c] = (double)random_below(r, 256);
      some_interval(r, 1, 2, op.zoom.side);
      break;
  }
  return op;
}
