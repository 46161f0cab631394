/* native.h: encoded bytes and parameters in, one finished sample out.
 *
 * The whole interface of this package. It knows nothing of Go, files, threads or batches: a
 * caller hands it bytes that are readable for the length of the call and memory that is
 * writable for the size that the plan states.
 *
 * Every function is safe on any input bytes: the answer is a status, never a signal, an
 * overread or an endless loop. A context serves one thread at a time; plans are immutable and
 * shared by all. No function calls back, keeps a pointer to its arguments, or writes to
 * stdout or stderr. longjmp (libjpeg's way out) never leaves the C function that called setjmp.
 */
#ifndef HEADRACE_NATIVE_H
#define HEADRACE_NATIVE_H

#include <stddef.h>
#include <stdint.h>

#include "cpu.h"

/* ---- status ---------------------------------------------------------------------------- */

/* Three words for three failures: bad (the bytes are wrong; truncated and checksum are kinds
 * of it), unsupported (the bytes are right, we don't), internal (we are wrong). */
enum hrn_code {
  HRN_OK = 0,
  HRN_BAD = 1,         /* the bytes are no valid image of their kind */
  HRN_TRUNCATED = 2,   /* entropy data ends before the last MCU or row */
  HRN_CHECKSUM = 3,    /* CRC-32C of the record is not the stored one */
  HRN_UNSUPPORTED = 4, /* a valid kind that this decoder does not read; text names it */
  HRN_LIMIT = 5,       /* a limit of hrn_limits was met; text names it and both numbers */
  HRN_MEMORY = 6,      /* an allocation failed; text says how many bytes were asked for */
  HRN_ARGUMENT = 7,    /* the caller's parameters are impossible; text names the argument */
  HRN_INTERNAL = 8     /* we are wrong; a fuzzer treats this as a crash */
};

typedef struct hrn_status {
  int32_t code;      /* enum hrn_code */
  uint32_t warnings; /* libjpeg or zlib warnings met, pixels are still Pillow's */
  int64_t offset;    /* byte offset inside the record, -1 where unknown */
  char text[240];    /* one clause, NUL-terminated, no final period */
} hrn_status;

/* ---- context --------------------------------------------------------------------------- */

typedef struct hrn_limits {
  uint64_t max_pixels;        /* default    89478485: Pillow's MAX_IMAGE_PIXELS */
  uint64_t max_decoder_bytes; /* default   536870912: what the decoder and our scratch may hold */
  uint64_t max_record_bytes;  /* default   268435456: encoded size of one record */
  uint64_t max_scan_blocks;   /* default    67108864: blocks that a JPEG's scans go through, all
                                 together; of arithmetic-coded scans, coefficients */
  uint32_t max_scans;         /* default         100: progressive scans */
} hrn_limits;

/* The defaults above; the one place where they stand. */
hrn_limits hrn_default_limits(void);

typedef struct hrn_context hrn_context;

/* One context a thread: decoder state and scratch that grows to the largest image seen, never
 * over max_decoder_bytes. NULL when memory is short. */
hrn_context *hrn_context_new(const hrn_limits *limits);
void hrn_context_free(hrn_context *context);

/* "libjpeg-turbo 2.1.5, zlib 1.2.13"; with the reason behind it where the entropy decoder of this
 * package, and so seek points, cannot be used with that libjpeg. */
const char *hrn_library_versions(void);

/* ---- facts ----------------------------------------------------------------------------- */

