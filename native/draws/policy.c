/* policy.c: RandAugment, TrivialAugmentWide, AutoAugment and AugMix, with torchvision's spaces of
 * ops and magnitudes. There, magnitudes are single-precision tensors, so they are rounded to that
 * here. */
#include <math.h>

#include "policy.h"

/* Whether the thresholds are those of torchvision's v2, or of v1. */
static int of_v2(int32_t version) { return version == 2; }

/* RandAugment and TrivialAugmentWide choose among the ops before INVERT. */
enum { CHOICES = INVERT };

/* The greatest magnitudes of a family of policies. */
typedef struct space {
  double shear, rotate, colour, posterize; /* posterize: how many bits may be lost, */
  double bits;                             /* of this many */
  double translate[2];                     /* pixels across and down */
  int shares; /* solarize: 255 times a share, as in v2, which may be slightly above v1's */
} space;

static int is_signed(enum op_name name) { return name >= SHEAR_X && name <= SHARPNESS; }

/* Entry `bin` of torch.linspace(start, end, bins): in single precision, from the nearer end, equal
 * to torch's with AVX2 to the last bit. That matters because translations are truncated to whole
 * pixels: the middle of TrivialAugmentWide's 32 is just below 16 with AVX2, and 16 without it. */
static double linspace(double start, double end, int32_t bin, int32_t bins) {
  const float first = (float)start, last = (float)end;
  if (bins == 1) return (double)first;
  const float step = (last - first) / (float)(bins - 1);
  return (double)(bin < bins / 2 ? fmaf(step, (float)bin, first)
                                 : fmaf(-step, (float)(bins - 1 - bin), last));
}

/* Entry `bin` of `bins` of the op's magnitudes, before a sign. */
static double magnitude_of(const space *s, enum op_name name, int32_t bin, int32_t bins) {
  switch (name) {
    case SHEAR_X:
    case SHEAR_Y:
      return linspace(0, s->shear, bin, bins);
    case TRANSLATE_X:
    case TRANSLATE_Y:
      return linspace(0, s->translate[name - TRANSLATE_X], bin, bins);
    case ROTATE:
      return linspace(0, s->rotate, bin, bins);
    case BRIGHTNESS:
    case COLOR:
    case CONTRAST:
    case SHARPNESS:
      return linspace(0, s->colour, bin, bins);
    case POSTERIZE: {
      /* With one bin torchvision divides 0 by 0. Nothing is lost then. */
      const float lost = bins > 1 ? (float)bin / (float)((bins - 1) / s->posterize) : 0;
      return s->bits - (double)rintf(lost);
    }
    case SOLARIZE:
      return s->shares ? 255 * linspace(1, 0, bin, bins) : linspace(255, 0, bin, bins);
    default:
      return 0;
  }
}

/* Appends one op of the space, with its magnitude, as a pixel op. v1's maps are used for v2 as
 * well: without both a turn and a scale, the order of operations makes no difference to
 * rounding. */
static int append(const hrn_op *op, enum op_name name, double magnitude, int32_t width,
                  int32_t height, hrn_pixel_list *list, hrn_status *status) {
  hrn_pixel_op *pixel = hrn_pixel_append(list, hrn_policy_kind(name), status);
  if (pixel == NULL) return status->code;
  pixel->filter = op->filter;
  for (int c = 0; c < 3; c++) pixel->fill[c] = (uint8_t)op->fill[c];
  hrn_pixel_affine *affine = &pixel->args.affine;
  const double corner[2] = {0, 0}, middle[2] = {width * 0.5, height * 0.5}, none[2] = {0, 0};
  switch (name) {
    case SHEAR_X:
    case SHEAR_Y: {
      /* The paper shears by the magnitude itself, about the corner. This is its arc tangent in
       * degrees. */
      double shear[2] = {0, 0};
      shear[name - SHEAR_X] = atan(magnitude) * (180.0 / 3.14159265358979323846);
      hrn_affine_map(1, corner, 0, none, 1, shear, affine->coefficients);
      break;
    }
    case TRANSLATE_X:
    case TRANSLATE_Y: {
      double translate[2] = {0, 0};
      translate[name - TRANSLATE_X] = trunc(magnitude);
      hrn_affine_map(1, middle, 0, translate, 1, none, affine->coefficients);
      break;
    }
    case ROTATE:
      hrn_rotation_map(magnitude, NULL, 0, width, height, affine->coefficients, &pixel->filter,
                       affine->size);
      break;
    case POSTERIZE:
      pixel->args.bits = (int32_t)magnitude;
      break;
    case SOLARIZE:
      pixel->args.threshold = magnitude;
      break;
    default: /* the enhancers; the other ops have no arguments */
      pixel->args.factor = 1.0 + magnitude;
      break;
  }
  return HRN_OK;
}

