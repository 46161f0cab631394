/* plan.h: a compiled plan, what it draws, and the stages that an image's draws turn it into. */
#ifndef HEADRACE_PLAN_PLAN_H
#define HEADRACE_PLAN_PLAN_H

#include "../core/image.h"
#include "../draws/op.h"
#include "../draws/pixel_draw.h"
#include "../resize/resize.h"
#include "../write/write.h"

typedef struct hrn_plan hrn_plan;

/* Checks and compiles ops and output. NULL with HRN_ARGUMENT when something is impossible.
 * At most HRN_MAX_OPS ops. */
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

/* What op number `op` would do to an image of that size: for tests and for replay.
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

/* What op number `op`, an IOU_CROP, draws for an image of that size whose boxes are `count` times
 * left, top, right, bottom, as torchvision's RandomIoUCrop does. HRN_LIMIT where that tries without
 * an end in sight. */
int hrn_plan_iou_crop(const hrn_plan *plan, int32_t op, const hrn_key *key, int32_t width,
                      int32_t height, const float *boxes, int32_t count, hrn_settled_crop *crop,
                      hrn_status *status);

/* What one op of a plan did to one image: an op whose arguments are fixed.
 *
 * One that draws a size has become a RESIZE or a PAD, and a flip flips; a RANDOM_RESIZED_CROP and a
 * RANDOM_CROP have the box that they drew beside them, after their padding. What an IOU_CROP drew
 * is a CROP. All ops on pixels have become a PIXEL, one for each that was drawn, and an erasing an
 * ERASE for each of its boxes, of a value or of noise (HRN_ERASE_PIXELS). */
typedef struct hrn_drawn {
  int32_t number;        /* the op's, in the plan */
  int32_t width, height; /* of the image before it */
  int32_t by_boxes;      /* 1: a CROP that an IOU_CROP drew */
  hrn_op_box box;
  hrn_op op;
} hrn_drawn;

/* What all ops of a plan do to one image, in order: for tests, and for replaying. Flips that are
 * not done are left out. At an IOU_CROP that the key has no crop for a replay ends, and that is the
 * last one of its list.
 * Fills drawn[0..*count); HRN_LIMIT where capacity is too small. */
int hrn_plan_replay(const hrn_plan *plan, const hrn_key *key, uint32_t width, uint32_t height,
                    hrn_drawn *drawn, int32_t capacity, int32_t *count, hrn_status *status);

/* The part of a sample that is to be seen in one of its batch, perhaps its own: finished values. */
typedef struct hrn_patch {
  void *destination; /* of hrn_plan_size's bytes, the place of the whole; NULL: no patch */
  int32_t top, left, height, width; /* inside the sample, perhaps nothing */
  int32_t outside;                  /* 0: the pixels of that box; 1: all others */
} hrn_patch;

/* ---- inside ---------------------------------------------------------------------------- */

struct hrn_plan {
  int32_t count;
  hrn_op ops[HRN_MAX_OPS];
  hrn_output output;
  hrn_size size; /* meaningful where size.fixed */
  hrn_format format;
};

/* draw.c: what op `index` of the plan draws for an image of that size. */
int hrn_draw_op(const hrn_op *op, int32_t index, const hrn_key *key, int32_t width, int32_t height,
                hrn_draw *draw, hrn_status *status);

/* draw.c: *settled = op, or what an op that draws the size of its result has come to: a RESIZE or a
 * PAD. */
int hrn_settle(const hrn_op *op, int32_t index, const hrn_key *key, int32_t width, int32_t height,
               hrn_op *settled, hrn_status *status);

/* check.c: refuses what the op's parameters must not be, whatever its kind. */
int hrn_check_op(const hrn_op *op, int32_t index, hrn_status *status);

/* sizes.c: the size of an image after `op`. */
int hrn_op_size_after(const hrn_op *op, int32_t *width, int32_t *height, hrn_status *status);

/* sizes.c: where a central crop begins, below 0 where it pads. */
int32_t hrn_centre(int32_t length, int32_t crop);

/* Paddings that stand before a window, along one axis: RandomCrop pads by its arguments, and then
 * by as much as is missing on both sides. */
typedef struct hrn_padding {
  int32_t before, after, missing;
} hrn_padding;

/* One axis of a stage, in the order in which pixels pass: a box of the input, resized, padded,
 * of which a window is seen, perhaps backwards. */
typedef struct hrn_axis {
  int32_t box_start, box_length;
  double from, to; /* the part of the box that is resized, all of it where a resize has no box */
  int32_t resized; /* box_length where nothing is resized */
  hrn_padding padding;
  int32_t origin, step; /* output o shows padded pixel origin + step * o; step is 1 or -1 */
  int32_t length;       /* of the output */
} hrn_axis;

