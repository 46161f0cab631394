/* sample.c: the one call. It turns encoded bytes into a finished sample of one or several views. */
#include <string.h>

#include "core/times.h"
#include "native.h"

/* The image between two stages. Two buffers take turns: one is read while the other is written. */
static int image_between(hrn_context *context, int32_t stage, const hrn_stage *from,
                         hrn_image *image, hrn_status *status) {
  const size_t stride = (size_t)from->x.length * 4;
  size_t bytes;
  if (__builtin_mul_overflow(stride, (size_t)from->y.length, &bytes)) {
    return hrn_fail(status, HRN_LIMIT, -1, "an intermediate image of %dx%d pixels", from->x.length,
                    from->y.length);
  }
  uint8_t *pixels =
      hrn_scratch(context, stage % 2 ? HRN_SCRATCH_IMAGE_B : HRN_SCRATCH_IMAGE_A, bytes, status);
  if (pixels == NULL) return status->code;
  *image = (hrn_image){pixels, stride, from->x.length, from->y.length};
  return HRN_OK;
}

/* Where a view's pixels go in the end. */
typedef struct target {
  uint8_t *destination;     /* the finished view goes here, unless: */
  const hrn_patch *patches; /* it is mixed; then it goes into these patches, */
  hrn_image image;          /* into this image, which waits (no pixels: it need not wait), */
  hrn_mixer mixers[2];      /* and row by row into these */
  int32_t mixer_count;
} target;

/* The erased values of a mixed sample must already be written. */
static target target_of(const hrn_job *job, const hrn_view *view) {
  target to = {.destination = view->destination};
  if (!view->plan->output.unmixed) return to;
  to.patches = job->patches;
  if (!job->waits) return to;
  const void *at_hand = view->destination;
  to.image = hrn_unmixed_image(view->plan, view->destination);
  for (int k = 0; k < 2; k++) {
    const hrn_mixup *m = &job->mixups[k];
    if (m->destination == NULL) continue;
    to.mixers[to.mixer_count++] =
        hrn_mixer_of(view->plan, m->theirs ? m->other : at_hand, m->theirs ? at_hand : m->other,
                     m->lambda, m->destination);
  }
  return to;
}

/* Stages before the last write whole images. The last stage writes finished rows, each once, so the
 * result is never stored in another form. */
static hrn_writer writer_of(hrn_context *context, const hrn_plan *plan, const hrn_stage *stage,
                            const hrn_image *between, const target *to) {
  const int32_t width = stage->x.length, height = stage->y.length;
  hrn_writer writer;
  if (between != NULL) {
    writer = hrn_image_writer(between, width, height);
  } else {
    writer = hrn_finished_writer(&plan->format, width, height, to->destination);
    if (to->patches != NULL) memcpy(writer.patches, to->patches, sizeof writer.patches);
    if (to->image.pixels != NULL) writer.image = &to->image;
    writer.mixers = to->mixers;
    writer.mixer_count = to->mixer_count;
    hrn_times *times = hrn_times_of(context);
    if (times != NULL) hrn_writer_time(&writer, &times->write);
  }
  /* The maps of a gather already go backwards. */
  const int maps = stage->pads || (stage->resizes && stage->filter == HRN_NEAREST);
  writer.flip_x = !maps && stage->x.step < 0;
  writer.flip_y = !maps && stage->y.step < 0;
  return writer;
}

/* Runs the ops on pixels that follow a stage. *image is then where the last op left it. */
static int run_pixels(hrn_context *context, hrn_program *program, int32_t stage, hrn_image *image,
                      hrn_status *status) {
  const int32_t first = stage > 0 ? program->stages[stage - 1].pixel_end : 0;
  hrn_pixel_state state = {0};
  for (int32_t k = first; k < program->stages[stage].pixel_end; k++) {
    if (hrn_pixels_run(context, &program->pixels.op[k], image, &state, status) != HRN_OK) {
      return status->code;
    }
  }
  return HRN_OK;
}

/* If ops on pixels had to be done to the last stage's image, passes the image on to where its rows
 * would have gone. */
static void pass_on(hrn_context *context, const hrn_plan *plan, const hrn_stage *last,
                    const hrn_image *image, const target *to) {
  hrn_writer writer = writer_of(context, plan, last, NULL, to);
  writer.flip_x = writer.flip_y = 0; /* done on the way into the image */
  for (int32_t y = 0; y < image->height; y++) {
    writer.sink.row(&writer.sink, y, image->pixels + (size_t)y * image->stride);
  }
}

