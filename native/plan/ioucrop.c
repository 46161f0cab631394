/* ioucrop.c: what torchvision's RandomIoUCrop draws. It depends on the boxes of the sample.
 *
 * Numbers are rounded where torch rounds them, so that the same random words give torch's crop.
 * Uniform numbers have 24 bits. What is computed with them or with boxes is in single precision.
 * The words are one stream for all trials: one for the overlap, two for the sides, two for the
 * place.
 */
#include "plan.h"

/* torchvision goes on until a trial succeeds or an overlap of 1 is drawn. With overlaps below 1
 * that may never happen. So this gives up after MAX_ROUNDS draws of an overlap, or after MAX_LOOKS
 * looks at a box, because the number of boxes may be hostile. An overlap of 1 among 12 is missed
 * 1,000 times with a probability of 10^-38. */
enum { MAX_ROUNDS = 1000, MAX_LOOKS = 1 << 26 };

/* One trial's crop, and the boxes that it is compared with. */
typedef struct trial {
  int32_t left, top, width, height;
  const float *boxes;
  int32_t count;
} trial;

/* As torch.rand: [0, 1) in steps of 2^-24. */
static float unit(hrn_draws *draws) { return (float)(hrn_draw_word(draws) >> 40) * 0x1p-24f; }

/* The product of an integer and a float32, truncated. */
static int32_t part(int32_t length, float share) { return (int32_t)((float)length * share); }

/* Draws a trial's crop. 0 if it is not valid. torchvision divides by a height of 0 and fails. */
static int shape(const hrn_op_iou_crop *op, hrn_draws *draws, int32_t width, int32_t height,
                 trial *t) {
  const float low = (float)op->scale[0], reach = (float)(op->scale[1] - op->scale[0]);
  const float across = low + reach * unit(draws), down = low + reach * unit(draws);
  t->width = part(width, across);
  t->height = part(height, down);
  if (t->height < 1) return 0;
  const double aspect = (double)t->width / t->height;
  if (!(op->aspect[0] <= aspect && aspect <= op->aspect[1])) return 0;
  t->left = part(width - t->width, unit(draws));
  t->top = part(height - t->height, unit(draws));
  return t->width > 0;
}

/* torchvision.ops.box_iou of a box and the crop. */
static float overlap(const trial *t, const float *box) {
  const float left = (float)t->left, top = (float)t->top;
  const float right = (float)(t->left + t->width), bottom = (float)(t->top + t->height);
  const float area = (box[2] - box[0]) * (box[3] - box[1]);
  const float crop = (right - left) * (bottom - top);
  const float width = (box[2] < right ? box[2] : right) - (box[0] > left ? box[0] : left);
  const float height = (box[3] < bottom ? box[3] : bottom) - (box[1] > top ? box[1] : top);
  const float shared = (width > 0 ? width : 0) * (height > 0 ? height : 0);
  return shared / ((area + crop) - shared);
}

/* Whether a box whose middle is inside the crop overlaps it as much as is asked for. As in torch,
 * the greatest of several overlaps is NaN if one of them is, and NaN is not less than anything. */
static int keeps_a_box(const trial *t, double least) {
  const float right = (float)(t->left + t->width), bottom = (float)(t->top + t->height);
  int found = 0;
  for (int32_t k = 0; k < t->count; k++) {
    const float *box = t->boxes + 4 * (size_t)k;
    const float x = 0.5f * (box[0] + box[2]), y = 0.5f * (box[1] + box[3]);
    if (!((float)t->left < x && x < right && (float)t->top < y && y < bottom)) continue;
    if (!(overlap(t, box) < (float)least)) found = 1;
  }
  return found;
}

int hrn_plan_iou_crop(const hrn_plan *plan, int32_t index, const hrn_key *key, int32_t width,
                      int32_t height, const float *boxes, int32_t count, hrn_settled_crop *crop,
                      hrn_status *status) {
  hrn_status_clear(status);
  if (index < 0 || index >= plan->count || plan->ops[index].kind != HRN_OP_IOU_CROP || count < 0) {
    return hrn_fail(status, HRN_ARGUMENT, -1, "op %d with %d boxes is no crop by boxes", index,
                    count);
  }
  if (hrn_check_sides((uint32_t)width, (uint32_t)height, status) != HRN_OK) return status->code;
  const hrn_op_iou_crop *op = &plan->ops[index].iou_crop;
  hrn_draws draws = hrn_draws_of(key, index);
  trial t = {.boxes = boxes, .count = count};
  int64_t looks = 0;
  int32_t rounds = 0;
  for (; rounds < MAX_ROUNDS && looks < MAX_LOOKS; rounds++) {
    const double least = op->overlap[hrn_draw_below(&draws, op->count)];
    if (least >= 1) {
      *crop = (hrn_settled_crop){0, 0, 0, 0};
      return HRN_OK;
    }
    for (int32_t k = 0; k < op->trials && looks < MAX_LOOKS; k++) {
      if (!shape(op, &draws, width, height, &t)) continue;
      looks += count;
      if (!keeps_a_box(&t, least)) continue;
      *crop = (hrn_settled_crop){t.top, t.left, t.height, t.width};
      return HRN_OK;
    }
  }
  return hrn_fail(status, HRN_LIMIT, -1,
                  "no crop of %dx%d pixels was found that keeps one of %d boxes, in %d draws of an "
                  "overlap of %d trials each; sampler_options with 1 leave such an image whole",
                  height, width, count, rounds, op->trials);
}
