/* pixels.h: ops on the pixels of an image of fixed size: colour, filters, warps, erasing.
 *
 * Each is what torchvision does to a PIL image, for parameters that are already drawn; who draws
 * them is recipe.c. "Pillow" below means Pillow 13.
 */
#ifndef HEADRACE_PIXELS_PIXELS_H
#define HEADRACE_PIXELS_PIXELS_H

#include "../core/image.h"

/* p and i are what the op's function takes, in its order. */
enum hrn_pixel_kind {
  HRN_PIXEL_NOTHING = 0,
  HRN_PIXEL_INVERT,
  HRN_PIXEL_POSTERIZE,  /* i = bits kept, 0 to 8 */
  HRN_PIXEL_SOLARIZE,   /* p = threshold: values of at least that are inverted */
  HRN_PIXEL_BRIGHTNESS, /* p = factor */
  HRN_PIXEL_CONTRAST,   /* p = factor */
  HRN_PIXEL_SATURATION, /* p = factor */
  HRN_PIXEL_SHARPNESS,  /* p = factor */
  HRN_PIXEL_HUE,        /* p = factor, -0.5 to 0.5 */
  HRN_PIXEL_GAMMA,      /* p = gamma, gain */
  HRN_PIXEL_AUTOCONTRAST,
  HRN_PIXEL_EQUALIZE,
  HRN_PIXEL_GREY,
  HRN_PIXEL_CHANNELS,    /* i = which channel stands first, second, third */
  HRN_PIXEL_BLUR,        /* i = kernel width, height (odd); p = sigma x, sigma y */
  HRN_PIXEL_AFFINE,      /* filter; p = six coefficients, output to input; fill; i[2..3] = width and
                            height of the output, 0: the input's. As an op of a plan: i[0] = enum
                            hrn_map */
  HRN_PIXEL_PERSPECTIVE, /* filter; p = eight coefficients; fill */
  HRN_PIXEL_SOLARIZE_ADD, /* i = what is added (0 to 255) to values below a threshold (0 to 256) */
  HRN_PIXEL_PILLOW_BLUR,  /* p = radius, the standard deviation, across and down */
  HRN_PIXEL_JPEG,         /* i = quality, 1 to 100 */
  /* Between chains of ops that are mixed; of a drawn list alone. */
  HRN_PIXEL_MIX_BEGIN, /* p = weight of the image itself */
  HRN_PIXEL_MIX_CHAIN, /* p = weight of the chain that ends here */
  HRN_PIXEL_MIX_END,   /* p = the result's share in a blend with the image, below 0: no blend */
  HRN_PIXEL_USER, /* i = halves of the addresses of a hrn_user_function and of its context, low ones
                     first; p[0..3] = four words of random bits, p[4] = the sample's number, as they
                     lie in memory */
  HRN_PIXEL_NOISE, /* i = the key of its words, as it lies in memory; p = mean and deviation, as
                      shares of 255, and 1: clip, 0: let bytes overflow */
  /* As torchvision does them to tensors of bytes; tensorops.c. */
  HRN_PIXEL_TENSOR_BRIGHTNESS, /* p = factor, also of the next three */
  HRN_PIXEL_TENSOR_CONTRAST,
  HRN_PIXEL_TENSOR_SATURATION,
  HRN_PIXEL_TENSOR_SHARPNESS,
  HRN_PIXEL_TENSOR_AUTOCONTRAST,
  HRN_PIXEL_TENSOR_AFFINE, /* filter: HRN_NEAREST or HRN_BILINEAR; p = six coefficients, output to
                              input, both from the middle of the image on; i = 1: what is outside is
                              the fill, 0: it counts as 0 */
  /* ElasticTransform; elastic.c. filter: HRN_NEAREST or HRN_BILINEAR; fill; p[4] = 1: what is
   * outside is the fill, 0: it counts as 0; p[5] = torchvision's version, of whose fill it is. */
  HRN_PIXEL_ELASTIC,   /* i = the key of its noise; p = alpha across and down, sigma across and down
                        */
  HRN_PIXEL_DISPLACED, /* i = halves of the address of displacements as hrn_displace makes them, low
                          one first, and their width and height */
};