/* A window of an image that is in memory as a whole. */
static hrn_rows part_of(const hrn_image *image, int32_t top, int32_t left, const hrn_box *window) {
  const hrn_image part = {image->pixels + (size_t)top * image->stride + 4 * (size_t)left,
                          image->stride, window->width, window->height};
  return hrn_rows_of(&part);
}

/* Runs the first stage: on rows that are decoded as it needs them, or on what was decoded for
 * several views. */
static int run_first(hrn_context *context, const hrn_ready *ready, const hrn_decoded *shared,
                     const hrn_sink *sink, hrn_status *status) {
  if (shared == NULL) return hrn_stage_first(context, ready, sink, status);
  const hrn_box *from = &shared->window, *want = &ready->input;
  if (want->left < from->left || want->top < from->top ||
      want->left + want->width > from->left + from->width ||
      want->top + want->height > from->top + from->height) {
    return hrn_fail(status, HRN_INTERNAL, -1, "window %d, %d, %d x %d outside of what was decoded",
                    want->left, want->top, want->width, want->height);
  }
  hrn_rows input = part_of(&shared->image, want->top - from->top, want->left - from->left, want);
  return hrn_stage_run(context, ready, &input, sink, status);
}

/* Runs all stages. Later stages look at a window of the image before them. */
static int run_stages(hrn_context *context, const hrn_plan *plan, hrn_program *program,
                      const hrn_decoded *shared, const target *to, hrn_status *status) {
  const hrn_stage *stages = program->stages;
  hrn_image image = {0};
  for (int32_t s = 0; s < program->count; s++) {
    const int last = s + 1 == program->count;
    const int pixels = stages[s].pixel_end > (s > 0 ? stages[s - 1].pixel_end : 0);
    hrn_ready ready;
    if (hrn_stage_prepare(context, &stages[s], &ready, status) != HRN_OK) return status->code;
    hrn_image between;
    const hrn_image *output = NULL;
    if (!last || pixels || program->crops.count > 0) {
      if (image_between(context, s, &stages[s], &between, status) != HRN_OK) return status->code;
      output = &between;
    }
    const hrn_writer writer = writer_of(context, plan, &stages[s], output, to);
    if (s == 0) {
      if (run_first(context, &ready, shared, &writer.sink, status) != HRN_OK) return status->code;
    } else {
      /* The whole image between the stages is in memory, and the stage looks at its part of it. */
      hrn_rows input = part_of(&image, ready.input.top, ready.input.left, &ready.input);
      if (hrn_stage_run(context, &ready, &input, &writer.sink, status) != HRN_OK)
        return status->code;
    }
    if (output == NULL) return HRN_OK;
    image = between;
    if (run_pixels(context, program, s, &image, status) != HRN_OK) return status->code;
  }
  if (program->crops.count > 0) {
    hrn_times *times = hrn_times_of(context);
    const int64_t began = times != NULL ? hrn_now() : 0;
    hrn_crops_write(&program->crops, &plan->format, &image, to->destination);
    if (times != NULL) times->write += hrn_now() - began;
    return HRN_OK;
  }
  pass_on(context, plan, &stages[program->count - 1], &image, to);
  return HRN_OK;
}

/* For HRN_FAST: decodes the image in the smallest of libjpeg's sizes that is no smaller than the
 * result, and uses weights of fewer bits. Nearest shows single pixels, which a smaller image does
 * not have. */
static void make_fast(hrn_context *context, hrn_stage *stages, int32_t count) {
  hrn_stage *first = &stages[0];
  int32_t denominator = 1;
  if (first->resizes && first->filter != HRN_NEAREST && first->across == 0) {
    const double width = first->x.to - first->x.from, height = first->y.to - first->y.from;
    while (denominator < 8 && width / denominator / 2 >= first->x.resized &&
           height / denominator / 2 >= first->y.resized) {
      denominator *= 2;
    }
  }
  first->denominator = hrn_decode_fast(context, denominator);
  for (int32_t s = 0; s < count; s++) stages[s].bits = HRN_FAST_BITS;
}

/* The draft that a plan begins with, or NULL. */
static const hrn_op_reduce *draft_of(const hrn_plan *plan) {
  const hrn_op *first = &plan->ops[0];
  const bool drafts =
      plan->count > 0 && first->kind == HRN_OP_REDUCE && first->reduce.draft != HRN_DRAFT_NONE;
  return drafts ? &first->reduce : NULL;
}

