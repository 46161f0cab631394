/* erase.c: replaces boxes of the finished values, at the point where torchvision and timm do it:
 * after ToTensor, and after Normalize if that stands before the erasing. RandomErasing (Zhong et
 * al., 2020) with torchvision's draws, or with timm's, which may be several boxes; Cutout (DeVries
 * and Taylor, 2017). */
#include <math.h>
#include <string.h>

#include "plan.h"

/* Words of noise begin at this block of an op's counter, far behind those of its boxes. The words
 * of each box are as far behind those of the box before it. */
#define NOISE_BLOCK (1ull << 32)

static hrn_draws noise_of(const hrn_key *key, int32_t op, int32_t number) {
  hrn_draws draws = hrn_draws_of(key, op);
  draws.taken = 4 * NOISE_BLOCK * ((uint64_t)number + 1);
  return draws;
}

/* The part of the box that lies inside the image. */
static hrn_box clipped(const hrn_box *box, int32_t width, int32_t height) {
  const int32_t top = box->top > 0 ? box->top : 0, left = box->left > 0 ? box->left : 0;
  const int32_t bottom = box->top + box->height, right = box->left + box->width;
  const int32_t rows = (bottom < height ? bottom : height) - top;
  const int32_t columns = (right < width ? right : width) - left;
  if (rows <= 0 || columns <= 0) return (hrn_box){0, 0, 0, 0};
  return (hrn_box){left, top, columns, rows};
}

/* Draws a random box. 0 if ten tries found none that is smaller than the image. */
static int draw_box(const hrn_op *op, hrn_draws *draws, int32_t boxes, int32_t width,
                    int32_t height, hrn_box *box) {
  const hrn_op_erasing *e = &op->erasing;
  const double area = (double)width * (double)height;
  for (int attempt = 0; attempt < 10; attempt++) {
    const double target = area * hrn_draw_between(draws, e->scale[0], e->scale[1]) / boxes;
    const double aspect = exp(hrn_draw_between(draws, log(e->ratio[0]), log(e->ratio[1])));
    const double h = rint(sqrt(target * aspect)), w = rint(sqrt(target / aspect));
    /* These are drawn in any case, so that each attempt takes four words. */
    const uint64_t down = hrn_draw_word(draws), across = hrn_draw_word(draws);
    if (!(h < height && w < width)) continue;
    box->height = (int32_t)h;
    box->width = (int32_t)w;
    box->top = (int32_t)hrn_below(down, (uint64_t)(height - box->height) + 1);
    box->left = (int32_t)hrn_below(across, (uint64_t)(width - box->width) + 1);
    return 1;
  }
  return 0;
}

static int next_box(const hrn_op *op, hrn_draws *draws, int32_t boxes, int32_t width,
                    int32_t height, hrn_box *box) {
  if (op->kind == HRN_OP_ERASING) return draw_box(op, draws, boxes, width, height, box);
  if (op->kind == HRN_OP_CUTOUT) {
    const int32_t side = op->erasing.side, down = hrn_draw_below(draws, height);
    *box = (hrn_box){hrn_draw_below(draws, width) - side / 2, down - side / 2, side, side};
  } else {
    const hrn_op_box *given = &op->erasing.box;
    *box = (hrn_box){given->left, given->top, given->width, given->height};
  }
  *box = clipped(box, width, height);
  return 1;
}

int hrn_erase_draw(hrn_program *program, const hrn_op *op, int32_t index, const hrn_key *key,
                   hrn_status *status) {
  const hrn_op_erasing *e = &op->erasing;
  const hrn_stage *last = &program->stages[program->count - 1];
  hrn_draws draws = hrn_draws_of(key, index);
  if (!(hrn_uniform(hrn_draw_word(&draws)) < e->probability)) return HRN_OK;
  int32_t boxes = e->boxes[0];
  if (e->boxes[1] > boxes) boxes += hrn_draw_below(&draws, e->boxes[1] - boxes + 1);
  for (int32_t number = 0; number < boxes; number++) {
    hrn_box box;
    if (!next_box(op, &draws, boxes, last->x.length, last->y.length, &box)) continue;
    if (program->erasings == HRN_MAX_ERASINGS) {
      return hrn_fail(status, HRN_LIMIT, -1, "more than %d erasings", HRN_MAX_ERASINGS);
    }
    hrn_erasing *erasing = &program->erasing[program->erasings++];
    *erasing = (hrn_erasing){box, index, number, e->fill == HRN_ERASE_PIXELS, {0}};
    hrn_draws noise = noise_of(key, index, number);
    for (int c = 0; c < 3; c++) {
      erasing->value[c] =
          e->fill == HRN_ERASE_BOX ? (float)hrn_draw_normal(&noise) : (float)e->value[c];
    }
  }
  return HRN_OK;
}

/* Standard normal values. Two words give two values. */
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

/* Writes the first row value by value, if there is one, and copies it to the others. */
static void fill_constant(const hrn_erasing *erasing, const hrn_format *format, int32_t width,
                          int32_t height, uint8_t *destination) {
  const hrn_box *box = &erasing->box;
  if (box->height == 0) return;
  const size_t values = format->layout == HRN_NHWC ? 3 : 1; /* of a pixel that are adjacent */
  const size_t pitch = (size_t)width * values * format->element;
  const size_t bytes = (size_t)box->width * values * format->element;
  for (size_t plane = 0; plane < format->channels / values; plane++) {
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
  noise n = {.draws = noise_of(key, erasing->op, erasing->number)};
  /* Goes channel by channel, as a tensor is stored, so that both layouts get the same noise. */
  for (size_t c = 0; c < format->channels; c++) {
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
