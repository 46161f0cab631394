/* plan.h: a compiled plan, what it draws, and the stages that an image's draws turn it into. */
#ifndef HEADRACE_PLAN_PLAN_H
#define HEADRACE_PLAN_PLAN_H

#include "../core/image.h"
#include "../draws/op.h"
#include "../draws/pixel_draw.h"
#include "../resize/resize.h"
#include "../write/write.h"

typedef struct hrn_plan hrn_plan;

/* Checks and compiles ops and output. At most HRN_MAX_OPS ops. NULL, with HRN_ARGUMENT, if
 * something is impossible. */
hrn_plan *hrn_plan_new(const hrn_op *ops, int32_t count, const hrn_output *output,
                       hrn_status *status);
void hrn_plan_free(hrn_plan *plan);

/* The size of a finished sample. fixed is 1 if the size is the same for every image, which a batch
 * needs. Else width and height are those for an image of source_width x source_height. */
typedef struct hrn_size {
  int32_t fixed;
  uint32_t width, height;
  uint32_t images; /* 0: one image as such; else how many, one after the other */
  uint64_t bytes;
} hrn_size;
int hrn_plan_size(const hrn_plan *plan, uint32_t source_width, uint32_t source_height,
                  hrn_size *size, hrn_status *status);

/* What op number `op` would do to an image of that size, for tests and for replay.
 * RANDOM_RESIZED_CROP and RANDOM_CROP: value = top, left, height, width (RANDOM_CROP: after
 * padding). Flips: value[0] = 1 if it flips. Ops that draw a size: value = height, width. ZOOM_OUT:
 * left, top, right, bottom. Ops that draw nothing: all 0. */
typedef struct hrn_draw {
  int32_t value[8];
} hrn_draw;
int hrn_plan_draw(const hrn_plan *plan, int32_t op, const hrn_key *key, uint32_t width,
                  uint32_t height, hrn_draw *draw, hrn_status *status);

/* The size of the sample that this key makes of an image of that size, also if the plan leaves the
 * size to chance. */
int hrn_plan_drawn_size(const hrn_plan *plan, const hrn_key *key, uint32_t width, uint32_t height,
                        hrn_size *size, hrn_status *status);

/* What op number `op`, an IOU_CROP, draws for an image of that size, as torchvision's RandomIoUCrop
 * does. `boxes` is `count` times left, top, right, bottom. HRN_LIMIT if torchvision would try on
 * with no end in sight. */
int hrn_plan_iou_crop(const hrn_plan *plan, int32_t op, const hrn_key *key, int32_t width,
                      int32_t height, const float *boxes, int32_t count, hrn_settled_crop *crop,
                      hrn_status *status);

/* What one op of a plan did to one image: an op whose arguments are fixed.
 *
 * An op that draws a size has become a RESIZE or a PAD, and a flip flips. Of a RANDOM_RESIZED_CROP
 * and a RANDOM_CROP, `box` is what they drew, after their padding. What an IOU_CROP drew is a CROP.
 * Each op on pixels has become one PIXEL for each op that was drawn. An erasing has become an ERASE
 * for each of its boxes, with a value or with noise (HRN_ERASE_PIXELS). */
typedef struct hrn_drawn {
  int32_t number;        /* the op's number in the plan */
  int32_t width, height; /* the image's size before the op */
  int32_t by_boxes;      /* 1: a CROP that an IOU_CROP drew */
  hrn_op_box box;
  hrn_op op;
} hrn_drawn;

/* What all ops of a plan do to one image, in order, for tests and for replaying. Flips that are not
 * done are left out. A replay ends at an IOU_CROP for which the key has no crop, and the list then
 * ends with that op. Fills drawn[0..*count); HRN_LIMIT if capacity is too small. */
int hrn_plan_replay(const hrn_plan *plan, const hrn_key *key, uint32_t width, uint32_t height,
                    hrn_drawn *drawn, int32_t capacity, int32_t *count, hrn_status *status);

/* The part of a sample's finished values that is shown in a sample of its batch, perhaps in
 * itself. */
