/* erase.c: RandomErasing (Zhong et al., 2020) with torchvision's draws. It works on the finished
 * values, where torchvision does: after ToTensor, and after Normalize where that stands before it.
 */
#include <math.h>
#include <string.h>

#include "plan.h"

/* Words of noise begin at this block of an op's counter, far behind those of its box. */
#define NOISE_BLOCK (1ull << 32)

int hrn_erase_draw(hrn_program *program, const hrn_op *op, int32_t index, const hrn_key *key,
                   hrn_status *status) {
  const hrn_stage *last = &program->stages[program->count - 1];
  const int32_t width = last->x.length, height = last->y.length;
  const double *p = op->p, area = (double)width * (double)height;
  hrn_draws draws = hrn_draws_of(key, index);
  if (!(hrn_uniform(hrn_draw_word(&draws)) < p[0])) return HRN_OK;
  for (int attempt = 0; attempt < 10; attempt++) {
    const double target = area * hrn_draw_between(&draws, p[1], p[2]);
    const double aspect = exp(hrn_draw_between(&draws, log(p[3]), log(p[4])));
    const double h = rint(sqrt(target * aspect)), w = rint(sqrt(target / aspect));
    /* Drawn in any case, so that each attempt takes four words. */
    const uint64_t down = hrn_draw_word(&draws), across = hrn_draw_word(&draws);
    if (!(h < height && w < width)) continue;
    if (program->erasings == HRN_MAX_ERASINGS) {
      return hrn_fail(status, HRN_LIMIT, -1, "more than %d erasings", HRN_MAX_ERASINGS);
    }
    hrn_erasing *erasing = &program->erasing[program->erasings++];
    erasing->box.height = (int32_t)h;
    erasing->box.width = (int32_t)w;
    erasing->box.top = (int32_t)hrn_below(down, (uint64_t)(height - erasing->box.height) + 1);
    erasing->box.left = (int32_t)hrn_below(across, (uint64_t)(width - erasing->box.width) + 1);
    erasing->op = index;
    erasing->normal = op->i[0];
    for (int c = 0; c < 3; c++) erasing->value[c] = (float)p[5 + c];
    return HRN_OK;
  }
  return HRN_OK;
}

/* Standard normal values, two of which come from two words. */
typedef struct noise {
  hrn_draws draws;
  double other;
  int has_other;
} noise;

static float normal(noise *n) {
  if (n->has_other) {
    n->has_other = 0;
    return (float)n->other;
  }
  const uint64_t first = hrn_draw_word(&n->draws);
  double pair[2];
  hrn_normal_pair(first, hrn_draw_word(&n->draws), pair);
  n->other = pair[1];
  n->has_other = 1;
  return (float)pair[0];
}

/* The first row value by value, if there is one; the others are copies of it. */
static void fill_constant(const hrn_erasing *erasing, const hrn_format *format, int32_t width,
                          int32_t height, uint8_t *destination) {
  const hrn_box *box = &erasing->box;
  if (box->height == 0) return;
  const size_t values = format->layout == HRN_NHWC ? 3 : 1; /* of a pixel that lie together */
  const size_t pitch = (size_t)width * values * format->element;
  const size_t bytes = (size_t)box->width * values * format->element;
  for (size_t plane = 0; plane < 3 / values; plane++) {
    uint8_t *first = destination + plane * pitch * (size_t)height + (size_t)box->top * pitch +
                     (size_t)box->left * values * format->element;
    for (size_t n = 0; n < (size_t)box->width * values; n++) {
      const float value = erasing->value[values == 3 ? n % 3 : plane];
      hrn_format_store(format, value, first + n * format->element);
    }
    for (int32_t y = 1; y < box->height; y++) memcpy(first + (size_t)y * pitch, first, bytes);
  }
}

static void fill_noise(const hrn_erasing *erasing, const hrn_format *format, const hrn_key *key,
                       int32_t width, int32_t height, uint8_t *destination) {
  const hrn_box *box = &erasing->box;
  const size_t element = format->element, pixels = (size_t)width * (size_t)height;
  noise n = {.draws = hrn_draws_of(key, erasing->op)};
  n.draws.taken = 4 * NOISE_BLOCK;
  /* Channel by channel, as a tensor lies, so that layouts get the same noise. */
  for (size_t c = 0; c < 3; c++) {
    for (int32_t y = box->top; y < box->top + box->height; y++) {
      for (int32_t x = box->left; x < box->left + box->width; x++) {
        const size_t pixel = (size_t)y * (size_t)width + (size_t)x;
        const size_t at = format->layout == HRN_NHWC ? 3 * pixel + c : c * pixels + pixel;
        hrn_format_store(format, normal(&n), destination + at * element);
      }
    }
  }
}

void hrn_erase(const hrn_program *program, const hrn_format *format, const hrn_key *key,
               uint8_t *destination) {
  const hrn_stage *last = &program->stages[program->count - 1];
  for (int32_t k = 0; k < program->erasings; k++) {
    const hrn_erasing *erasing = &program->erasing[k];
    if (erasing->normal) {
      fill_noise(erasing, format, key, last->x.length, last->y.length, destination);
    } else {
      fill_constant(erasing, format, last->x.length, last->y.length, destination);
    }
  }
}