/* As many ops as fold into one pass. A stage whose input is the encoded image makes the decoder
 * read only what the stage's output depends on. */
typedef struct hrn_stage {
  hrn_axis x, y;
  int32_t resizes, filter;
  int32_t bits;         /* of the resize's weights: HRN_COEFFICIENT_BITS or HRN_FAST_BITS */
  int32_t passes;       /* enum hrn_passes */
  int32_t denominator;  /* the input is there at 1/denominator of the size that is said here */
  int32_t across, down; /* what is resized is reduced by these factors; 0: it has a filter */
  int32_t pads, padding_mode; /* the fill is only read under HRN_PAD_CONSTANT */
  uint8_t fill[4];
  int32_t pixel_end; /* ops on the finished pixels: those before it, from the last stage's end on */
} hrn_stage;

/* Each op opens at most one stage beyond the first. */
enum { HRN_MAX_STAGES = HRN_MAX_OPS + 1 };

/* A box of the finished sample whose values are replaced. */
typedef struct hrn_erasing {
  hrn_box box;
  int32_t op; /* its number in the plan, and that of the box: what its noise is drawn by */
  int32_t number;
  int32_t normal; /* a normal value for each channel of each pixel, else: */
  float value[3];
} hrn_erasing;

/* The boxes of the finished pixels that are written instead of all of them, the second half of ten
 * backwards. */
typedef struct hrn_crops {
  int32_t count; /* 0: all pixels, once */
  hrn_box box[10];
  int32_t vertical;
} hrn_crops;

/* What one image goes through: count stages, at least one, each followed by its pixel ops. */
typedef struct hrn_program {
  int32_t count;
  hrn_stage stages[HRN_MAX_STAGES];
  hrn_pixel_list pixels;
  int32_t erasings;
  hrn_erasing erasing[HRN_MAX_ERASINGS];
  hrn_crops crops;
  int32_t settled; /* so many of the key's crops are among its stages */
} hrn_program;

/* walk.c: draws all ops and folds them. */
int hrn_fold(const hrn_plan *plan, const hrn_key *key, int32_t width, int32_t height,
             hrn_program *program, hrn_status *status);

/* What a folded program makes. */
hrn_size hrn_finished_size(const hrn_plan *plan, const hrn_program *program);

/* erase.c: draws the boxes of an erasing, and fills the boxes of a finished sample. */
int hrn_erase_draw(hrn_program *program, const hrn_op *op, int32_t index, const hrn_key *key,
                   hrn_status *status);
void hrn_erase(const hrn_program *program, const hrn_format *format, const hrn_key *key,
               uint8_t *destination);

/* crops.c: how many images an op makes, 0 where it makes one as such; adds its boxes to a program;
 * and writes them. */
int32_t hrn_crops_of(const hrn_op *op);
int hrn_crops_add(hrn_program *program, const hrn_op *op, hrn_status *status);
void hrn_crops_write(const hrn_crops *crops, const hrn_format *format, const hrn_image *image,
                     uint8_t *destination);

/* geometry.c: an empty program for an image of that size, and one geometric op more on it. */
void hrn_geometry_begin(hrn_program *program, int32_t width, int32_t height);
/* A new stage, behind an op on pixels that has changed the image's size. */
void hrn_geometry_resume(hrn_program *program, int32_t width, int32_t height);
int hrn_geometry_add(hrn_program *program, const hrn_op *op, int32_t index, const hrn_key *key,
                     hrn_status *status);

/* plan.c: groups and the ops in them; how many ops stand from `index` on to its group's end. */
static inline int hrn_is_group(const hrn_op *op) {
  return op->kind >= HRN_OP_APPLY && op->kind <= HRN_OP_ORDER;
}
static inline int32_t hrn_op_span(const hrn_op *op) {
  return hrn_is_group(op) ? 1 + op->group.count : 1;
}
static inline int hrn_is_erasing(const hrn_op *op) {
  return op->kind >= HRN_OP_ERASING && op->kind <= HRN_OP_ERASE;
}
static inline int hrn_is_geometric(const hrn_op *op) { return op->kind <= HRN_OP_REDUCE; }
/* Whether the size of its result is drawn, or depends on what is. */
static inline int hrn_draws_size(const hrn_op *op) {
  const int turns = op->kind == HRN_OP_PIXEL && op->pixel.kind == HRN_PIXEL_AFFINE &&
                    op->pixel.args.affine.size[0] > 0;
  return (op->kind >= HRN_OP_RANDOM_SHORTEST_SIZE && op->kind <= HRN_OP_ZOOM_OUT) || turns ||
         op->kind == HRN_OP_IOU_CROP || (op->kind == HRN_OP_ROTATION && op->rotation.expand) ||
         (op->kind == HRN_OP_FIXED_ROTATION && op->fixed_rotation.expand);
}