enum hrn_codec {
  HRN_CODEC_UNKNOWN = 0,
  HRN_CODEC_JPEG = 1,
  HRN_CODEC_PNG = 2,
  HRN_CODEC_PPM = 3 /* binary PPM and PGM of 8 bits: pixels as they are */
};
enum hrn_sampling {
  HRN_SAMPLING_UNKNOWN = 0,
  HRN_SAMPLING_444 = 1,
  HRN_SAMPLING_422 = 2,
  HRN_SAMPLING_420 = 3,
  HRN_SAMPLING_440 = 4,
  HRN_SAMPLING_411 = 5,
  HRN_SAMPLING_GREY = 6,
  HRN_SAMPLING_OTHER = 7
};
enum hrn_process { /* how the entropy data is coded */
                   HRN_PROCESS_UNKNOWN = 0,
                   HRN_PROCESS_BASELINE = 1, /* SOF0 and sequential Huffman SOF1 */
                   HRN_PROCESS_PROGRESSIVE = 2,
                   HRN_PROCESS_ARITHMETIC = 3,
                   HRN_PROCESS_LOSSLESS = 4,
                   HRN_PROCESS_PNG = 5,
                   HRN_PROCESS_PNG_INTERLACED = 6,
                   HRN_PROCESS_RAW = 7 /* not coded */
};

typedef struct hrn_facts {
  uint32_t width, height;    /* pixels; 0 where the header could not be read */
  uint32_t restart_interval; /* MCUs, 0 for none */
  uint32_t scan_offset;      /* first entropy-coded byte of the first scan, 0 but for JPEG */
  uint32_t crc32c;           /* of all bytes, whatever the verdict */
  uint32_t scans;            /* counted when the entropy data was read */
  uint8_t codec, sampling, process;
  uint8_t channels;    /* components or samples a pixel as stored: 1, 2, 3, 4 */
  uint8_t bits;        /* a sample */
  uint8_t orientation; /* EXIF 1-8, 0 where there is none or it is out of range */
} hrn_facts;

enum hrn_depth { HRN_HEADER = 0, HRN_ENTROPY = 1 };

/* Reads the header (HRN_HEADER), or also all entropy data once without making pixels
 * (HRN_ENTROPY): then the status is the verdict on the file that every later crop shares. facts
 * is filled as far as was read, also when the status is not HRN_OK. */
int hrn_inspect(hrn_context *context, const uint8_t *bytes, size_t length, int depth,
                hrn_facts *facts, hrn_status *status);

/* hrn_inspect with HRN_ENTROPY that also notes where every `step`-th MCU of each row begins. *seek
 * is then the packed points (seek.h) in the context's memory until its next call, or NULL where
 * there are none: the file is no baseline JPEG, or drew a warning. */
#define HRN_SEEK_STEP 8
int hrn_inspect_seek(hrn_context *context, const uint8_t *bytes, size_t length, uint32_t step,
                     hrn_facts *facts, const uint8_t **seek, size_t *seek_length,
                     hrn_status *status);

uint32_t hrn_crc32c(uint32_t crc, const uint8_t *bytes, size_t length);

/* ---- new files ------------------------------------------------------------------------- */

/* A file in the context's memory, until its next call. */
typedef struct hrn_encoded {
  const uint8_t *bytes; /* NULL where none was made */
  size_t length;
} hrn_encoded;

/* The image encoded anew as a baseline 4:2:0 JPEG (without colour: greyscale), which loses.
 * `shorter` larger than 0 makes the shorter side so long, with Pillow's BILINEAR, where it is
 * longer. Of the metadata only `orientation` (hrn_facts) stays. */
int hrn_reencode(hrn_context *context, const uint8_t *bytes, size_t length, int32_t shorter,
                 int32_t quality, int32_t orientation, hrn_encoded *encoded, hrn_status *status);

/* The image as binary PPM (P6): the pixels that every later decode would give. `shorter` as above,
 * which loses; without it no pixel changes. `orientation` becomes a comment that the inspection of
 * such a file reads. */
int hrn_to_ppm(hrn_context *context, const uint8_t *bytes, size_t length, int32_t shorter,
               int32_t orientation, hrn_encoded *encoded, hrn_status *status);

/* A progressive or arithmetic-coded JPEG as baseline: the same coefficients, so the same pixels,
 * and the same APPn and COM markers. HRN_OK without bytes where the file is better left alone: of
 * another kind, baseline already, incomplete or with warnings. On an error it is, too. */
