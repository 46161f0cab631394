/* op.h: the ops of a plan, as data. */
#ifndef HEADRACE_DRAWS_OP_H
#define HEADRACE_DRAWS_OP_H

#include <stdint.h>

#include "../pixels/pixels.h"

/* No length, offset or padding along an axis exceeds this, so sums of a few of them fit int32. */
#define HRN_MAX_LENGTH (1 << 24)

/* The most ops of a plan. */
#define HRN_MAX_OPS 64

/* The comment behind each kind names the member of hrn_op that holds its arguments. */
enum hrn_op_kind {
  HRN_OP_CROP = 1,                /* box; the part that lies outside is black */
  HRN_OP_RESIZE = 2,              /* size */
  HRN_OP_RESIZE_SHORTER = 3,      /* shorter: torchvision's Resize(int) */
  HRN_OP_CENTER_CROP = 4,         /* size; pads with zeros as torchvision does */
  HRN_OP_RANDOM_RESIZED_CROP = 5, /* resized_crop */
  HRN_OP_RANDOM_CROP = 6,         /* random_crop */
  HRN_OP_HORIZONTAL_FLIP = 7,     /* probability */
  HRN_OP_VERTICAL_FLIP = 8,       /* probability */
  HRN_OP_PAD = 9,                 /* padding */
  /* These draw the size of their result, so the plan does not know it. */
  HRN_OP_RANDOM_SHORTEST_SIZE = 10, /* shortest */
  HRN_OP_RANDOM_RESIZE = 11,        /* resize_between */
  HRN_OP_SCALE_JITTER = 12,         /* jitter */
  HRN_OP_ZOOM_OUT = 13,             /* zoom */
  HRN_OP_RESIZE_BOX = 14,           /* resize_box: Pillow's resize with a box */
  HRN_OP_REDUCE = 15,               /* reduce: Pillow's reduce, or its draft */

  /* Groups. The ops that follow a group belong to it. */
  HRN_OP_APPLY = 16,  /* group: all of its ops, with a probability */
  HRN_OP_CHOICE = 17, /* group: one of its APPLY groups, by their weights */
  HRN_OP_ORDER = 18,  /* group: all of its APPLY groups, in random order */

  HRN_OP_IOU_CROP = 19, /* iou_crop; draws the size of its result as well, and looks at boxes */

  /* Warps whose map depends on the size of the image, and is fixed otherwise. */
  HRN_OP_FIXED_AFFINE = 22,   /* fixed_affine */
  HRN_OP_FIXED_ROTATION = 23, /* fixed_rotation */

  HRN_OP_PIXEL = 24,               /* pixel: any fixed op on pixels */
  HRN_OP_COLOR_JITTER = 25,        /* colour */
  HRN_OP_CHANNEL_PERMUTATION = 26, /* none */
  HRN_OP_GAUSSIAN_BLUR = 27,       /* blur */
  HRN_OP_ROTATION = 28,            /* rotation */
  HRN_OP_AFFINE = 29,              /* affine */
  HRN_OP_PERSPECTIVE = 30,         /* distortion */
  HRN_OP_RAND_AUGMENT = 31,        /* augment */
  HRN_OP_TRIVIAL_AUGMENT = 32,     /* augment */
  HRN_OP_AUTO_AUGMENT = 33,        /* augment */
  HRN_OP_TIMM = 34,                /* timm */
  HRN_OP_AUG_MIX = 35,             /* aug_mix */
  HRN_OP_JPEG = 36,                /* quality */
  HRN_OP_GAUSSIAN_NOISE = 37,      /* noise */
  HRN_OP_PILLOW_BLUR = 38,         /* radius */
  HRN_OP_ELASTIC = 39,             /* elastic */

  /* Boxes of the finished values; these come last. */
  HRN_OP_ERASING = 40,  /* erasing: random boxes */
  HRN_OP_CUTOUT = 41,   /* erasing: squares whose middle may be any pixel */
  HRN_OP_ERASE = 42,    /* erasing: one box */
  HRN_OP_FIVE_CROP = 48 /* crops; the last op */
};

enum hrn_erasing_fill {
  HRN_ERASE_VALUE = 0,  /* one value for each channel */
  HRN_ERASE_PIXELS = 1, /* a normal value for each channel of each pixel */
  HRN_ERASE_BOX = 2     /* a normal value for each channel of each box */
};
#define HRN_MAX_ERASINGS 32 /* boxes of an image */

/* timm's sets of ops (RandAugment), its AugMix, and its policies (AutoAugment). */
enum hrn_timm {
  HRN_TIMM_RAND = 0,
  HRN_TIMM_RAND_INCREASING,
  HRN_TIMM_RAND_3A,
  HRN_TIMM_RAND_3A_WEIGHTED,
  HRN_TIMM_RAND_WEIGHTED,
  HRN_TIMM_AUGMIX,
  HRN_TIMM_AUTO_V0,
  HRN_TIMM_AUTO_V0R,
  HRN_TIMM_AUTO_ORIGINAL,
  HRN_TIMM_AUTO_ORIGINALR,
  HRN_TIMM_AUTO_3A
};
#define HRN_FILTER_DRAWN (-1) /* bilinear or bicubic, drawn for each op */
#define HRN_MAX_CHAINS 16     /* chains of an AugMix */