/* How a plan's affine op gives its map: with the size of the image still to come. */
enum hrn_map {
  HRN_MAP_COEFFICIENTS = 0,
  HRN_MAP_AFFINE,       /* p = angle, translate x, y, scale, shear x, y, centre x, y; i[1] = 1: a
                           centre */
  HRN_MAP_AFFINE_OF_V2, /* the same in torchvision's v2 */
  HRN_MAP_ROTATION      /* p = angle, centre x, y; i[1] = 1: a centre; i[2] = 1: it expands */
};

/* hr_pixel_function of capi/headrace.h. */
typedef int32_t (*hrn_user_function)(void *context, uint8_t *pixels, int32_t height, int32_t width,
                                     size_t stride, const uint64_t random[4], uint64_t sample);

typedef struct hrn_pixel_op {
  int32_t kind;   /* enum hrn_pixel_kind */
  int32_t filter; /* HRN_NEAREST, HRN_BILINEAR or HRN_BICUBIC, for warps */
  int32_t i[4];
  double p[8];
  uint8_t fill[4];
} hrn_pixel_op;

/* What lasts from one op of a list to the next; zero at first. */
typedef struct hrn_pixel_state {
  int32_t turn; /* which of the context's two spare images is free */
  /* Of a mixture: four values a pixel of its sums, and the image that all chains begin at. */
  float *sums;
  uint8_t *original;
} hrn_pixel_state;

/* The size of its output: only a warp may have another one than its input. */
static inline int hrn_sets_size(const hrn_pixel_op *op) {
  return op->kind == HRN_PIXEL_AFFINE && op->i[2] > 0;
}

/* Runs the op on *image, whose pixels are changed in place, or written to one of the context's two
 * spare images, which *image then is. */
int hrn_pixels_run(hrn_context *context, const hrn_pixel_op *op, hrn_image *image,
                   hrn_pixel_state *state, hrn_status *status);

/* Sums of a channel's values: histogram[c][v] pixels have value v in channel c. */
typedef uint32_t hrn_histogram[3][256];

/* One new value for each value of each channel. */
typedef uint8_t hrn_table[3][256];

/* ---- point.c ----------------------------------------------------------------------------- */

/* The table of HRN_PIXEL_AUTOCONTRAST, _EQUALIZE or _GAMMA; the first two look at the image. */
void hrn_table_of(const hrn_pixel_op *op, const hrn_image *image, hrn_table table);
void hrn_table_apply(hrn_table table, hrn_image *image);
void hrn_invert(hrn_image *image);
void hrn_posterize(hrn_image *image, int32_t bits);
void hrn_solarize(hrn_image *image, double threshold);

/* Pillow's convert("L"). */
static inline uint8_t hrn_grey(const uint8_t *pixel) {
  return (uint8_t)((pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u) >> 16);
}

/* Pillow's Image.blend of one value, from `a` (factor 0) to `b` (factor 1) and beyond: single
 * precision, cut off, not rounded. Without branches, so that compilers make vectors of it. */
static inline uint8_t hrn_blend(int32_t a, int32_t b, float factor) {
  const float value = (float)a + factor * (float)(b - a);
  const float positive = value > 0 ? value : 0;
  return (uint8_t)(int32_t)(positive < 255 ? positive : 255);
}

/* ---- enhance.c, hue.c: in place ------------------------------------------------------------ */
void hrn_brightness(hrn_image *image, float factor);
void hrn_contrast(hrn_image *image, float factor);
void hrn_saturation(hrn_image *image, float factor);
void hrn_turn_grey(hrn_image *image);
void hrn_permute_channels(hrn_image *image, const int32_t order[3]);
void hrn_turn_hue(hrn_image *image, double factor);