/* Appends the same op as torchvision does it to a tensor, because AugMix has the image as a tensor.
 * Posterizing, solarizing and equalizing are the same. A posterized image may be black. */
static int append_of_tensor(const hrn_op *op, enum op_name name, double magnitude, int32_t width,
                            int32_t height, hrn_pixel_list *list, hrn_status *status) {
  static const int32_t kinds[] = {
      [SHEAR_X] = HRN_PIXEL_TENSOR_AFFINE,      [SHEAR_Y] = HRN_PIXEL_TENSOR_AFFINE,
      [TRANSLATE_X] = HRN_PIXEL_TENSOR_AFFINE,  [TRANSLATE_Y] = HRN_PIXEL_TENSOR_AFFINE,
      [ROTATE] = HRN_PIXEL_TENSOR_AFFINE,       [BRIGHTNESS] = HRN_PIXEL_TENSOR_BRIGHTNESS,
      [COLOR] = HRN_PIXEL_TENSOR_SATURATION,    [CONTRAST] = HRN_PIXEL_TENSOR_CONTRAST,
      [SHARPNESS] = HRN_PIXEL_TENSOR_SHARPNESS, [POSTERIZE] = HRN_PIXEL_POSTERIZE,
      [SOLARIZE] = HRN_PIXEL_SOLARIZE,          [AUTO_CONTRAST] = HRN_PIXEL_TENSOR_AUTOCONTRAST,
      [EQUALIZE] = HRN_PIXEL_EQUALIZE,
  };
  if (append(op, name, magnitude, width, height, list, status) != HRN_OK) return status->code;
  hrn_pixel_op *pixel = &list->op[list->count - 1];
  pixel->kind = kinds[name];
  if (pixel->kind != HRN_PIXEL_TENSOR_AFFINE) return HRN_OK;
  /* Places are counted from the middle of the image, where torchvision's tensors have their
   * origin. */
  const double none[2] = {0, 0}, corner[2] = {width * -0.5, height * -0.5};
  double shear[2] = {0, 0}, translate[2] = {0, 0}, angle = 0;
  if (name <= SHEAR_Y) shear[name - SHEAR_X] = atan(magnitude) * (180.0 / 3.14159265358979323846);
  if (name == TRANSLATE_X || name == TRANSLATE_Y) translate[name - TRANSLATE_X] = trunc(magnitude);
  if (name == ROTATE) angle = -magnitude;
  hrn_pixel_tensor_affine *affine = &pixel->args.tensor_affine;
  hrn_affine_map(op->aug_mix.version, name <= SHEAR_Y ? corner : none, angle, translate, 1, shear,
                 affine->coefficients);
  affine->filled = op->aug_mix.fills;
  pixel->filter = op->filter;
  return HRN_OK;
}

static int auto_augment(const hrn_op *op, hrn_draws *draws, int32_t width, int32_t height,
                        hrn_pixel_list *list, hrn_status *status) {
  const space s = {0.3,
                   30,
                   0.9,
                   4,
                   8,
                   {150.0 / 331.0 * width, 150.0 / 331.0 * height},
                   of_v2(op->augment.version)};
  const hrn_policy_step *steps =
      hrn_policies[op->augment.policy][hrn_draw_below(draws, HRN_POLICY_LINES)];
  double chance[2];
  int32_t sign[2];
  for (int k = 0; k < 2; k++) chance[k] = hrn_uniform(hrn_draw_word(draws));
  for (int k = 0; k < 2; k++) sign[k] = hrn_draw_below(draws, 2) ? 1 : -1;
  for (int k = 0; k < 2; k++) {
    if (!(chance[k] < steps[k].probability)) continue;
    double magnitude = magnitude_of(&s, steps[k].name, steps[k].magnitude, 10);
    if (is_signed(steps[k].name)) magnitude *= sign[k];
    if (append(op, steps[k].name, magnitude, width, height, list, status) != HRN_OK) {
      return status->code;
    }
  }
  return HRN_OK;
}