int hrn_to_baseline(hrn_context *context, const uint8_t *bytes, size_t length, hrn_encoded *encoded,
                    hrn_status *status);

/* ---- plans ----------------------------------------------------------------------------- */

enum hrn_filter { /* Pillow's names; values are Pillow's Image.Resampling */
                  HRN_NEAREST = 0,
                  HRN_LANCZOS = 1,
                  HRN_BILINEAR = 2,
                  HRN_BICUBIC = 3,
                  HRN_BOX = 4,
                  HRN_HAMMING = 5
};

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

enum hrn_dtype { HRN_UINT8 = 0, HRN_FLOAT16 = 1, HRN_BFLOAT16 = 2, HRN_FLOAT32 = 3 };
enum hrn_layout { HRN_NCHW = 0, HRN_NHWC = 1 };
enum hrn_scale { /* uint8 to float: v1 ToTensor divides by 255, v2 ToDtype multiplies by 1/255 */
                 HRN_SCALE_DIV = 0,
                 HRN_SCALE_MUL = 1
};

enum hrn_mode {
  HRN_EXACT = 0, /* every byte as Pillow 13 and torchvision give it */
  HRN_FAST = 1   /* close to that (docs/exactness.md), and as deterministic */
};

typedef struct hrn_output {
  int32_t dtype, layout, scale, mode;
  int32_t unmixed;       /* 1: hrn_sample writes patches, and what hrn_mix takes */
  int32_t normalize;     /* 0 or 1 */
  float mean[3], std[3]; /* as torchvision holds them: float32 */
} hrn_output;

typedef struct hrn_plan hrn_plan;

/* Checks and compiles ops and output. NULL with HRN_ARGUMENT when something is impossible.
 * At most HRN_MAX_OPS ops. */
#define HRN_MAX_OPS 64
hrn_plan *hrn_plan_new(const hrn_op *ops, int32_t count, const hrn_output *output,
                       hrn_status *status);
void hrn_plan_free(hrn_plan *plan);

/* The size of a finished sample. fixed is 1 when it is the same for every image (a batch needs
 * that); else width and height are those for an image of source_width x source_height. */
typedef struct hrn_size {
  int32_t fixed;
  uint32_t width, height;
  uint32_t images; /* 0 of one image as such; else so many, one after the other */
  uint64_t bytes;
} hrn_size;
int hrn_plan_size(const hrn_plan *plan, uint32_t source_width, uint32_t source_height,
                  hrn_size *size, hrn_status *status);

/* ---- draws ----------------------------------------------------------------------------- */

/* What a random op draws is a pure function of these and of the op's place in the plan:
 * Philox 4x64-10 with key (seed, epoch) and counter (block, view << 32 | op, draw, sample). `view`
 * tells several views of one sample apart: 0 of the only one. */
typedef struct hrn_key {
  uint64_t seed, epoch, sample, draw;
  uint32_t view;
} hrn_key;

/* What op number `op` would do to an image of that size: for tests and for replaying.
 * RANDOM_RESIZED_CROP and RANDOM_CROP: value = top, left, height, width (RANDOM_CROP: after
 * padding); flips: value[0] = 1 when it flips; ops that draw a size: value = height, width;
 * ZOOM_OUT: left, top, right, bottom; ops that draw nothing: all 0. */
typedef struct hrn_draw {
  int32_t value[8];
} hrn_draw;
int hrn_plan_draw(const hrn_plan *plan, int32_t op, const hrn_key *key, uint32_t width,
                  uint32_t height, hrn_draw *draw, hrn_status *status);

/* The size of what this key makes of an image of that size, also where the plan leaves it to
 * chance. */
int hrn_plan_drawn_size(const hrn_plan *plan, const hrn_key *key, uint32_t width, uint32_t height,
                        hrn_size *size, hrn_status *status);

