/* random.h: numbers that are the same on every machine (splitmix64), or a fuzzer's bytes. */
#ifndef HEADRACE_CTEST_RANDOM_H
#define HEADRACE_CTEST_RANDOM_H

#include <stddef.h>
#include <stdint.h>

typedef struct random_state {
  uint64_t state;
  /* These bytes decide before `state` does, so that a change by the fuzzer changes one decision. */
  const uint8_t *tape;
  size_t left;
} random_state;

static inline random_state random_seeded(uint64_t seed) { return (random_state){.state = seed}; }

static inline random_state random_taped(const uint8_t *tape, size_t length) {
  return (random_state){.tape = tape, .left = length};
}

/* The next `count` bytes of the tape, or fewer where it ends. */
static inline uint64_t random_from_tape(random_state *r, size_t count) {
  uint64_t value = 0;
  for (; count > 0 && r->left > 0; count--, r->left--) value = value << 8 | *r->tape++;
  return value;
}

static inline uint64_t random_next(random_state *r) {
  if (r->left > 0) return random_from_tape(r, 8);
  uint64_t z = r->state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

/* A number below `bound`, which is not 0. The bias of the remainder does not matter to a test. */
static inline uint64_t random_below(random_state *r, uint64_t bound) {
  if (r->left > 0) return random_from_tape(r, bound <= 256 ? 1 : bound <= 65536 ? 2 : 8) % bound;
  return random_next(r) % bound;
}

#endif
