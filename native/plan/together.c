/* together.c: decides which views of a sample are decoded together.
 *
 * Decoding one box that holds two windows costs their union. Decoding them one by one costs each
 * area and the way to it. Which is cheaper depends on the file. If the entropy data has to be read
 * from the start for every window, one decode is nearly always cheaper. With seek points, two small
 * windows in opposite corners are better decoded one by one. So the two windows that save most are
 * joined, again and again, as long as that saves anything. The pixels are the same in any case.
 */
#include "../decode/decode.h"
#include "plan.h"

static hrn_box around(const hrn_box *a, const hrn_box *b) {
  const int32_t left = a->left < b->left ? a->left : b->left;
  const int32_t top = a->top < b->top ? a->top : b->top;
  const int32_t right_a = a->left + a->width, right_b = b->left + b->width;
  const int32_t bottom_a = a->top + a->height, bottom_b = b->top + b->height;
  return (hrn_box){left, top, (right_a > right_b ? right_a : right_b) - left,
                   (bottom_a > bottom_b ? bottom_a : bottom_b) - top};
}

/* Only windows of the same scale have pixels in common. */
static int alike(const hrn_want *a, const hrn_want *b) {
  return a->denominator == b->denominator && a->fast == b->fast && a->draft == b->draft;
}

static double saved(const hrn_context *context, const hrn_want *a, const hrn_want *b,
                    const double *cost_a, const double *cost_b) {
  const hrn_box both = around(&a->joint, &b->joint);
  return *cost_a + *cost_b - hrn_decode_cost(context, &both, a->denominator);
}

void hrn_group_views(const hrn_context *context, hrn_want *wants, int32_t count) {
  double cost[HRN_MAX_VIEWS];
  for (int32_t v = 0; v < count; v++) {
    wants[v].decode = v;
    wants[v].members = 1;
    wants[v].joint = wants[v].window;
    cost[v] = hrn_decode_cost(context, &wants[v].window, wants[v].denominator);
  }
  for (;;) {
    int32_t first = -1, second = -1;
    double most = 0;
    for (int32_t a = 0; a < count; a++) {
      for (int32_t b = a + 1; wants[a].decode == a && b < count; b++) {
        if (wants[b].decode != b || !alike(&wants[a], &wants[b])) continue;
        const double gain = saved(context, &wants[a], &wants[b], &cost[a], &cost[b]);
        if (!(gain > most)) continue;
        most = gain;
        first = a;
        second = b;
      }
    }
    if (first < 0) return;
    const hrn_box both = around(&wants[first].joint, &wants[second].joint);
    wants[first].joint = both;
    wants[first].members += wants[second].members;
    cost[first] = hrn_decode_cost(context, &both, wants[first].denominator);
    for (int32_t v = 0; v < count; v++) {
      if (wants[v].decode == second) wants[v].decode = first;
    }
  }
}
