/* op.h: the ops of a plan, as data. */
#ifndef HEADRACE_DRAWS_OP_H
#define HEADRACE_DRAWS_OP_H

#include <stdint.h>

/* No length, offset or padding along an axis exceeds this, so sums of a few of them fit int32. */
#define HRN_MAX_LENGTH (1 << 24)

/* At most so many in a plan. */
#define HRN_MAX_OPS 64

enum hrn_op_kind {
  HRN_OP_CROP = 1,                /* a fixed box: i = top, left, height, width */
  HRN_OP_RESIZE = 2,              /* i = height, width (exact size) */
  HRN_OP_RESIZE_SHORTER = 3,      /* torchvision Resize(int): i = size, max_size (0: none); size 0:
                                     the longer side becomes max_size */
  HRN_OP_CENTER_CROP = 4,         /* i = height, width; pads with zeros as torchvision does */
  HRN_OP_RANDOM_RESIZED_CROP = 5, /* i = height, width; p = scale lo, hi, ratio lo, hi */
  HRN_OP_RANDOM_CROP = 6,         /* i = height, width, pad left, top, right, bottom, pad_if_needed,
                                     padding mode; p = fill r, g, b */
  HRN_OP_HORIZONTAL_FLIP = 7,     /* p = probability */
  HRN_OP_VERTICAL_FLIP = 8,       /* p = probability */
  HRN_OP_PAD = 9, /* i = -, -, left, top, right, bottom, -, padding mode; p = fill */
  /* These draw the size of their result, which the plan therefore does not know. */
  HRN_OP_RANDOM_SHORTEST_SIZE = 10, /* i = max_size (0: none), number of sizes; p = the sizes */
  HRN_OP_RANDOM_RESIZE = 11,        /* i = size of the shorter side lo, hi; hi is never drawn */
  HRN_OP_SCALE_JITTER = 12,         /* i = target width, height; p = scale lo, hi */
  HRN_OP_ZOOM_OUT = 13,             /* i[7] = padding mode; p = fill r, g, b, side lo, hi */

  /* Groups: the i[0] ops that follow belong to it, counted with those of groups among them. */
  HRN_OP_APPLY = 16,  /* all of them, with probability p[0]; p[1] is its weight in a choice */
  HRN_OP_CHOICE = 17, /* one of the APPLY groups that it consists of, by their weights */
  HRN_OP_ORDER = 18,  /* all of the APPLY groups that it consists of, in random order */

  HRN_OP_PIXEL = 24, /* i[0] = enum hrn_pixel_kind, i[1..4], i[5..7] = fill, p as pixels.h has it */
  HRN_OP_COLOR_JITTER = 25, /* i[0..3] = 1 where brightness, contrast, saturation, hue are drawn;
                               p = their four intervals */
  HRN_OP_CHANNEL_PERMUTATION = 26,
  HRN_OP_GAUSSIAN_BLUR = 27, /* i = kernel width, height; p = sigma lo, hi */
  HRN_OP_ROTATION = 28,    /* i[0] = 1: p[2..3] is the centre; i[1] = 1: the result holds the whole
                              turned image; i[5..7] = fill; p = degrees lo, hi */
  HRN_OP_AFFINE = 29,      /* i[0] = 1: p[10..11] is the centre; i[5..7] = fill; p = degrees lo, hi,
                              translate x, y (shares), scale lo, hi, shear x lo, hi, y lo, hi */
  HRN_OP_PERSPECTIVE = 30, /* i[5..7] = fill; p = distortion scale */
  /* Of these three and HRN_OP_AUG_MIX p[1] is 2 for the thresholds of torchvision's v2. */
  HRN_OP_RAND_AUGMENT = 31,    /* i = ops, magnitude, bins; i[5..7] = fill */
  HRN_OP_TRIVIAL_AUGMENT = 32, /* i = bins; i[5..7] = fill */
  HRN_OP_AUTO_AUGMENT = 33,    /* i = enum hrn_policy; i[5..7] = fill */
  HRN_OP_TIMM = 34,    /* i = enum hrn_timm, layers (RAND) or chains (AUGMIX), magnitude, ops of a
                          chain (0: 1 to 3); i[5..7] = fill; filter: that of warps or
                          HRN_FILTER_DRAWN; p = probability of an op, deviation of the magnitude
                          (below 0: uniform from 0), greatest magnitude, greatest translation (a
                          share), alpha */
  HRN_OP_AUG_MIX = 35, /* i = severity, chains, ops of a chain (0: 1 to 3), all ops, 1: what comes
                          from outside is the fill, 0: it counts as 0; i[5..7] = fill; p = alpha;
                          filter: HRN_NEAREST or HRN_BILINEAR, as torchvision warps tensors */
  HRN_OP_JPEG = 36,    /* i = quality lo, hi, 1 to 100 */
  HRN_OP_GAUSSIAN_NOISE = 37, /* p = mean and deviation, as shares of 255, and 1: clip */

  /* Boxes of the finished values, last of all: i[0] = enum hrn_erasing_fill, i[1..2] = boxes lo,
     hi; p[0] = probability; p[5..7] = the values of HRN_ERASE_VALUE. */
  HRN_OP_ERASING =
      40,             /* p[1..4] = share of the area (of all boxes) lo, hi, height / width lo, hi */
  HRN_OP_CUTOUT = 41, /* i[3] = side of a square whose middle may be any pixel */
  HRN_OP_ERASE = 42,  /* i[4..7] = top, left, height, width */
  HRN_OP_FIVE_CROP = 48, /* last of all: i = height, width of the corners and the middle; i[2] = 1:
                            and of the mirror image, i[3] = 1: upside down */
};

enum hrn_erasing_fill {
  HRN_ERASE_VALUE = 0,  /* one for each channel */
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
#define HRN_FILTER_DRAWN (-1) /* bilinear or bicubic, op by op */
#define HRN_MAX_CHAINS 16     /* of an AugMix */

enum hrn_policy { HRN_POLICY_IMAGENET = 0, HRN_POLICY_CIFAR10 = 1, HRN_POLICY_SVHN = 2 };

enum hrn_padding_mode {
  HRN_PAD_CONSTANT = 0,
  HRN_PAD_EDGE = 1,
  HRN_PAD_REFLECT = 2,
  HRN_PAD_SYMMETRIC = 3
};

typedef struct hrn_op {
  int32_t kind;   /* enum hrn_op_kind */
  int32_t filter; /* enum hrn_filter, where the op resizes */
  int32_t i[8];
  double p[12];
} hrn_op;

#endif