/* What all ops of a plan do to one image, in order: for tests, and for replaying. kind, i and p of
 * a geometric op are as in the plan (one that draws a size has become RESIZE or PAD), and box what
 * a random crop drew, after its padding; of an op on pixels HRN_STEP_PIXEL + enum hrn_pixel_kind
 * and what that takes; of an erasing box, i[0] = 1 for noise, else p = the values. Flips that are
 * not done are left out. */
enum { HRN_STEP_PIXEL = 256 };
typedef struct hrn_drawn {
  int32_t op; /* its number in the plan */
  int32_t kind, filter;
  int32_t box[4]; /* top, left, height, width */
  int32_t i[8];
  int32_t width, height; /* of the image before it */
  int32_t reserved;
  double p[8];
} hrn_drawn;

/* Fills steps[0..*count); HRN_LIMIT where capacity is too small. */
int hrn_plan_replay(const hrn_plan *plan, const hrn_key *key, uint32_t width, uint32_t height,
                    hrn_drawn *steps, int32_t capacity, int32_t *count, hrn_status *status);

/* ---- masks ----------------------------------------------------------------------------- */

#define HRN_MASK_FILL_OF_OP (-1) /* what the op fills images with, their first channel */

/* One byte a pixel, rows without gaps. */
typedef struct hrn_mask {
  const uint8_t *pixels;
  int32_t width, height; /* those of the image that the steps were drawn for */
  int32_t to_width, to_height;
  uint8_t *to;  /* to_width * to_height bytes */
  int32_t fill; /* of paddings and warps; what a crop takes from outside is 0 */
} hrn_mask;

/* Does to a mask what hrn_plan_replay said is done to its image, as torchvision's v2 moves masks:
 * the nearest source, by the rules of its tensors. */
int hrn_move_mask(hrn_context *context, const hrn_drawn *steps, int32_t count, const hrn_mask *mask,
                  hrn_status *status);

/* ---- mixing ---------------------------------------------------------------------------- */

/* MixUp and CutMix make a sample of two of a batch. What is mixed by CutMix, or not at all, has
 * each of its values from one of the two: hrn_sample writes them where they belong, of a plan whose
 * output says `unmixed`. For MixUp both have to be there first: such a plan makes a sample that is
 * not finished yet, and hrn_mix finishes it. Which two is the caller's business; what is drawn for
 * them is not. */
enum hrn_mix_form { HRN_MIX_TORCHVISION = 1, HRN_MIX_TIMM = 2 };
enum hrn_mix_unit { /* what one draw serves; the key's sample says which */
                    HRN_MIX_BATCH = 0,
                    HRN_MIX_PAIR = 1,
                    HRN_MIX_ELEMENT = 2
};

typedef struct hrn_mix_op {
  int32_t op;         /* its number in the whole list: part of the key */
  int32_t form, unit; /* the enums above */
  int32_t correct;    /* timm's correct_lam */
  double weight;      /* in a choice */
  double alpha[2];    /* MixUp's and CutMix's; 0: not done */
  double probability; /* of doing anything */
  double switching;   /* of CutMix where both may be done */
  double shares[2];   /* timm's cutmix_minmax; 0: none */
} hrn_mix_op;

#define HRN_MAX_MIX_OPS 8
typedef struct hrn_mix_list {
  int32_t count;  /* 1, or the ops that one is chosen from */
  int32_t choice; /* number of the choice, where there is one */
  hrn_mix_op ops[HRN_MAX_MIX_OPS];
} hrn_mix_list;

enum hrn_mix_kind { HRN_MIX_NONE = 0, HRN_MIX_MIXUP = 1, HRN_MIX_CUTMIX = 2 };

