/* pixels.h: ops on the pixels of an image of fixed size: colour, filters, warps, noise.
 *
 * Each op does what torchvision does to a PIL image, with parameters that are already drawn
 * (pixel_draw.c draws them). "Pillow" below means Pillow 13.
 */
#ifndef HEADRACE_PIXELS_PIXELS_H
#define HEADRACE_PIXELS_PIXELS_H

#include "../core/image.h"

/* The comment behind each kind names the member of hrn_pixel_args that holds its arguments. */
enum hrn_pixel_kind {
  HRN_PIXEL_NOTHING = 0,
  HRN_PIXEL_INVERT,
  HRN_PIXEL_POSTERIZE,  /* bits */
  HRN_PIXEL_SOLARIZE,   /* threshold */
  HRN_PIXEL_BRIGHTNESS, /* factor */
  HRN_PIXEL_CONTRAST,   /* factor */
  HRN_PIXEL_SATURATION, /* factor */
  HRN_PIXEL_SHARPNESS,  /* factor */
  HRN_PIXEL_HUE,        /* factor, -0.5 to 0.5 */
  HRN_PIXEL_GAMMA,      /* gamma */
  HRN_PIXEL_AUTOCONTRAST,
  HRN_PIXEL_EQUALIZE,
  HRN_PIXEL_GREY,
  HRN_PIXEL_CHANNELS,     /* channels */
  HRN_PIXEL_BLUR,         /* blur */
  HRN_PIXEL_AFFINE,       /* affine; with the filter and the fill */
  HRN_PIXEL_PERSPECTIVE,  /* perspective; with the filter and the fill */
  HRN_PIXEL_SOLARIZE_ADD, /* solarize_add */
  HRN_PIXEL_PILLOW_BLUR,  /* radius */
  HRN_PIXEL_JPEG,         /* quality */
  /* These stand around chains of ops that are mixed. Only a drawn list has them. */
  HRN_PIXEL_MIX_BEGIN, /* weight of the image itself */
  HRN_PIXEL_MIX_CHAIN, /* weight of the chain that ends here */
  HRN_PIXEL_MIX_END,   /* blend */
  HRN_PIXEL_USER,      /* user */
  HRN_PIXEL_NOISE,     /* noise */
  /* As torchvision does them to tensors of bytes; tensorops.c. */
  HRN_PIXEL_TENSOR_BRIGHTNESS, /* factor */
  HRN_PIXEL_TENSOR_CONTRAST,   /* factor */
  HRN_PIXEL_TENSOR_SATURATION, /* factor */
  HRN_PIXEL_TENSOR_SHARPNESS,  /* factor */
  HRN_PIXEL_TENSOR_AUTOCONTRAST,
  HRN_PIXEL_TENSOR_AFFINE, /* tensor_affine; filter: HRN_NEAREST or HRN_BILINEAR, and the fill */
  /* ElasticTransform; elastic.c. filter: HRN_NEAREST or HRN_BILINEAR, and the fill. */
  HRN_PIXEL_ELASTIC,  /* elastic */
  HRN_PIXEL_DISPLACED /* displaced */
};

/* Arguments. If there is a number for each axis, the horizontal one is the first. Addresses and
 * keys are plain numbers, because Go fills them in. */

typedef struct hrn_pixel_gamma {
  double gamma, gain;
} hrn_pixel_gamma;

typedef struct hrn_pixel_solarize_add {
  int32_t add;       /* 0 to 255; added to values below */
  int32_t threshold; /* 0 to 256 */
} hrn_pixel_solarize_add;

typedef struct hrn_pixel_blur {
  int32_t kernel[2]; /* width and height, odd */
  double sigma[2];
} hrn_pixel_blur;

typedef struct hrn_pixel_affine {
  double coefficients[6]; /* from output to input */
  int32_t size[2];        /* width and height of the output; 0: the input's */
} hrn_pixel_affine;

typedef struct hrn_pixel_user {
  uint64_t function, context; /* addresses of a hrn_user_function and of its first argument */
  uint64_t random[4], sample;
} hrn_pixel_user;

typedef struct hrn_pixel_noise {
  uint64_t key[2];        /* of its random words */
  double mean, deviation; /* as shares of 255 */
  int32_t clip;           /* 0: bytes overflow */
} hrn_pixel_noise;

/* What is shown where an image has moved away. */
typedef struct hrn_outside {
  int32_t filled;  /* 1: the fill, 0: it counts as 0 */
  int32_t version; /* of torchvision, whose versions blend with the fill in two ways */
} hrn_outside;

typedef struct hrn_pixel_tensor_affine {
  double coefficients[6]; /* from output to input, both counted from the image's middle */
  int32_t filled;         /* as above */
} hrn_pixel_tensor_affine;

typedef struct hrn_pixel_elastic {
  uint64_t key[2]; /* of its noise */
  double alpha[2], sigma[2];
  hrn_outside outside;
} hrn_pixel_elastic;

typedef struct hrn_pixel_displaced {
  uint64_t field;        /* address of displacements as hrn_displace makes them, */
  int32_t width, height; /* for an image of that size */
  hrn_outside outside;
} hrn_pixel_displaced;

typedef union hrn_pixel_args {
  int32_t bits;     /* bits that are kept, 0 to 8 */
  double threshold; /* values from this one on are inverted */
  double factor;
  hrn_pixel_gamma gamma;
  int32_t channels[3]; /* which channel stands first, second, third */
  hrn_pixel_blur blur;
  hrn_pixel_affine affine;
  double perspective[8]; /* coefficients, from output to input */
  hrn_pixel_solarize_add solarize_add;
  double radius[2]; /* the standard deviation */
  int32_t quality;  /* 1 to 100 */
  double weight;
  double blend; /* the share of the result in a blend with the image; below 0: no blend */
  hrn_pixel_user user;
  hrn_pixel_noise noise;
  hrn_pixel_tensor_affine tensor_affine;
  hrn_pixel_elastic elastic;
  hrn_pixel_displaced displaced;
} hrn_pixel_args;

