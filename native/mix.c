/* mix.c: MixUp (Zhang et al., 2018) and CutMix (Yun et al., 2019) of two samples, written once, as
 * finished values, to the place of one of them.
 */
#include "mix.h"

#include <math.h>
#include <string.h>

#include "weigh.h"
#include "dispatch.h"

static int erases(const hrn_plan *plan) {
  for (int32_t k = 0; k < plan->count; k++) {
    if (plan->ops[k].kind == HRN_OP_ERASING) return 1;
  }
  return 0;
}

/* Where the erased values lie: on a cache line behind the pixels and their padding. */
static uint64_t erased_at(const hrn_plan *plan) {
  const uint64_t pixels = 4 * (uint64_t)plan->size.width * plan->size.height;
  return (HRN_UNMIXED_HEAD + pixels + HRN_ROW_PADDING + 63) / 64 * 64;
}

uint64_t hrn_unmixed_bytes(const hrn_plan *plan) {
  if (!plan->size.fixed) return 0;
  return (erased_at(plan) + (erases(plan) ? plan->size.bytes : 0) + 63) / 64 * 64;
}

hrn_image hrn_unmixed_image(const hrn_plan *plan, void *unmixed) {
  return (hrn_image){hrn_unmixed_pixels(unmixed), 4 * (size_t)plan->size.width,
                     (int32_t)plan->size.width, (int32_t)plan->size.height};
}

void hrn_unmixed_erase(const hrn_program *program, const hrn_plan *plan, const hrn_key *key,
                       void *unmixed) {
  hrn_unmixed head = {.erasings = program->erasings};
  for (int32_t k = 0; k < program->erasings; k++) head.erased[k] = program->erasing[k].box;
  memcpy(unmixed, &head, sizeof head);
  if (program->erasings > 0) {
    hrn_erase(program, &plan->format, key, (uint8_t *)unmixed + erased_at(plan));
  }
}

/* One of the two samples. */
typedef struct source {
  const hrn_plan *plan;
  hrn_write_kernel write;
  hrn_unmixed head;
  const uint8_t *pixels, *erased;
} source;

static source source_of(const hrn_plan *plan, const void *unmixed) {
  source s = {.plan = plan, .write = hrn_kernels_chosen()->write};
  memcpy(&s.head, unmixed, sizeof s.head);
  s.pixels = hrn_unmixed_pixels(unmixed);
  s.erased = (const uint8_t *)unmixed + erased_at(plan);
  return s;
}

/* The finished values of `count` pixels of row y from column x on; planes of NCHW are `plane` bytes
 * apart in `out`. */
static void finish(const source *s, int32_t x, int32_t y, int32_t count, uint8_t *out,
                   size_t plane) {
  const hrn_format *format = &s->plan->format;
  const size_t width = s->plan->size.width, pixels = width * s->plan->size.height;
  const size_t row = (size_t)y * width, element = format->element;
  s->write(format, s->pixels + 4 * (row + (size_t)x), count, 0, out, plane);
  for (int32_t k = 0; k < s->head.erasings; k++) {
    const hrn_box *box = &s->head.erased[k];
    if (y < box->top || y >= box->top + box->height) continue;
    const int32_t from = box->left > x ? box->left : x;
    const int32_t box_end = box->left + box->width, end = box_end < x + count ? box_end : x + count;
    if (from >= end) continue;
    const size_t length = (size_t)(end - from) * element, skipped = (size_t)(from - x) * element;
    const uint8_t *values = s->erased + (row + (size_t)from) * element;
    if (format->layout == HRN_NHWC) {
      values = s->erased + 3 * (row + (size_t)from) * element;
      memcpy(out + 3 * skipped, values, 3 * length);
      continue;
    }
    for (size_t c = 0; c < 3; c++) {
      memcpy(out + c * plane + skipped, values + c * pixels * element, length);
    }
  }
}

/* Pixels that are finished and weighed at a time: both samples' values stay in the first cache. */
enum { STRIP = 256 };

static void weigh_row(const source *own, const source *other, double lambda, int32_t y,
                      uint8_t *out, size_t plane) {
  _Alignas(32) uint8_t mine[STRIP * 3 * 4], partners[STRIP * 3 * 4];
  const hrn_format *format = &own->plan->format;
  const hrn_weigh_kernel weigh = hrn_kernels_chosen()->weigh;
  const int32_t width = (int32_t)own->plan->size.width;
  /* torch rounds a Python float once, to the float32 that it multiplies by. */
  const float share = (float)lambda, rest = (float)(1.0 - lambda);
  const size_t element = format->element;
  for (int32_t x = 0; x < width; x += STRIP) {
    const int32_t count = width - x < STRIP ? width - x : STRIP;
    const size_t length = (size_t)count * element;
    finish(own, x, y, count, mine, length);
    finish(other, x, y, count, partners, length);
    if (format->layout == HRN_NHWC) {
      weigh(format->dtype, mine, partners, share, rest, 3 * (size_t)count,
            out + 3 * (size_t)x * element);
      continue;
    }
    for (size_t c = 0; c < 3; c++) {
      weigh(format->dtype, mine + c * length, partners + c * length, share, rest, (size_t)count,
            out + c * plane + (size_t)x * element);
    }
  }
}

void hrn_mix(const hrn_plan *plan, const void *own, const void *other, const hrn_mixing *mixing,
             void *destination) {
  const source a = source_of(plan, own), b = source_of(plan, other);
  const int32_t width = (int32_t)plan->size.width, height = (int32_t)plan->size.height;
  const size_t element = plan->format.element;
  const size_t step = plan->format.layout == HRN_NHWC ? 3 * element : element;
  const size_t row = (size_t)width * step, plane = row * (size_t)height;
  const hrn_box cut = mixing->kind == HRN_MIX_CUTMIX
                          ? (hrn_box){mixing->left, mixing->top, mixing->width, mixing->height}
                          : (hrn_box){0, 0, 0, 0};
  for (int32_t y = 0; y < height; y++) {
    uint8_t *out = (uint8_t *)destination + (size_t)y * row;
    if (mixing->kind == HRN_MIX_MIXUP) {
      weigh_row(&a, &b, mixing->lambda, y, out, plane);
      continue;
    }
    if (cut.width == 0 || y < cut.top || y >= cut.top + cut.height) {
      finish(&a, 0, y, width, out, plane);
      continue;
    }
    const int32_t end = cut.left + cut.width;
    if (cut.left > 0) finish(&a, 0, y, cut.left, out, plane);
    finish(&b, cut.left, y, cut.width, out + (size_t)cut.left * step, plane);
    if (end < width) finish(&a, end, y, width - end, out + (size_t)end * step, plane);
  }
}

/* torch's arithmetic again: the on and off values of a smoothed one-hot vector are float32, and so
 * are both products. */
void hrn_mix_labels(double smoothing, int64_t own, int64_t other, double lambda, int64_t classes,
                    float *to) {
  const double spread = smoothing / (double)classes;
  const float off = (float)spread, on = (float)(1.0 - smoothing + spread);
  const float share = (float)lambda, rest = (float)(1.0 - lambda);
  const float off_share = off * share, off_rest = off * rest;
  const float on_share = on * share, on_rest = on * rest;
  const float neither = off_share + off_rest;
  for (int64_t c = 0; c < classes; c++) to[c] = neither;
  to[own] = on_share + off_rest;
  to[other] = off_share + on_rest;
  if (own == other) to[own] = on_share + on_rest;
}