/* ---- sharpen.c, blur.c, warp.c: from one image to another of the same size ----------------- */
void hrn_sharpness(const hrn_image *image, const hrn_image *out, float factor);
int hrn_gaussian_blur(hrn_context *context, const hrn_pixel_op *op, const hrn_image *image,
                      const hrn_image *out, hrn_status *status);
int hrn_affine(hrn_context *context, const hrn_pixel_op *op, const hrn_image *image,
               const hrn_image *out, hrn_status *status);
void hrn_perspective(const hrn_pixel_op *op, const hrn_image *image, const hrn_image *out);
/* noise.c, in place */
void hrn_add_noise(const hrn_pixel_op *op, const hrn_image *image);
/* pillowblur.c */
int hrn_pillow_blur(hrn_context *context, const hrn_pixel_op *op, const hrn_image *image,
                    const hrn_image *out, hrn_status *status);

/* ---- tensorops.c: all but the last two in place --------------------------------------------- */
void hrn_tensor_brightness(hrn_image *image, double factor);
void hrn_tensor_contrast(hrn_image *image, double factor);
void hrn_tensor_saturation(hrn_image *image, double factor);
void hrn_tensor_autocontrast(hrn_image *image);
void hrn_tensor_sharpness(const hrn_image *image, const hrn_image *out, double factor);
void hrn_tensor_affine(const hrn_pixel_op *op, const hrn_image *image, const hrn_image *out);

/* ---- elastic.c ------------------------------------------------------------------------------ */
#define HRN_MAX_BLUR 1023           /* the side of a kernel */
#define HRN_MAX_ELASTIC_SIGMA 127.0 /* whose kernel has 1017 */

/* The displacements of all pixels, across and down, as torchvision's functional.elastic takes them:
 * in halves of the image's sides. `room` has hrn_displacement_room floats, of which the first
 * 2 * width * height are filled. HRN_ARGUMENT where the image is too small for the blur. */
size_t hrn_displacement_room(int32_t width, int32_t height);
int hrn_displace(const hrn_pixel_op *op, int32_t width, int32_t height, float *room,
                 hrn_status *status);
/* The same number for one pixel, which lies inside. */
int hrn_displacement_at(const hrn_pixel_op *op, int32_t width, int32_t height, int32_t x, int32_t y,
                        float displacement[2], hrn_status *status);
/* Of either kind; NULL with an error in status. In HRN_SCRATCH_FIELD, or as they were given. */
const float *hrn_displacements(hrn_context *context, const hrn_pixel_op *op, int32_t width,
                               int32_t height, hrn_status *status);
int hrn_elastic(hrn_context *context, const hrn_pixel_op *op, const hrn_image *image,
                const hrn_image *out, hrn_status *status);

/* tensorops.c: where a pixel stands in torch's grid of an image that is not moved, from -1 to 1. */
float hrn_identity(int32_t at, int32_t length);

/* Which place of an image a pixel of it is moved to, counted in pixels from the middle of
 * the first one; and all pixels of an image. */
void hrn_displaced_place(const float displacement[2], int32_t x, int32_t y, int32_t width,
                         int32_t height, float place[2]);
void hrn_tensor_displace(const hrn_pixel_op *op, const float *field, const hrn_image *image,
                         const hrn_image *out);

/* ---- user.c: a function of the program's own ------------------------------------------------ */
void hrn_user_draw(const uint64_t words[4], uint64_t sample, hrn_pixel_op *pixel);
int hrn_user_run(const hrn_pixel_op *op, const hrn_image *image, hrn_status *status);

/* ---- chains.c: the ops between and around chains -------------------------------------------- */
int hrn_mix_run(hrn_context *context, const hrn_pixel_op *op, const hrn_image *image,
                hrn_pixel_state *state, hrn_status *status);

#endif