/* The same as hr_pixel_function of capi/headrace.h. */
typedef int32_t (*hrn_user_function)(void *context, uint8_t *pixels, int32_t height, int32_t width,
                                     size_t stride, const uint64_t random[4], uint64_t sample);

typedef struct hrn_pixel_op {
  int32_t kind;   /* enum hrn_pixel_kind */
  int32_t filter; /* HRN_NEAREST, HRN_BILINEAR or HRN_BICUBIC, for warps */
  uint8_t fill[4];
  hrn_pixel_args args;
} hrn_pixel_op;

/* What is kept from one op of a list to the next; zero at first. */
typedef struct hrn_pixel_state {
  int32_t turn; /* which of the context's two spare images is free */
  /* For a mixture: its sums, four values a pixel, and the image that all chains begin with. */
  float *sums;
  uint8_t *original;
} hrn_pixel_state;

/* Whether the op sets the size of its output. Only a warp may change the size. */
static inline int hrn_sets_size(const hrn_pixel_op *op) {
  return op->kind == HRN_PIXEL_AFFINE && op->args.affine.size[0] > 0;
}

/* Runs the op on *image. The pixels are changed in place, or written to one of the context's two
 * spare images, which then becomes *image. */
int hrn_pixels_run(hrn_context *context, const hrn_pixel_op *op, hrn_image *image,
                   hrn_pixel_state *state, hrn_status *status);

/* A histogram: histogram[c][v] pixels have value v in channel c. */
typedef uint32_t hrn_histogram[3][256];

/* One new value for each value of each channel. */
typedef uint8_t hrn_table[3][256];

/* ---- point.c ----------------------------------------------------------------------------- */

/* The table of HRN_PIXEL_AUTOCONTRAST, _EQUALIZE, _GAMMA or _SOLARIZE_ADD. The first two look at
 * the image. */
void hrn_table_of(const hrn_pixel_op *op, const hrn_image *image, hrn_table table);
void hrn_table_apply(hrn_table table, hrn_image *image);
void hrn_invert(hrn_image *image);
void hrn_posterize(hrn_image *image, int32_t bits);
void hrn_solarize(hrn_image *image, double threshold);

/* Pillow's convert("L"). */
static inline uint8_t hrn_grey(const uint8_t *pixel) {
  return (uint8_t)((pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u) >> 16);
}

/* Pillow's Image.blend of one value, from `a` (factor 0) to `b` (factor 1) and beyond, in single
 * precision, truncated and not rounded. It has no branches, so compilers make vectors of it. */
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
int hrn_gaussian_blur(hrn_context *context, const hrn_pixel_blur *blur, const hrn_image *image,
                      const hrn_image *out, hrn_status *status);
int hrn_affine(hrn_context *context, const hrn_pixel_op *op, const hrn_image *image,
               const hrn_image *out, hrn_status *status);
void hrn_perspective(const hrn_pixel_op *op, const hrn_image *image, const hrn_image *out);
/* noise.c, in place */
void hrn_add_noise(const hrn_pixel_noise *noise, const hrn_image *image);
/* pillowblur.c */
int hrn_pillow_blur(hrn_context *context, const double radius[2], const hrn_image *image,
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
#define HRN_MAX_ELASTIC_SIGMA 127.0 /* its kernel has 1017 */

/* Computes the displacements of all pixels, across and down, as torchvision's functional.elastic
 * takes them: in halves of the image's sides. `room` has hrn_displacement_room floats, of which the
 * first 2 * width * height are the result. HRN_ARGUMENT if the image is too small for the blur. */
size_t hrn_displacement_room(int32_t width, int32_t height);
int hrn_displace(const hrn_pixel_elastic *elastic, int32_t width, int32_t height, float *room,
                 hrn_status *status);
/* The same displacement for one pixel, which must lie inside. */
int hrn_displacement_at(const hrn_pixel_elastic *elastic, int32_t width, int32_t height, int32_t x,
                        int32_t y, float displacement[2], hrn_status *status);
/* The displacements of an ELASTIC or a DISPLACED: in HRN_SCRATCH_FIELD, or those that were given.
 * NULL with an error in status. */
const float *hrn_displacements(hrn_context *context, const hrn_pixel_op *op, int32_t width,
                               int32_t height, hrn_status *status);
int hrn_elastic(hrn_context *context, const hrn_pixel_op *op, const hrn_image *image,
                const hrn_image *out, hrn_status *status);

/* tensorops.c: where a pixel is in torch's grid of an image that is not moved, from -1 to 1. */
float hrn_identity(int32_t at, int32_t length);

/* The place that a displaced pixel shows, counted in pixels from the middle of the first one. And
 * the op for all pixels of an image. */
void hrn_displaced_place(const float displacement[2], int32_t x, int32_t y, int32_t width,
                         int32_t height, float place[2]);
void hrn_tensor_displace(const hrn_pixel_op *op, const hrn_outside *outside, const float *field,
                         const hrn_image *image, const hrn_image *out);

/* ---- user.c: a function of the program's own ------------------------------------------------ */
int hrn_user_run(const hrn_pixel_user *user, const hrn_image *image, hrn_status *status);

/* ---- chains.c: the ops between and around chains -------------------------------------------- */
int hrn_mix_run(hrn_context *context, const hrn_pixel_op *op, const hrn_image *image,
                hrn_pixel_state *state, hrn_status *status);

#endif