enum hrn_policy { HRN_POLICY_IMAGENET = 0, HRN_POLICY_CIFAR10 = 1, HRN_POLICY_SVHN = 2 };

enum hrn_padding_mode {
  HRN_PAD_CONSTANT = 0,
  HRN_PAD_EDGE = 1,
  HRN_PAD_REFLECT = 2,
  HRN_PAD_SYMMETRIC = 3
};

/* Arguments. Of two bounds the lower one is the first. */

typedef struct hrn_op_box {
  int32_t top, left, height, width;
} hrn_op_box;

typedef struct hrn_op_size {
  int32_t height, width;
} hrn_op_size;

/* The box is left, top, right, bottom, with fractions. It lies inside the image. Pillow stores it
 * in float32. */
typedef struct hrn_op_resize_box {
  hrn_op_size size;
  float box[4];
} hrn_op_resize_box;

/* Sides are divided by whole factors and rounded up. */
typedef struct hrn_op_reduce {
  int32_t across, down;
  int32_t draft; /* enum hrn_draft */
} hrn_op_reduce;

/* How the smaller image is made: from the mean of each box of pixels, or by libjpeg from fewer
 * coefficients (a draft). A draft is a plan's first op, its two factors are equal, 1, 2, 4 or 8,
 * and the file is a JPEG. */
enum hrn_draft {
  HRN_DRAFT_NONE = 0,
  HRN_DRAFT_COLOURS = 1,
  HRN_DRAFT_GREY = 2 /* the file's luminance alone, without its chroma */
};

typedef struct hrn_op_shorter {
  int32_t size;     /* of the shorter side; 0: the longer one becomes max_size */
  int32_t max_size; /* 0: none */
} hrn_op_shorter;

typedef struct hrn_op_resized_crop {
  hrn_op_size size;
  double scale[2]; /* share of the area */
  double ratio[2]; /* width / height */
} hrn_op_resized_crop;

typedef struct hrn_op_padding {
  int32_t left, top, right, bottom;
  int32_t mode; /* enum hrn_padding_mode */
} hrn_op_padding;

typedef struct hrn_op_random_crop {
  hrn_op_size size;
  hrn_op_padding padding;
  int32_t if_needed; /* 1: a side that is too small is padded on both ends by what it lacks */
} hrn_op_random_crop;

#define HRN_MAX_SIZES 12 /* sizes that one is drawn from */
typedef struct hrn_op_shortest {
  int32_t max_size; /* 0: none */
  int32_t count;
  int32_t size[HRN_MAX_SIZES];
} hrn_op_shortest;

typedef struct hrn_op_resize_between {
  int32_t least, end; /* of the shorter side; `end` itself is never drawn */
} hrn_op_resize_between;

typedef struct hrn_op_jitter {
  hrn_op_size target;
  double scale[2];
} hrn_op_jitter;

typedef struct hrn_op_zoom {
  int32_t mode;   /* enum hrn_padding_mode */
  double side[2]; /* side of the canvas, as a multiple of the image's */
} hrn_op_zoom;

#define HRN_MAX_OVERLAPS 12 /* overlaps that one is drawn from */
#define HRN_MAX_TRIALS 1000
typedef struct hrn_op_iou_crop {
  double scale[2];  /* of each side */
  double aspect[2]; /* width / height */
  int32_t trials;   /* trials with one overlap */
  int32_t count;
  double overlap[HRN_MAX_OVERLAPS]; /* the least overlap; from 1 on the image stays as it is */
} hrn_op_iou_crop;

typedef struct hrn_op_group {
  int32_t count;      /* how many ops it has, those of groups inside it included */
  double probability; /* of an APPLY */
  double weight;      /* of an APPLY in a CHOICE */
} hrn_op_group;

/* The filter and the fill are those of the op. */
typedef struct hrn_op_pixel {
  int32_t kind; /* enum hrn_pixel_kind */
  hrn_pixel_args args;
} hrn_op_pixel;

/* Angles and shears in degrees, translations in pixels. */
typedef struct hrn_op_fixed_affine {
  int32_t has_centre; /* 0: it is the image's */
  int32_t version;    /* 2: the order of operations of torchvision's v2 */
  double angle, translate[2], scale, shear[2], centre[2];
} hrn_op_fixed_affine;

typedef struct hrn_op_fixed_rotation {
  int32_t has_centre, expand; /* as below */
  double angle, centre[2];
} hrn_op_fixed_rotation;

/* Brightness, contrast, saturation, hue. */
typedef struct hrn_op_colour {
  int32_t drawn[4]; /* 0: left out */
  double factor[4][2];
} hrn_op_colour;

