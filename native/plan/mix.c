/* mix.c: MixUp (Zhang et al., 2018) of two samples: the finished values are written once, to the
 * row of one of the two. And RandomErasing's boxes inside the patches of CutMix (Yun et al.,
 * 2019). */
#include "mix.h"

#include <string.h>

static int erases(const hrn_plan *plan) {
  for (int32_t k = 0; k < plan->count; k++) {
    if (hrn_is_erasing(&plan->ops[k])) return 1;
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

/* Copies the finished values of pixels [from, to) of row y out of a whole sample. For NCHW, planes
 * are `plane` bytes apart in `out`. */
static void copy_values(const hrn_plan *plan, const uint8_t *sample, int32_t y, int32_t from,
                        int32_t to, uint8_t *out, size_t plane) {
  const size_t width = plan->size.width, pixels = width * plan->size.height;
  const size_t element = plan->format.element, length = (size_t)(to - from) * element;
  const uint8_t *values = sample + ((size_t)y * width + (size_t)from) * element;
  if (plan->format.layout == HRN_NHWC) {
    memcpy(out, sample + 3 * ((size_t)y * width + (size_t)from) * element, 3 * length);
    return;
  }
  for (size_t c = 0; c < plan->format.channels; c++) {
    memcpy(out + c * plane, values + c * pixels * element, length);
  }
}

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
static int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

static hrn_source source_of(const hrn_plan *plan, const void *unmixed) {
  hrn_source s = {.pixels = hrn_unmixed_pixels(unmixed),
                  .erased = (const uint8_t *)unmixed + erased_at(plan)};
  memcpy(&s.head, unmixed, sizeof s.head);
  return s;
}

/* Erases the part of a box that lies in a patch. */
static void erase_in_patch(const hrn_plan *plan, const uint8_t *erased, const hrn_box *box,
                           const hrn_patch *patch) {
  const int32_t width = (int32_t)plan->size.width;
  const hrn_pitch pitch = hrn_pitch_of(&plan->format, width, (int32_t)plan->size.height);
  for (int32_t y = box->top; y < box->top + box->height; y++) {
    int32_t from[2], to[2];
    const int runs = hrn_patch_runs(patch, y, width, from, to);
    for (int k = 0; k < runs; k++) {
      const int32_t left = most(box->left, from[k]), right = least(box->left + box->width, to[k]);
      if (left >= right) continue;
      copy_values(plan, erased, y, left, right,
                  (uint8_t *)patch->destination + (size_t)y * pitch.row +
                      (size_t)left * (pitch.row / plan->size.width),
                  pitch.plane);
    }
  }
}

void hrn_patch_erase(const hrn_plan *plan, const void *unmixed, const hrn_patch *patch) {
  if (patch->destination == NULL) return;
  const hrn_source s = source_of(plan, unmixed);
  for (int32_t k = 0; k < s.head.erasings; k++) {
    erase_in_patch(plan, s.erased, &s.head.erased[k], patch);
  }
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

/* The pixels of row y from column x on. */
static const uint8_t *row_of(const hrn_mixer *m, const hrn_source *s, int32_t y, int32_t x) {
  return s->pixels + 4 * ((size_t)y * m->plan->size.width + (size_t)x);
}

/* Makes the finished values of `count` pixels of row y from column x on. For NCHW, planes are
 * `plane` bytes apart in `out`. */
static void finish(const hrn_mixer *m, const hrn_source *s, int32_t x, int32_t y, int32_t count,
                   uint8_t *out, size_t plane) {
  const hrn_format *format = &m->plan->format;
  const size_t pixel = format->element * (format->layout == HRN_NHWC ? 3 : 1);
  hrn_write_of(format)(format, row_of(m, s, y, x), count, 0, out, plane);
  for (int32_t k = 0; k < s->head.erasings; k++) {
    const hrn_box *box = &s->head.erased[k];
    const int32_t from = most(box->left, x), to = least(box->left + box->width, x + count);
    if (y < box->top || y >= box->top + box->height || from >= to) continue;
    copy_values(m->plan, s->erased, y, from, to, out + (size_t)(from - x) * pixel, plane);
  }
}

/* How many pixels are finished and weighed at a time, so that both samples' values stay in the
 * first cache. */
enum { STRIP = 256 };

/* Mixes pixels [from, to) of a row by way of finished values, because erased values are finished
 * ones. */
static void weigh_values(const hrn_mixer *m, int32_t y, int32_t from, int32_t to, uint8_t *out,
                         size_t plane) {
  _Alignas(32) uint8_t mine[STRIP * 3 * 4], partners[STRIP * 3 * 4];
  const hrn_format *format = &m->plan->format;
  const hrn_weigh_kernel weigh = hrn_write_kernels_chosen()->weigh;
  const size_t element = format->element;
  for (int32_t x = from; x < to; x += STRIP) {
    const int32_t count = least(to - x, STRIP);
    const size_t length = (size_t)count * element;
    finish(m, &m->own, x, y, count, mine, length);
    finish(m, &m->other, x, y, count, partners, length);
    if (format->layout == HRN_NHWC) {
      weigh(format->dtype, mine, partners, m->share[0], m->share[1], 3 * (size_t)count,
            out + 3 * (size_t)x * element);
      continue;
    }
    for (size_t c = 0; c < format->channels; c++) {
      weigh(format->dtype, mine + c * length, partners + c * length, m->share[0], m->share[1],
            (size_t)count, out + c * plane + (size_t)x * element);
    }
  }
}

/* Widens [*from, *to) so that it holds what a source has erased of row y. */
static void span_erased(const hrn_source *s, int32_t y, int32_t *from, int32_t *to) {
  for (int32_t k = 0; k < s->head.erasings; k++) {
    const hrn_box *box = &s->head.erased[k];
    if (y < box->top || y >= box->top + box->height || box->width == 0) continue;
    *from = least(*from, box->left);
    *to = most(*to, box->left + box->width);
  }
}

hrn_mixer hrn_mixer_of(const hrn_plan *plan, const void *own, const void *other, double lambda,
                       void *destination) {
  return (hrn_mixer){.plan = plan,
                     .own = source_of(plan, own),
                     .other = source_of(plan, other),
                     /* torch rounds a Python float once, to the float32 that it multiplies by. */
                     .share = {(float)lambda, (float)(1.0 - lambda)},
                     .destination = destination};
}

void hrn_mixer_row(const hrn_mixer *m, int32_t y) {
  const hrn_format *format = &m->plan->format;
  const int whole = format->arithmetic && format->channels == 3; /* the kernel writes only this */
  const hrn_mix_kernel mix = whole ? hrn_write_kernels_chosen()->mix : NULL;
  const int32_t width = (int32_t)m->plan->size.width;
  const size_t pixel = format->element * (format->layout == HRN_NHWC ? 3 : 1);
  const size_t bytes = (size_t)width * pixel, plane = bytes * m->plan->size.height;
  uint8_t *row = m->destination + (size_t)y * bytes;
  /* Pixels that are erased, or too few for the kernel, go by way of finished values. */
  int32_t left = width, right = 0;
  span_erased(&m->own, y, &left, &right);
  span_erased(&m->other, y, &left, &right);
  if (left >= right) left = right = width;
  if (mix == NULL || left < HRN_MIX_LEAST) left = 0;
  if (mix == NULL || width - right < HRN_MIX_LEAST) right = width;
  if (left > 0) {
    mix(format, row_of(m, &m->own, y, 0), row_of(m, &m->other, y, 0), m->share, left, row, plane);
  }
  weigh_values(m, y, left, right, row, plane);
  if (right < width) {
    mix(format, row_of(m, &m->own, y, right), row_of(m, &m->other, y, right), m->share,
        width - right, row + (size_t)right * pixel, plane);
  }
}

void hrn_mix(const hrn_plan *plan, const void *own, const void *other, double lambda,
             void *destination) {
  const hrn_mixer mixer = hrn_mixer_of(plan, own, other, lambda, destination);
  for (int32_t y = 0; y < (int32_t)plan->size.height; y++) hrn_mixer_row(&mixer, y);
}

/* As in torch, the on and off values of a smoothed one-hot vector are float32, and so are both
 * products. */
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
