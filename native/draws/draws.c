/* draws.c: the words that random ops draw.
 *
 * The counter is (block, view and op, draw, sample), the key (seed, epoch). That is a promise:
 * golden vectors in the tests check it.
 */
#include "draws.h"

/* Op and block are in the counter. So an op's draws do not depend on other ops, nor on how many
 * words those before it took. Adding an op at the end changes no draw. */
hrn_philox_block hrn_draw_block(const hrn_key *key, int32_t op, uint64_t block) {
  const uint64_t place = (uint64_t)key->view << 32 | (uint32_t)op;
  const uint64_t counter[4] = {block, place, key->draw, key->sample};
  const uint64_t philox_key[2] = {key->seed, key->epoch};
  return hrn_philox(counter, philox_key);
}

hrn_draws hrn_draws_of(const hrn_key *key, int32_t op) { return (hrn_draws){.key = key, .op = op}; }

uint64_t hrn_draw_word(hrn_draws *draws) {
  const uint64_t place = draws->taken++;
  if (place % 4 == 0) draws->block = hrn_draw_block(draws->key, draws->op, place / 4);
  return draws->block.word[place % 4];
}

double hrn_draw_between(hrn_draws *draws, double low, double high) {
  return low + (high - low) * hrn_uniform(hrn_draw_word(draws));
}

int32_t hrn_draw_below(hrn_draws *draws, int32_t n) {
  return (int32_t)hrn_below(hrn_draw_word(draws), (uint64_t)n);
}