typedef struct hrn_op_blur {
  int32_t kernel[2]; /* width, height */
  double sigma[2];
} hrn_op_blur;

typedef struct hrn_op_rotation {
  int32_t expand;     /* 1: the result holds the whole turned image */
  int32_t has_centre; /* 0: it is the image's */
  double degrees[2], centre[2];
} hrn_op_rotation;

typedef struct hrn_op_affine {
  int32_t has_centre;
  int32_t version; /* 2: the order of operations of torchvision's v2 */
  double degrees[2];
  double translate[2]; /* at most this, across and down, as shares of the sides */
  double scale[2], shear_x[2], shear_y[2], centre[2];
} hrn_op_affine;

/* torchvision's RandAugment, TrivialAugmentWide and AutoAugment. */
typedef struct hrn_op_augment {
  int32_t ops, magnitude; /* of a RAND_AUGMENT */
  int32_t bins;           /* of RAND_AUGMENT and TRIVIAL_AUGMENT */
  int32_t policy;         /* of an AUTO_AUGMENT: enum hrn_policy */
  int32_t version;        /* 2: the thresholds of torchvision's v2 */
} hrn_op_augment;

/* The op's filter is that of warps, or HRN_FILTER_DRAWN. */
typedef struct hrn_op_timm {
  int32_t set;    /* enum hrn_timm */
  int32_t layers; /* number of ops (RAND) or chains (AUGMIX) */
  int32_t magnitude;
  int32_t depth;      /* ops of a chain; 0: 1 to 3 */
  double probability; /* of an op */
  double deviation;   /* of the magnitude; below 0: the magnitude is uniform from 0 */
  double most;        /* the greatest magnitude */
  double translation; /* at most this share of a side */
  double alpha;
} hrn_op_timm;

/* The op's filter is HRN_NEAREST or HRN_BILINEAR, as torchvision warps tensors. */
typedef struct hrn_op_aug_mix {
  int32_t severity, chains;
  int32_t depth;   /* ops of a chain; 0: 1 to 3 */
  int32_t all_ops; /* 0: no ops that change colour or sharpness */
  int32_t fills;   /* 1: what comes from outside is the fill, 0: it counts as 0 */
  int32_t version; /* as above */
  double alpha;
} hrn_op_aug_mix;

typedef struct hrn_op_noise {
  double mean, deviation; /* as shares of 255 */
  int32_t clip;           /* 0: bytes overflow */
} hrn_op_noise;

/* The op's filter is HRN_NEAREST or HRN_BILINEAR. */
typedef struct hrn_op_elastic {
  double alpha[2], sigma[2]; /* across and down; both sigmas are 0, or none is */
  hrn_outside outside;
} hrn_op_elastic;

typedef struct hrn_op_erasing {
  int32_t fill;       /* enum hrn_erasing_fill */
  int32_t boxes[2];   /* least and greatest number of boxes */
  double probability; /* that there are boxes at all */
  double value[3];    /* of HRN_ERASE_VALUE */
  double scale[2];    /* of an ERASING: the share of the area that all boxes have together, */
  double ratio[2];    /* and height / width */
  int32_t side;       /* of a CUTOUT */
  hrn_op_box box;     /* of an ERASE */
} hrn_op_erasing;

typedef struct hrn_op_crops {
  hrn_op_size size; /* of the corners and the middle */
  int32_t ten;      /* 1: and those of the mirrored image, which is */
  int32_t vertical; /* 1: upside down */
} hrn_op_crops;

typedef struct hrn_op {
  int32_t kind;   /* enum hrn_op_kind */
  int32_t filter; /* enum hrn_filter, where the op resizes or warps */
  double fill[3]; /* of paddings and warps: whole numbers, 0 to 255 */
  union {
    hrn_op_box box;
    hrn_op_size size;
    hrn_op_resize_box resize_box;
    hrn_op_reduce reduce;
    hrn_op_shorter shorter;
    hrn_op_resized_crop resized_crop;
    hrn_op_random_crop random_crop;
    double probability;
    hrn_op_padding padding;
    hrn_op_shortest shortest;
    hrn_op_resize_between resize_between;
    hrn_op_jitter jitter;
    hrn_op_zoom zoom;
    hrn_op_iou_crop iou_crop;
    hrn_op_group group;
    hrn_op_pixel pixel;
    hrn_op_fixed_affine fixed_affine;
    hrn_op_fixed_rotation fixed_rotation;
    hrn_op_colour colour;
    hrn_op_blur blur;
    hrn_op_rotation rotation;
    hrn_op_affine affine;
    double distortion;
    hrn_op_augment augment;
    hrn_op_timm timm;
    hrn_op_aug_mix aug_mix;
    int32_t quality[2]; /* 1 to 100 */
    double radius[2];
    hrn_op_noise noise;
    hrn_op_elastic elastic;
    hrn_op_erasing erasing;
    hrn_op_crops crops;
  };
} hrn_op;

#endif