/* pad.c: the pixel in [0, length) that stands at `at` once `padding` is applied, or -1 for the
 * fill. */
int32_t hrn_padded_source(const hrn_padding *padding, int32_t mode, int32_t length, int32_t at);

/* stage.c: a stage made ready: what it needs of its input, and how it gets from there on. */
typedef struct hrn_ready {
  const hrn_stage *stage;
  hrn_resize resize; /* with a filter; maps then count from resize.output */
  int convolves, gathers;
  int32_t *columns, *rows; /* with `gathers`: source of each output, -1 for the fill */
  hrn_box input;           /* window of the stage's input */
  int32_t at_once;         /* rows of it that must be in memory together */
} hrn_ready;

int hrn_stage_prepare(hrn_context *context, const hrn_stage *stage, hrn_ready *ready,
                      hrn_status *status);
int hrn_stage_run(hrn_context *context, const hrn_ready *ready, hrn_rows *input,
                  const hrn_sink *sink, hrn_status *status);

/* The window of its input alone. */
int hrn_stage_reach(hrn_context *context, const hrn_stage *stage, hrn_box *input,
                    hrn_status *status);

#define HRN_MAX_VIEWS 32 /* of a sample */

/* together.c: what a view wants to be decoded, and the window that is decoded for it: `joint` of
 * view number `decode`, the first of the views that are decoded together. */
typedef struct hrn_want {
  hrn_box window;
  int32_t denominator;
  int fast;
  int32_t draft;           /* enum hrn_draft */
  int32_t decode, members; /* so many are decoded together */
  hrn_box joint;           /* holds the windows of all of them */
} hrn_want;
void hrn_group_views(const hrn_context *context, hrn_want *wants, int32_t count);

/* What was decoded for several views. */
typedef struct hrn_decoded {
  hrn_box window;
  hrn_image image;
} hrn_decoded;

/* The same for the first stage, whose input is the encoded image: its rows are decoded as they are
 * needed. The sink may see rows twice, those of the second time count. */
int hrn_stage_first(hrn_context *context, const hrn_ready *ready, const hrn_sink *sink,
                    hrn_status *status);

/* patch.c: where finished values lie in a sample: bytes from row to row, which of NCHW are those of
 * a plane, and from plane to plane. */
typedef struct hrn_pitch {
  size_t row, plane;
} hrn_pitch;
hrn_pitch hrn_pitch_of(const hrn_format *format, int32_t width, int32_t height);

/* Where a stage's rows go: into an image, finished into patches, or both; and into what is mixed of
 * the image and of another (mix.h). */
typedef struct hrn_mixer hrn_mixer;
typedef struct hrn_writer {
  hrn_sink sink;          /* first: what a stage is given, and gives back with each row */
  const hrn_image *image; /* or NULL */
  const hrn_mixer *mixers;
  int32_t mixer_count;
  hrn_patch patches[2]; /* with a destination; from here on: for them */
  const hrn_format *format;
  hrn_write_kernel write;
  hrn_pitch pitch;
  int32_t width, height; /* of the stage's output */
  int flip_x, flip_y;
  int64_t *ns; /* of hrn_writer_time, or NULL */
} hrn_writer;

/* sizes.c: HRN_LIMIT where a side is beyond HRN_MAX_LENGTH, HRN_ARGUMENT where one is 0. */
int hrn_check_sides(uint32_t width, uint32_t height, hrn_status *status);

/* writer.c: one for rows of an image of that size; one for finished rows, whose patch is all of the
 * destination. */
hrn_writer hrn_image_writer(const hrn_image *image, int32_t width, int32_t height);
hrn_writer hrn_finished_writer(const hrn_format *format, int32_t width, int32_t height,
                               uint8_t *destination);

/* writer.c: has a writer add what its rows take to *ns. */
void hrn_writer_time(hrn_writer *writer, int64_t *ns);

/* patch.c: the pixels [from[k], to[k]) of row y that a patch shows: one run of them, or two around
 * its box. How many runs there are, of which some may be empty. */
int hrn_patch_runs(const hrn_patch *patch, int32_t y, int32_t width, int32_t from[2],
                   int32_t to[2]);

#endif