/* Finds what one view does to this image. */
static int fold_view(hrn_context *context, const hrn_view *view, const hrn_key *key,
                     hrn_program *program, hrn_status *status) {
  const hrn_plan *plan = view->plan;
  uint32_t width, height;
  hrn_decode_size(context, &width, &height);
  if (hrn_fold(plan, key, (int32_t)width, (int32_t)height, program, status) != HRN_OK) {
    return status->code;
  }
  /* The stages determine the size, so their size is compared with the capacity. */
  hrn_size size = hrn_finished_size(plan, program);
  if (plan->output.unmixed) {
    if (!plan->size.fixed || size.images > 0 || size.width != plan->size.width ||
        size.height != plan->size.height) {
      return hrn_fail(status, HRN_ARGUMENT, -1, "a sample of %ux%u pixels cannot be mixed",
                      size.width, size.height);
    }
    size.bytes = hrn_unmixed_bytes(plan);
  }
  if (size.bytes > view->capacity) {
    return hrn_fail(status, HRN_ARGUMENT, -1,
                    "a sample of %ux%u pixels takes %llu bytes, the destination holds %llu",
                    size.width, size.height, (unsigned long long)size.bytes,
                    (unsigned long long)view->capacity);
  }
  hrn_decode_exact(context); /* another view may have been fast, or a draft */
  const hrn_op_reduce *draft = draft_of(plan);
  if (draft != NULL) {
    return hrn_decode_draft(context, draft->across, draft->draft == HRN_DRAFT_GREY, status);
  }
  if (plan->output.mode == HRN_FAST) make_fast(context, program->stages, program->count);
  return HRN_OK;
}

/* A plan knows nothing of other views, so its caller says which view has failed. */
static int of_view(hrn_status *status, int32_t number) {
  status->view = number;
  return status->code;
}

static int run_view(hrn_context *context, const hrn_job *job, int32_t number,
                    const hrn_decoded *shared, hrn_status *status) {
  const hrn_view *view = &job->views[number];
  hrn_key key = job->key;
  key.view += (uint32_t)number;
  /* This takes about 15 KB of stack. All that grows with the image is in the context's scratch
   * memory. */
  hrn_program program;
  if (fold_view(context, view, &key, &program, status) != HRN_OK) return of_view(status, number);
  const hrn_plan *plan = view->plan;
  if (plan->output.unmixed) hrn_unmixed_erase(&program, plan, &key, view->destination);
  const target to = target_of(job, view);
  if (run_stages(context, plan, &program, shared, &to, status) != HRN_OK) return status->code;
  if (!plan->output.unmixed) hrn_erase(&program, &plan->format, &key, view->destination);
  for (int k = 0; plan->output.unmixed && k < 2; k++) {
    hrn_patch_erase(plan, view->destination, &to.patches[k]);
  }
  return HRN_OK;
}

/* Finds what each view needs of the image. The view is drawn again when it is made, because that
 * costs less than keeping the programs of all views. */
static int want_of_views(hrn_context *context, const hrn_job *job, hrn_want *wants,
                         hrn_status *status) {
  hrn_program program;
  for (int32_t v = 0; v < job->view_count; v++) {
    hrn_key key = job->key;
    key.view += (uint32_t)v;
    if (fold_view(context, &job->views[v], &key, &program, status) != HRN_OK) {
      return of_view(status, v);
    }
    wants[v].denominator = program.stages[0].denominator;
    const hrn_op_reduce *draft = draft_of(job->views[v].plan);
    if (draft != NULL) wants[v].denominator = draft->across;
    wants[v].draft = draft == NULL ? HRN_DRAFT_NONE : draft->draft;
    wants[v].fast = draft == NULL && job->views[v].plan->output.mode == HRN_FAST;
    if (hrn_stage_reach(context, &program.stages[0], &wants[v].window, status) != HRN_OK) {
      return status->code;
    }
  }
  return HRN_OK;
}