/* What is done to one sample. */
typedef struct hrn_mixing {
  int32_t kind;                     /* enum hrn_mix_kind */
  int32_t top, left, height, width; /* CutMix: what comes from the partner, perhaps nothing */
  int32_t reserved;
  double drawn;  /* lambda as the beta distribution gave it */
  double lambda; /* the sample's own share, in its label too */
} hrn_mixing;

/* Refuses a list that cannot be drawn from, for samples of that size. */
int hrn_mix_check(const hrn_mix_list *list, uint32_t width, uint32_t height, hrn_status *status);

/* What a checked list draws. The key's `draw` says where the step of all ranks begins, `sample`
 * which of its places is meant. */
void hrn_mix_draw(const hrn_mix_list *list, const hrn_key *key, uint32_t width, uint32_t height,
                  hrn_mixing *mixing);

/* Bytes of a sample of such a plan, as hrn_sample writes it and hrn_mix takes it, aligned to 64; 0
 * where samples differ in size. */
uint64_t hrn_unmixed_bytes(const hrn_plan *plan);

/* Finishes a sample by MixUp, the share of `own` being `lambda`: hrn_plan_size's bytes at
 * `destination`. */
void hrn_mix(const hrn_plan *plan, const void *own, const void *other, double lambda,
             void *destination);

/* A label of `classes` shares that belongs to it: `lambda` of one smoothed one-hot vector and the
 * rest of another. Both labels are below `classes`. */
void hrn_mix_labels(double smoothing, int64_t own, int64_t other, double lambda, int64_t classes,
                    float *to);

/* ---- the one call ---------------------------------------------------------------------- */

/* One image of a sample: the plan that makes it, and where it goes. */
typedef struct hrn_view {
  const hrn_plan *plan;
  void *destination;
  uint64_t capacity; /* bytes writable there; at least the plan's size, or hrn_unmixed_bytes */
} hrn_view;

/* The part of a sample that is to be seen in one of its batch, perhaps its own: finished values. */
typedef struct hrn_patch {
  void *destination; /* of hrn_plan_size's bytes, the place of the whole; NULL: no patch */
  int32_t top, left, height, width; /* inside the sample, perhaps nothing */
  int32_t outside;                  /* 0: the pixels of that box; 1: all others */
} hrn_patch;

/* A sample that is made by MixUp of the one at hand and of one that waits already: row by row,
 * while those are in the cache, as hrn_mix would make it. */
typedef struct hrn_mixup {
  void *destination; /* of hrn_plan_size's bytes; NULL: none */
  const void *other; /* what waits; perhaps the sample itself */
  double lambda;     /* the share of the one that it is made for, */
  int32_t theirs;    /* which is (0) the one at hand or (1) the one that waits */
} hrn_mixup;

#define HRN_MAX_VIEWS 32
typedef struct hrn_job {
  const uint8_t *bytes;
  size_t length;
  hrn_key key;         /* of the first view; key.view + k is that of view k */
  uint32_t crc32c;     /* the stored checksum */
  int32_t check_crc;   /* 1: compare it with the bytes first */
  const uint8_t *seek; /* the record's seek points (hrn_inspect_seek), or NULL */
  size_t seek_length;
  uint32_t seek_crc32c;   /* their stored checksum */
  int32_t check_seek_crc; /* 1: points of another checksum are passed over, not an error */
  int32_t view_count;     /* at least 1 */
  hrn_view views[HRN_MAX_VIEWS];
  /* An unmixed plan's, whose view is the only one: what is finished at once; whether (1) the sample
   * is left at the view's destination to wait for another; and those that are made with it then. */
  hrn_patch patches[2];
  int32_t waits;
  hrn_mixup mixups[2];
} hrn_job;

/* checksum, header, limits, draws, cropped decode, resize, flip, normalise, cast, write. Each view
 * has the bytes that it would have alone; those that want about the same part of the image are cut
 * from one decode. On any status but HRN_OK the destinations' content is undefined, within their
 * capacity. */
int hrn_sample(hrn_context *context, const hrn_job *job, hrn_status *status);

#endif
