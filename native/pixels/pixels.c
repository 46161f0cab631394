/* pixels.c: runs one op on an image, in place or by way of the context's spare images. */
#include "pixels.h"

#include "../jpeg/recompress.h"

/* Gives an image for the op to write to. The two spare images take turns, because a buffer that is
 * asked for again loses its contents. */
static int spare_image(hrn_context *context, const hrn_pixel_op *op, const hrn_image *image,
                       int32_t *turn, hrn_image *spare, hrn_status *status) {
  spare->width = hrn_sets_size(op) ? op->args.affine.size[0] : image->width;
  spare->height = hrn_sets_size(op) ? op->args.affine.size[1] : image->height;
  spare->stride = (size_t)spare->width * 4;
  size_t bytes;
  if (__builtin_mul_overflow(spare->stride, (size_t)spare->height, &bytes)) {
    return hrn_fail(status, HRN_LIMIT, -1, "an intermediate image of %dx%d pixels", spare->width,
                    spare->height);
  }
  spare->pixels =
      hrn_scratch(context, *turn ? HRN_SCRATCH_PIXELS_B : HRN_SCRATCH_PIXELS_A, bytes, status);
  if (spare->pixels == NULL) return status->code;
  *turn = !*turn;
  return HRN_OK;
}

/* Runs ops that need no second image; 0 if the op needs one. */
static int run_in_place(const hrn_pixel_op *op, hrn_image *image) {
  const hrn_pixel_args *args = &op->args;
  switch (op->kind) {
    case HRN_PIXEL_NOTHING:
      return 1;
    case HRN_PIXEL_INVERT:
      hrn_invert(image);
      return 1;
    case HRN_PIXEL_POSTERIZE:
      hrn_posterize(image, args->bits);
      return 1;
    case HRN_PIXEL_SOLARIZE:
      hrn_solarize(image, args->threshold);
      return 1;
    case HRN_PIXEL_BRIGHTNESS:
      hrn_brightness(image, (float)args->factor);
      return 1;
    case HRN_PIXEL_CONTRAST:
      hrn_contrast(image, (float)args->factor);
      return 1;
    case HRN_PIXEL_SATURATION:
      hrn_saturation(image, (float)args->factor);
      return 1;
    case HRN_PIXEL_HUE:
      hrn_turn_hue(image, args->factor);
      return 1;
    case HRN_PIXEL_SOLARIZE_ADD:
    case HRN_PIXEL_GAMMA:
    case HRN_PIXEL_AUTOCONTRAST:
    case HRN_PIXEL_EQUALIZE: {
      hrn_table table;
      hrn_table_of(op, image, table);
      hrn_table_apply(table, image);
      return 1;
    }
    case HRN_PIXEL_GREY:
      hrn_turn_grey(image);
      return 1;
    case HRN_PIXEL_CHANNELS:
      hrn_permute_channels(image, args->channels);
      return 1;
    case HRN_PIXEL_NOISE:
      hrn_add_noise(&args->noise, image);
      return 1;
    case HRN_PIXEL_TENSOR_BRIGHTNESS:
      hrn_tensor_brightness(image, args->factor);
      return 1;
    case HRN_PIXEL_TENSOR_CONTRAST:
      hrn_tensor_contrast(image, args->factor);
      return 1;
    case HRN_PIXEL_TENSOR_SATURATION:
      hrn_tensor_saturation(image, args->factor);
      return 1;
    case HRN_PIXEL_TENSOR_AUTOCONTRAST:
      hrn_tensor_autocontrast(image);
      return 1;
    default:
      return 0;
  }
}

int hrn_pixels_run(hrn_context *context, const hrn_pixel_op *op, hrn_image *image,
                   hrn_pixel_state *state, hrn_status *status) {
  if (run_in_place(op, image)) return HRN_OK;
  if (op->kind >= HRN_PIXEL_MIX_BEGIN && op->kind <= HRN_PIXEL_MIX_END) {
    return hrn_mix_run(context, op, image, state, status);
  }
  if (op->kind == HRN_PIXEL_USER) return hrn_user_run(&op->args.user, image, status);
  const hrn_pixel_args *args = &op->args;
  hrn_image out;
  if (spare_image(context, op, image, &state->turn, &out, status) != HRN_OK) return status->code;
  switch (op->kind) {
    case HRN_PIXEL_SHARPNESS:
      hrn_sharpness(image, &out, (float)args->factor);
      break;
    case HRN_PIXEL_BLUR:
      if (hrn_gaussian_blur(context, &args->blur, image, &out, status) != HRN_OK) {
        return status->code;
      }
      break;
    case HRN_PIXEL_AFFINE:
      if (hrn_affine(context, op, image, &out, status) != HRN_OK) return status->code;
      break;
    case HRN_PIXEL_PILLOW_BLUR:
      if (hrn_pillow_blur(context, args->radius, image, &out, status) != HRN_OK) {
        return status->code;
      }
      break;
    case HRN_PIXEL_JPEG:
      if (hrn_recompress(context, args->quality, image, &out, status) != HRN_OK)
        return status->code;
      break;
    case HRN_PIXEL_ELASTIC:
    case HRN_PIXEL_DISPLACED:
      if (hrn_elastic(context, op, image, &out, status) != HRN_OK) return status->code;
      break;
    case HRN_PIXEL_PERSPECTIVE:
      hrn_perspective(op, image, &out);
      break;
    case HRN_PIXEL_TENSOR_SHARPNESS:
      hrn_tensor_sharpness(image, &out, args->factor);
      break;
    case HRN_PIXEL_TENSOR_AFFINE:
      hrn_tensor_affine(op, image, &out);
      break;
    default:
      return hrn_fail(status, HRN_INTERNAL, -1, "pixel op %d", op->kind);
  }
  *image = out;
  return HRN_OK;
}
