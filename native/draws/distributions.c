/* distributions.c: numbers of other distributions than the uniform one, from an op's words. */
#include <math.h>

#include "draws.h"

void hrn_normal_pair(uint64_t first, uint64_t second, double pair[2]) {
  /* 1 - u is never 0. */
  const double radius = sqrt(-2.0 * log(1.0 - hrn_uniform(first)));
  const double turn = 2 * 3.14159265358979323846 * hrn_uniform(second);
  pair[0] = radius * cos(turn);
  pair[1] = radius * sin(turn);
}

double hrn_draw_normal(hrn_draws *draws) {
  const uint64_t first = hrn_draw_word(draws);
  double pair[2];
  hrn_normal_pair(first, hrn_draw_word(draws), pair);
  return pair[0];
}

/* The logarithm of a gamma variate. It is the logarithm because for a small shape the variate
 * itself does not fit a double. Marsaglia and Tsang, "A simple method for generating gamma
 * variables", 2000. A shape below one is computed from the shape that is one larger. */
static double log_gamma_variate(hrn_draws *draws, double shape) {
  const double boost = shape < 1 ? log(1.0 - hrn_uniform(hrn_draw_word(draws))) / shape : 0;
  const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / sqrt(9 * d);
  for (;;) { /* accepted in more than 19 cases of 20 */
    const double x = hrn_draw_normal(draws), root = 1 + c * x, v = root * root * root;
    const double u = 1.0 - hrn_uniform(hrn_draw_word(draws));
    if (root > 0 && log(u) < 0.5 * x * x + d - d * v + d * log(v)) return log(d * v) + boost;
  }
}

void hrn_draw_dirichlet(hrn_draws *draws, double alpha, int32_t count, double *share) {
  double most = -INFINITY, sum = 0;
  for (int32_t k = 0; k < count; k++) {
    share[k] = log_gamma_variate(draws, alpha);
    most = fmax(most, share[k]);
  }
  for (int32_t k = 0; k < count; k++) sum += share[k] = exp(share[k] - most);
  for (int32_t k = 0; k < count; k++) share[k] /= sum;
}
