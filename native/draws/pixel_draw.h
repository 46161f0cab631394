/* pixel_draw.h: random ops on pixels: from what they draw to the fixed pixel ops that are done. */
#ifndef HEADRACE_DRAWS_PIXEL_DRAW_H
#define HEADRACE_DRAWS_PIXEL_DRAW_H

#include "draws.h"
#include "op.h"
#include "../pixels/pixels.h"

/* The fixed ops on pixels that are done to one image, in order. */
#define HRN_MAX_PIXEL_OPS 64
typedef struct hrn_pixel_list {
  int32_t count;
  hrn_pixel_op op[HRN_MAX_PIXEL_OPS];
} hrn_pixel_list;

/* pixel_list.c: appends an op that is all zero except for its kind. NULL with HRN_LIMIT if the list
 * is full. */
hrn_pixel_op *hrn_pixel_append(hrn_pixel_list *list, int32_t kind, hrn_status *status);

/* Append what stands before the first chain of a mixture, what ends each chain, and what ends them
 * all. Weights are single-precision numbers. */
int hrn_mix_begin(hrn_pixel_list *list, double original, hrn_status *status);
int hrn_mix_chain(hrn_pixel_list *list, double weight, hrn_status *status);
/* If `blend` is below 0, the sum is the result. Else the sum is blended with the image by that
 * share. */
int hrn_mix_end(hrn_pixel_list *list, double blend, hrn_status *status);

/* pixel_draw.c: appends what `op`, number `index` of its plan, does to an image of that size. */
int hrn_pixel_draw(const hrn_op *op, int32_t index, const hrn_key *key, int32_t width,
                   int32_t height, hrn_pixel_list *list, hrn_status *status);

/* policy.c: the same for RandAugment, TrivialAugmentWide, AutoAugment and AugMix. timm.c: the same
 * as timm draws them. */
int hrn_policy_draw(const hrn_op *op, hrn_draws *draws, int32_t width, int32_t height,
                    hrn_pixel_list *list, hrn_status *status);
int hrn_timm_draw(const hrn_op *op, hrn_draws *draws, int32_t width, int32_t height,
                  hrn_pixel_list *list, hrn_status *status);
/* The most ops that one image can get from that set. */
int32_t hrn_timm_choices(int32_t set);

/* maps.c: coefficients of Image.transform, from output to input, computed as by torchvision and
 * Pillow. Angles and shears are in degrees, translations in pixels. `version` is torchvision's: 2
 * means v2's map, whose last bits differ; else it is v1's. */
void hrn_affine_map(int32_t version, const double centre[2], double angle,
                    const double translate[2], double scale, const double shear[2],
                    double coefficients[6]);
/* Pillow's Image.rotate, with its short cuts. If centre is NULL, it is the middle. size = width and
 * height of the result if it has a size of its own (with `expand`, and for quarter turns), else
 * 0. */
void hrn_rotation_map(double angle, const double *centre, int expand, int32_t width, int32_t height,
                      double coefficients[6], int32_t *filter, int32_t size[2]);
/* The map from four corners of the output, clockwise from the top left, to those of the whole
 * image. 0 if there is no such map. */
int hrn_perspective_map(const double corners[8], int32_t width, int32_t height,
                        double coefficients[8]);

#endif
