/* random.h: numbers that are the same on every machine (splitmix64). */
#ifndef HEADRACE_CTEST_RANDOM_H
#define HEADRACE_CTEST_RANDOM_H

#include <stdint.h>

typedef struct random_state {
  uint64_t state;
} random_state;

static inline random_state random_seeded(uint64_t seed) { return (random_state){seed}; }

static inline uint64_t random_next(random_state *r) {
  uint64_t z = r->state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

/* Below `bound`, which is not 0; the bias of the remainder does not matter to a test. */
static inline uint64_t random_below(random_state *r, uint64_t bound) {
  return random_next(r) % bound;
}

#endif