/* AugMix as torchvision draws it: bins are below the severity, of ten. Without all_ops there are no
 * ops that change colour or sharpness. */
static int augmix(const hrn_op *op, hrn_draws *draws, int32_t width, int32_t height,
                  hrn_pixel_list *list, hrn_status *status) {
  static const enum op_name names[] = {SHEAR_X,   SHEAR_Y,  TRANSLATE_X,   TRANSLATE_Y, ROTATE,
                                       POSTERIZE, SOLARIZE, AUTO_CONTRAST, EQUALIZE,    BRIGHTNESS,
                                       COLOR,     CONTRAST, SHARPNESS};
  const space s = {0.3, 30, 0.9, 4, 4, {width / 3.0, height / 3.0}, of_v2(op->aug_mix.version)};
  const hrn_op_aug_mix *mix = &op->aug_mix;
  const int32_t choices = mix->all_ops ? 13 : 9;
  double shares[2], weights[HRN_MAX_CHAINS];
  hrn_draw_dirichlet(draws, mix->alpha, 2, shares);
  hrn_draw_dirichlet(draws, mix->alpha, mix->chains, weights);
  if (hrn_mix_begin(list, (double)(float)shares[0], status) != HRN_OK) return status->code;
  for (int32_t chain = 0; chain < mix->chains; chain++) {
    const int32_t drawn = 1 + hrn_draw_below(draws, 3), depth = mix->depth > 0 ? mix->depth : drawn;
    for (int32_t k = 0; k < depth; k++) {
      const enum op_name name = names[hrn_draw_below(draws, choices)];
      double magnitude = magnitude_of(&s, name, hrn_draw_below(draws, mix->severity), 10);
      if (hrn_draw_below(draws, 2) && is_signed(name)) magnitude *= -1;
      if (append_of_tensor(op, name, magnitude, width, height, list, status) != HRN_OK) {
        return status->code;
      }
    }
    /* The product of two single-precision shares. */
    const float weight = (float)weights[chain] * (float)shares[1];
    if (hrn_mix_chain(list, (double)weight, status) != HRN_OK) return status->code;
  }
  return hrn_mix_end(list, -1, status);
}

int hrn_policy_draw(const hrn_op *op, hrn_draws *draws, int32_t width, int32_t height,
                    hrn_pixel_list *list, hrn_status *status) {
  if (op->kind == HRN_OP_AUTO_AUGMENT) {
    return auto_augment(op, draws, width, height, list, status);
  }
  if (op->kind == HRN_OP_AUG_MIX) return augmix(op, draws, width, height, list, status);
  const int trivial = op->kind == HRN_OP_TRIVIAL_AUGMENT;
  const space s = trivial ? (space){0.99, 135, 0.99, 6, 8, {32, 32}, of_v2(op->augment.version)}
                          : (space){0.3,
                                    30,
                                    0.9,
                                    4,
                                    8,
                                    {150.0 / 331.0 * width, 150.0 / 331.0 * height},
                                    of_v2(op->augment.version)};
  const int32_t count = trivial ? 1 : op->augment.ops, bins = op->augment.bins;
  for (int32_t k = 0; k < count; k++) {
    const enum op_name name = (enum op_name)hrn_draw_below(draws, CHOICES);
    /* These are drawn whether the op needs them or not, so that each op takes three words. */
    const int32_t drawn = hrn_draw_below(draws, bins), sign = hrn_draw_below(draws, 2) ? 1 : -1;
    double magnitude = magnitude_of(&s, name, trivial ? drawn : op->augment.magnitude, bins);
    if (is_signed(name)) magnitude *= sign;
    if (append(op, name, magnitude, width, height, list, status) != HRN_OK) return status->code;
  }
  return HRN_OK;
}
