/* philox.h: Philox 4x64-10, the counter-based generator behind every random op.
 *
 * Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Four 64-bit words are a
 * pure function of a key and a counter. So a draw needs no state that threads could share or that a
 * resume could lose. It equals numpy.random.Philox word for word;
 * tests/parity/test_training_parity.py compares every draw with that.
 */
#ifndef HEADRACE_CORE_PHILOX_H
#define HEADRACE_CORE_PHILOX_H

#include <stdint.h>

typedef struct hrn_philox_block {
  uint64_t word[4];
} hrn_philox_block;

static inline hrn_philox_block hrn_philox(const uint64_t counter[4], const uint64_t key[2]) {
  /* The paper's round multipliers, and Weyl increments from the golden ratio and sqrt(3) - 1. */
  const uint64_t m0 = 0xD2E7470EE14C6C93u, m1 = 0xCA5A826395121157u;
  const uint64_t w0 = 0x9E3779B97F4A7C15u, w1 = 0xBB67AE8584CAA73Bu;
  uint64_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint64_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++) {
    const unsigned __int128 p0 = (unsigned __int128)m0 * c0, p1 = (unsigned __int128)m1 * c2;
    c0 = (uint64_t)(p1 >> 64) ^ c1 ^ k0;
    c1 = (uint64_t)p1;
    c2 = (uint64_t)(p0 >> 64) ^ c3 ^ k1;
    c3 = (uint64_t)p0;
    k0 += w0;
    k1 += w1;
  }
  return (hrn_philox_block){{c0, c1, c2, c3}};
}

/* [0, 1) in steps of 2^-53. Every value is exact in a double, so none rounds up to 1. */
static inline double hrn_uniform(uint64_t word) { return (double)(word >> 11) * 0x1p-53; }

/* [0, n), for n > 0, as the high half of a 128-bit product. The bias is below n / 2^64. */
static inline uint64_t hrn_below(uint64_t word, uint64_t n) {
  return (uint64_t)(((unsigned __int128)word * n) >> 64);
}

#endif
