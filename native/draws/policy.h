/* policy.h: what the policies of torchvision (policy.c) and timm (timm.c) share. */
#ifndef HEADRACE_DRAWS_POLICY_H
#define HEADRACE_DRAWS_POLICY_H

#include "pixel_draw.h"

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
  /* only timm has these */
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

/* policies.c: AutoAugment's learned policies, by enum hrn_policy. A line has two steps. */
extern const hrn_policy_step hrn_policies[3][HRN_POLICY_LINES][2];

/* The kind of pixel op that a name stands for. */
int32_t hrn_policy_kind(enum op_name name);

#endif
