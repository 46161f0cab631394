/* sample.c: the one call. Encoded bytes in, a finished sample out. */
#include "dispatch.h"
#include "mix.h"

#include <string.h>

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

/* The stages that are not last write whole images; the last one writes finished rows, each once,
 * so that no image of the result exists in another form. */
static hrn_sink sink_of(const hrn_plan *plan, const hrn_stage *stage, const hrn_image *image,
                        void *destination) {
  const hrn_format *format = &plan->format;
  hrn_sink sink = {.width = stage->x.length, .height = stage->y.length};
  /* A gather's maps already look backwards. */
  const int maps = stage->pads || (stage->resizes && stage->filter == HRN_NEAREST);
  sink.flip_x = !maps && stage->x.step < 0;
  sink.flip_y = !maps && stage->y.step < 0;
  if (image != NULL) {
    sink.image = image;
    return sink;
  }
  /* Rows of NCHW are rows of one plane; the kernel finds the other two a plane further. */
  const size_t element = format->element;
  sink.format = format;
  sink.write = hrn_kernels_chosen()->write;
  sink.destination = destination;
  sink.row = (size_t)sink.width * element * (format->layout == HRN_NHWC ? 3 : 1);
  sink.plane = (size_t)sink.width * (size_t)sink.height * element;
  return sink;
}

/* The ops on pixels that follow a stage; *image is then wherever the last one left it. */
static int run_pixels(hrn_context *context, hrn_program *program, int32_t stage, hrn_image *image,
                      hrn_status *status) {
  const int32_t first = stage > 0 ? program->stages[stage - 1].pixel_end : 0;
  int32_t turn = 0;
  for (int32_t k = first; k < program->stages[stage].pixel_end; k++) {
    if (hrn_pixels_run(context, &program->pixels.op[k], image, &turn, status) != HRN_OK) {
      return status->code;
    }
  }
  return HRN_OK;
}

static void write_image(const hrn_plan *plan, const hrn_stage *last, const hrn_image *image,
                        void *destination) {
  hrn_sink sink = sink_of(plan, last, NULL, destination);
  sink.flip_x = sink.flip_y = 0; /* done on the way into the image */
  for (int32_t y = 0; y < image->height; y++) {
    hrn_sink_row(&sink, y, image->pixels + (size_t)y * image->stride);
  }
}

/* The first stage's input is what the decoder gives; it is asked only for the window that the
 * stage says it needs. Later ones look at a window of the image before. */
static int run_stages(hrn_context *context, const hrn_plan *plan, hrn_program *program,
                      void *destination, hrn_status *status) {
  const hrn_stage *stages = program->stages;
  hrn_image image = {0}, unmixed;
  for (int32_t s = 0; s < program->count; s++) {
    const int last = s + 1 == program->count;
    const int pixels = stages[s].pixel_end > (s > 0 ? stages[s - 1].pixel_end : 0);
    hrn_ready ready;
    if (hrn_stage_prepare(context, &stages[s], &ready, status) != HRN_OK) return status->code;
    hrn_image *output = NULL, between;
    if (!last || pixels) {
      output = &between;
      if (image_between(context, s, &stages[s], output, status) != HRN_OK) return status->code;
    } else if (plan->output.unmixed) {
      unmixed = hrn_unmixed_image(plan, destination);
      output = &unmixed;
    }
    const hrn_sink sink = sink_of(plan, &stages[s], output, destination);
    if (s == 0) {
      if (hrn_stage_first(context, &ready, &sink, status) != HRN_OK) return status->code;
    } else {
      /* The whole image between is there; the stage looks at its part of it. */
      hrn_image part = {
          image.pixels + (size_t)ready.input.top * image.stride + 4 * (size_t)ready.input.left,
          image.stride, ready.input.width, ready.input.height};
      hrn_rows input = hrn_rows_of(&part);
      if (hrn_stage_run(context, &ready, &input, &sink, status) != HRN_OK) return status->code;
    }
    if (output != &between) return HRN_OK;
    image = between;
    if (run_pixels(context, program, s, &image, status) != HRN_OK) return status->code;
  }
  if (plan->output.unmixed) {
    unmixed = hrn_unmixed_image(plan, destination);
    for (int32_t y = 0; y < image.height; y++) {
      memcpy(unmixed.pixels + (size_t)y * unmixed.stride, image.pixels + (size_t)y * image.stride,
             unmixed.stride);
    }
    return HRN_OK;
  }
  write_image(plan, &stages[program->count - 1], &image, destination);
  return HRN_OK;
}

