/* policy.h: what the policies of torchvision (policy.c) and timm (timm.c) share. */
#ifndef HEADRACE_NATIVE_POLICY_H
#define HEADRACE_NATIVE_POLICY_H

#include "recipe.h"

enum op_name {
  IDENTITY = 0,
  SHEAR_X,
  SHEAR_Y,
  TRANSLATE_X,
  TRANSLATE_Y,
  ROTATE,
  BRIGHTNESS,
  COLOR,
  CONTRAST,
  SHARPNESS,
  POSTERIZE,
  SOLARIZE,
  AUTO_CONTRAST,
  EQUALIZE,
  INVERT,
  /* timm's alone */
  SOLARIZE_ADD,
  DESATURATE,
  BLUR,
  BLUR_UP_TO
};

typedef struct hrn_policy_step {
  enum op_name name;
  double probability;
  int32_t magnitude;
} hrn_policy_step;

enum { HRN_POLICY_LINES = 25 };

/* policy.c: AutoAugment's learned policies, by enum hrn_policy: two steps a line. */
extern const hrn_policy_step hrn_policies[3][HRN_POLICY_LINES][2];

/* The kind of pixel op that a name stands for. */
int32_t hrn_policy_kind(enum op_name name);

/* Chains of ops whose results are mixed: what stands before the first, what ends each, and what
 * ends all. Weights are single-precision numbers. */
int hrn_mix_begin(hrn_pixel_list *list, double original, hrn_status *status);
int hrn_mix_chain(hrn_pixel_list *list, double weight, hrn_status *status);
/* `blend` below 0: the sum is the result; else it is blended with the image by that share. */
int hrn_mix_end(hrn_pixel_list *list, double blend, hrn_status *status);

#endif