/* Decodes once and makes the views that are cut from that. The next decode uses the same memory. */
static int run_together(hrn_context *context, const hrn_job *job, const hrn_want *wants,
                        int32_t first, hrn_status *status) {
  hrn_decoded shared = {.window = wants[first].joint};
  hrn_decode_exact(context);
  if (wants[first].fast) hrn_decode_fast(context, wants[first].denominator);
  if (wants[first].draft != HRN_DRAFT_NONE &&
      hrn_decode_draft(context, wants[first].denominator, wants[first].draft == HRN_DRAFT_GREY,
                       status) != HRN_OK) {
    return status->code;
  }
  if (hrn_decode_window(context, &shared.window, &shared.image, status) != HRN_OK) {
    return status->code;
  }
  for (int32_t v = first; v < job->view_count; v++) {
    if (wants[v].decode == first && run_view(context, job, v, &shared, status) != HRN_OK) {
      return status->code;
    }
  }
  return HRN_OK;
}

static int run_views(hrn_context *context, const hrn_job *job, hrn_status *status) {
  hrn_want wants[HRN_MAX_VIEWS];
  uint32_t warnings = 0;
  if (want_of_views(context, job, wants, status) != HRN_OK) return status->code;
  hrn_group_views(context, wants, job->view_count);
  for (int32_t v = 0; v < job->view_count; v++) {
    if (wants[v].decode != v) continue;
    const int code = wants[v].members > 1 ? run_together(context, job, wants, v, status)
                                          : run_view(context, job, v, NULL, status);
    if (code != HRN_OK) return code;
    if (status->warnings > warnings) warnings = status->warnings;
  }
  status->warnings = warnings;
  return HRN_OK;
}

static uint32_t checksum(hrn_context *context, const uint8_t *bytes, size_t length) {
  hrn_times *times = hrn_times_of(context);
  const int64_t began = times != NULL ? hrn_now() : 0;
  const uint32_t found = hrn_crc32c(0, bytes, length);
  if (times != NULL) times->checksum += hrn_now() - began;
  return found;
}

/* Whether the seek points are those that were stored, and belong to these bytes. */
static bool seek_holds(hrn_context *context, const hrn_job *job) {
  if (job->seek == NULL) return false;
  if (job->check_seek_crc && checksum(context, job->seek, job->seek_length) != job->seek_crc32c) {
    return false;
  }
  return !job->check_image_crc || checksum(context, job->bytes, job->length) == job->image_crc32c;
}

static int sample(hrn_context *context, const hrn_job *job, hrn_status *status) {
  hrn_times *times = hrn_times_of(context);
  if (times != NULL) *times = (hrn_times){0};
  hrn_status_clear(status);
  if (job->view_count < 1 || job->view_count > HRN_MAX_VIEWS) {
    return hrn_fail(status, HRN_ARGUMENT, -1, "%d views, must be 1 to %d", job->view_count,
                    HRN_MAX_VIEWS);
  }
  for (int32_t v = 0; job->view_count > 1 && v < job->view_count; v++) {
    if (job->views[v].plan->output.unmixed) {
      return hrn_fail(status, HRN_ARGUMENT, -1, "a sample of %d views cannot be mixed",
                      job->view_count);
    }
  }
  /* The checksum comes first, because a decoder's complaint about altered bytes would blame the
   * file. */
  if (job->check_crc) {
    const uint32_t found = checksum(context, job->bytes, job->length);
    if (found != job->crc32c) {
      return hrn_fail(status, HRN_CHECKSUM, -1, "CRC-32C of %zu bytes is %08x, expected %08x",
                      job->length, found, job->crc32c);
    }
  }
  uint32_t width = job->raw.width, height = job->raw.height;
  const int code =
      job->raw.channels != 0
          ? hrn_decode_raw(context, job->bytes, job->length, &job->raw, status)
          : hrn_decode_header(context, job->bytes, job->length, &width, &height, status);
  if (code != HRN_OK) return code;
  /* Points only say where a decoder may begin. Altered ones could cause wrong pixels, so they are
   * ignored, and the pixels are those of a decode from the start. */
  if (seek_holds(context, job)) hrn_decode_seek(context, job->seek, job->seek_length);
  if (job->learn) hrn_decode_learn(context);
  if (hrn_check_sides(width, height, status) != HRN_OK) return status->code;
  /* For a single view the decoder reads exactly its window. */
  if (job->view_count == 1) return run_view(context, job, 0, NULL, status);
  return run_views(context, job, status);
}

int hrn_sample(hrn_context *context, const hrn_job *job, hrn_status *status) {
  sample(context, job, status);
  hrn_scratch_end(context);
  return status->code;
}
