/* crops.c: FiveCrop and TenCrop: several windows of one finished image, as torchvision's five_crop
 * and ten_crop cut them. */
#include <math.h>

#include "plan.h"

int32_t hrn_crops_of(const hrn_op *op) {
  if (op->kind != HRN_OP_FIVE_CROP) return 0;
  return op->crops.ten ? 10 : 5;
}

int hrn_crops_add(hrn_program *program, const hrn_op *op, hrn_status *status) {
  const hrn_stage *last = &program->stages[program->count - 1];
  const int32_t width = last->x.length, height = last->y.length;
  const int32_t h = op->crops.size.height, w = op->crops.size.width;
  if (h > height || w > width) {
    return hrn_fail(status, HRN_ARGUMENT, -1,
                    "crops of size %dx%d (height x width) are larger than the image, %dx%d", h, w,
                    height, width);
  }
  hrn_crops *crops = &program->crops;
  crops->count = hrn_crops_of(op);
  crops->vertical = op->crops.vertical;
  /* center_crop's offset rounds half to even, as Python does. */
  const int32_t middle_x = (int32_t)rint((width - w) / 2.0);
  const int32_t middle_y = (int32_t)rint((height - h) / 2.0);
  const hrn_box five[5] = {{0, 0, w, h},
                           {width - w, 0, w, h},
                           {0, height - h, w, h},
                           {width - w, height - h, w, h},
                           {middle_x, middle_y, w, h}};
  for (int32_t k = 0; k < crops->count; k++) {
    hrn_box box = five[k % 5];
    /* A box of the mirrored image is a box of the image itself, mirrored. */
    if (k >= 5 && crops->vertical) box.top = height - h - box.top;
    if (k >= 5 && !crops->vertical) box.left = width - w - box.left;
    crops->box[k] = box;
  }
  return HRN_OK;
}

void hrn_crops_write(const hrn_crops *crops, const hrn_format *format, const hrn_image *image,
                     uint8_t *destination) {
  for (int32_t k = 0; k < crops->count; k++) {
    const hrn_box *box = &crops->box[k];
    const int mirrored = k >= 5;
    hrn_writer to = hrn_finished_writer(format, box->width, box->height, destination);
    to.flip_x = mirrored && !crops->vertical;
    to.flip_y = mirrored && crops->vertical;
    for (int32_t y = 0; y < box->height; y++) {
      to.sink.row(&to.sink, y,
                  image->pixels + (size_t)(box->top + y) * image->stride + 4 * (size_t)box->left);
    }
    destination += format->channels * to.pitch.plane;
  }
}