/* HRN_FAST: the encoded image in the smallest of libjpeg's sizes that is no smaller than the
 * result, and weights of fewer bits. Nearest shows single pixels, which a smaller image has not
 * got. */
static void make_fast(hrn_context *context, hrn_stage *stages, int32_t count) {
  hrn_stage *first = &stages[0];
  int32_t denominator = 1;
  if (first->resizes && first->filter != HRN_NEAREST) {
    while (denominator < 8 && first->x.box_length / denominator / 2 >= first->x.resized &&
           first->y.box_length / denominator / 2 >= first->y.resized) {
      denominator *= 2;
    }
  }
  first->denominator = hrn_decode_fast(context, denominator);
  for (int32_t s = 0; s < count; s++) stages[s].bits = HRN_FAST_BITS;
}

static int sample(hrn_context *context, const hrn_plan *plan, const hrn_job *job,
                  hrn_status *status) {
  hrn_status_clear(status);
  /* First of all: a decoder's complaint about altered bytes would blame the file. */
  if (job->check_crc) {
    const uint32_t found = hrn_crc32c(0, job->bytes, job->length);
    if (found != job->crc32c) {
      return hrn_fail(status, HRN_CHECKSUM, -1, "CRC-32C of %zu bytes is %08x, expected %08x",
                      job->length, found, job->crc32c);
    }
  }
  uint32_t width, height;
  if (hrn_decode_header(context, job->bytes, job->length, &width, &height, status) != HRN_OK) {
    return status->code;
  }
  /* Points only say where a decoder may begin. Altered ones could show as wrong pixels, so they are
   * left out, and the pixels are those of a decode from the start. */
  if (!job->check_seek_crc || hrn_crc32c(0, job->seek, job->seek_length) == job->seek_crc32c) {
    hrn_decode_seek(context, job->seek, job->seek_length);
  }
  if (width > HRN_MAX_LENGTH || height > HRN_MAX_LENGTH) {
    return hrn_fail(status, HRN_LIMIT, -1, "image of %ux%u pixels; a side is at most %d", width,
                    height, HRN_MAX_LENGTH);
  }
  /* About 15 KB of stack; all that grows with the image is the context's scratch. */
  hrn_program program;
  if (hrn_fold(plan, &job->key, (int32_t)width, (int32_t)height, &program, status) != HRN_OK) {
    return status->code;
  }
  /* The stages are the truth about the size, so it is they who are held against the capacity. */
  const hrn_stage *last = &program.stages[program.count - 1];
  const int unmixed = plan->output.unmixed;
  if (unmixed && (!plan->size.fixed || (uint32_t)last->x.length != plan->size.width ||
                  (uint32_t)last->y.length != plan->size.height)) {
    return hrn_fail(status, HRN_ARGUMENT, -1, "a sample of %dx%d pixels cannot be mixed",
                    last->x.length, last->y.length);
  }
  const uint64_t bytes =
      unmixed ? hrn_unmixed_bytes(plan)
              : (uint64_t)last->x.length * (uint64_t)last->y.length * 3 * plan->format.element;
  if (bytes > job->capacity) {
    return hrn_fail(status, HRN_ARGUMENT, -1,
                    "a sample of %dx%d pixels takes %llu bytes, the destination holds %llu",
                    last->x.length, last->y.length, (unsigned long long)bytes,
                    (unsigned long long)job->capacity);
  }
  if (plan->output.mode == HRN_FAST) make_fast(context, program.stages, program.count);
  if (run_stages(context, plan, &program, job->destination, status) != HRN_OK) return status->code;
  if (unmixed) {
    hrn_unmixed_erase(&program, plan, &job->key, job->destination);
  } else {
    hrn_erase(&program, &plan->format, &job->key, job->destination);
  }
  return HRN_OK;
}

int hrn_sample(hrn_context *context, const hrn_plan *plan, const hrn_job *job, hrn_status *status) {
  sample(context, plan, job, status);
  hrn_scratch_end(context);
  return status->code;
}