typedef struct hrn_patch {
  void *destination; /* where the whole sample begins, of hrn_plan_size's bytes; NULL: no patch */
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

/* draw.c: *settled = op. If the op draws the size of its result, it becomes the RESIZE or PAD that
 * was drawn. */
int hrn_settle(const hrn_op *op, int32_t index, const hrn_key *key, int32_t width, int32_t height,
               hrn_op *settled, hrn_status *status);

/* check.c: refuses parameters that an op must not have, whatever its kind. */
int hrn_check_op(const hrn_op *op, int32_t index, hrn_status *status);

/* sizes.c: the size of an image after `op`. */
int hrn_op_size_after(const hrn_op *op, int32_t *width, int32_t *height, hrn_status *status);

/* sizes.c: where a central crop begins; below 0 if it pads. */
int32_t hrn_centre(int32_t length, int32_t crop);

/* The paddings before a window, along one axis. RandomCrop pads by its arguments, and then on both
 * sides by as much as is missing. */
typedef struct hrn_padding {
  int32_t before, after, missing;
} hrn_padding;

/* One axis of a stage, in the order in which pixels pass: a box of the input is resized and padded,
 * and a window of the result is shown, perhaps backwards. */
typedef struct hrn_axis {
  int32_t box_start, box_length;
  double from, to; /* the part of the box that is resized; all of it if a resize has no box */
  int32_t resized; /* box_length where nothing is resized */
  hrn_padding padding;
  int32_t origin, step; /* output o shows padded pixel origin + step * o; step is 1 or -1 */
  int32_t length;       /* of the output */
} hrn_axis;

/* The ops that fold into one pass. If the input of a stage is the encoded image, the decoder reads
 * only what the stage's output depends on. */
typedef struct hrn_stage {
  hrn_axis x, y;
  int32_t resizes, filter;
  int32_t bits;         /* bits of the resize's weights: HRN_COEFFICIENT_BITS or HRN_FAST_BITS */
  int32_t passes;       /* enum hrn_passes */
  int32_t denominator;  /* the input is decoded at 1/denominator of the size that is given here */
  int32_t across, down; /* the resize is a reduction by these factors; 0: it has a filter */
  int32_t pads, padding_mode; /* the fill is only read under HRN_PAD_CONSTANT */
  uint8_t fill[4];
  int32_t pixel_end; /* ops on the stage's pixels: those from the last stage's end up to this */
} hrn_stage;

/* Each op opens at most one stage besides the first. */
enum { HRN_MAX_STAGES = HRN_MAX_OPS + 1 };

/* A box of the finished sample whose values are replaced. */
typedef struct hrn_erasing {
  hrn_box box;
  int32_t op; /* numbers of the op in the plan and of its box: its noise is drawn by them */
  int32_t number;
  int32_t normal; /* 1: a normal value for each channel of each pixel; 0: `value` */
  float value[3];
} hrn_erasing;

/* The boxes of the finished pixels that are written instead of all of them. Of ten, the second five
 * are mirrored. */
typedef struct hrn_crops {
  int32_t count; /* 0: all pixels, once */
  hrn_box box[10];
  int32_t vertical;
} hrn_crops;

/* What one image goes through: `count` stages, at least one, each followed by its ops on pixels. */
typedef struct hrn_program {
  int32_t count;
  hrn_stage stages[HRN_MAX_STAGES];
  hrn_pixel_list pixels;
  int32_t erasings;
  hrn_erasing erasing[HRN_MAX_ERASINGS];
  hrn_crops crops;
  int32_t settled; /* how many of the key's crops are among its stages */
} hrn_program;

/* walk.c: draws all ops and folds them. */
int hrn_fold(const hrn_plan *plan, const hrn_key *key, int32_t width, int32_t height,
             hrn_program *program, hrn_status *status);

/* The size of what a folded program makes. */
hrn_size hrn_finished_size(const hrn_plan *plan, const hrn_program *program);

/* erase.c: draws the boxes of an erasing, and fills the boxes of a finished sample. */
int hrn_erase_draw(hrn_program *program, const hrn_op *op, int32_t index, const hrn_key *key,
                   hrn_status *status);
void hrn_erase(const hrn_program *program, const hrn_format *format, const hrn_key *key,
               uint8_t *destination);

/* crops.c: how many images an op makes, 0 if it makes one as such; adds the op's boxes to a
 * program; writes them. */
int32_t hrn_crops_of(const hrn_op *op);
int hrn_crops_add(hrn_program *program, const hrn_op *op, hrn_status *status);
void hrn_crops_write(const hrn_crops *crops, const hrn_format *format, const hrn_image *image,
                     uint8_t *destination);

/* geometry.c: begins an empty program for an image of that size, and adds one geometric op to
 * it. */
void hrn_geometry_begin(hrn_program *program, int32_t width, int32_t height);
/* Begins a new stage behind an op on pixels that has changed the image's size. */
void hrn_geometry_resume(hrn_program *program, int32_t width, int32_t height);
int hrn_geometry_add(hrn_program *program, const hrn_op *op, int32_t index, const hrn_key *key,
                     hrn_status *status);

/* plan.c: whether an op is a group; how many ops there are from a group to its end, the group
 * included. */
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
/* Whether the size of the op's result is drawn, or depends on what is drawn. */
static inline int hrn_draws_size(const hrn_op *op) {
  const int turns = op->kind == HRN_OP_PIXEL && op->pixel.kind == HRN_PIXEL_AFFINE &&
                    op->pixel.args.affine.size[0] > 0;
  return (op->kind >= HRN_OP_RANDOM_SHORTEST_SIZE && op->kind <= HRN_OP_ZOOM_OUT) || turns ||
         op->kind == HRN_OP_IOU_CROP || (op->kind == HRN_OP_ROTATION && op->rotation.expand) ||
         (op->kind == HRN_OP_FIXED_ROTATION && op->fixed_rotation.expand);
}

/* pad.c: the pixel in [0, length) that is at `at` after `padding`, or -1 for the fill. */
int32_t hrn_padded_source(const hrn_padding *padding, int32_t mode, int32_t length, int32_t at);

/* stage.c: a stage that is ready to run: what it needs of its input, and how it makes its output of
 * that. */
typedef struct hrn_ready {
  const hrn_stage *stage;
  hrn_resize resize; /* if it has a filter; maps then count from resize.output */
  int convolves, gathers;
  int32_t *columns, *rows; /* if `gathers`: source of each output, -1 for the fill */
  hrn_box input;           /* window of the stage's input */
  int32_t at_once;         /* rows of the input that must be in memory together */
} hrn_ready;

int hrn_stage_prepare(hrn_context *context, const hrn_stage *stage, hrn_ready *ready,
                      hrn_status *status);
int hrn_stage_run(hrn_context *context, const hrn_ready *ready, hrn_rows *input,
                  const hrn_sink *sink, hrn_status *status);

/* Only finds the window of the stage's input. */
int hrn_stage_reach(hrn_context *context, const hrn_stage *stage, hrn_box *input,
                    hrn_status *status);

#define HRN_MAX_VIEWS 32 /* of a sample */

/* together.c: what a view wants decoded, and the window that is decoded for it: `joint` of view
 * number `decode`, the first of the views that are decoded together. */
typedef struct hrn_want {
  hrn_box window;
  int32_t denominator;
  int fast;
  int32_t draft;           /* enum hrn_draft */
  int32_t decode, members; /* members: how many views are decoded together */
  hrn_box joint;           /* holds the windows of all of them */
} hrn_want;
void hrn_group_views(const hrn_context *context, hrn_want *wants, int32_t count);

/* What was decoded for several views. */
typedef struct hrn_decoded {
  hrn_box window;
  hrn_image image;
} hrn_decoded;

/* Runs the first stage, whose input is the encoded image: its rows are decoded as they are needed.
 * The sink may be given rows twice; then those of the second time count. */
int hrn_stage_first(hrn_context *context, const hrn_ready *ready, const hrn_sink *sink,
                    hrn_status *status);

/* patch.c: where finished values lie in a sample: the bytes from row to row, which for NCHW are
 * rows of a plane, and from plane to plane. */
typedef struct hrn_pitch {
  size_t row, plane;
} hrn_pitch;
hrn_pitch hrn_pitch_of(const hrn_format *format, int32_t width, int32_t height);

/* Where a stage's rows go: into an image, as finished values into patches, or both; and into what
 * is mixed of this image and another one (mix.h). */
typedef struct hrn_mixer hrn_mixer;
typedef struct hrn_writer {
  hrn_sink sink;          /* first, because a stage is given it and passes it back with each row */
  const hrn_image *image; /* or NULL */
  const hrn_mixer *mixers;
  int32_t mixer_count;
  hrn_patch patches[2]; /* used if they have a destination; what follows is for them */
  const hrn_format *format;
  hrn_write_kernel write;
  hrn_pitch pitch;
  int32_t width, height; /* of the stage's output */
  int flip_x, flip_y;
  int64_t *ns; /* where hrn_writer_time adds up, or NULL */
} hrn_writer;

/* sizes.c: HRN_LIMIT if a side is beyond HRN_MAX_LENGTH, HRN_ARGUMENT if one is 0. */
int hrn_check_sides(uint32_t width, uint32_t height, hrn_status *status);

/* writer.c: a writer for the rows of an image of that size, and one for finished rows, whose patch
 * is all of the destination. */
hrn_writer hrn_image_writer(const hrn_image *image, int32_t width, int32_t height);
hrn_writer hrn_finished_writer(const hrn_format *format, int32_t width, int32_t height,
                               uint8_t *destination);

/* writer.c: lets a writer add the time that its rows take to *ns. */
void hrn_writer_time(hrn_writer *writer, int64_t *ns);

/* patch.c: the pixels [from[k], to[k]) of row y that a patch shows. That is one run, or two around
 * its box. Returns the number of runs, some of which may be empty. */
int hrn_patch_runs(const hrn_patch *patch, int32_t y, int32_t width, int32_t from[2],
                   int32_t to[2]);

#endif
