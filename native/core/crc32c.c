/* crc32c.c: CRC-32C (Castagnoli), the checksum of every record.
 *
 * With SSE4.2 the crc32 instruction takes eight bytes, but the next one must wait three cycles for
 * its result. So three neighbouring stretches are summed at once and then joined. The CRC of A
 * followed by B is CRC(A) carried over as many zeros as B has bytes, xor CRC(B).
 */
#include "crc32c.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "cpu.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#define POLYNOMIAL 0x82F63B78u /* bit-reversed 0x1EDC6F41 */
#define STRETCH 1024           /* bytes of each of the three, a multiple of 8 */

/* slices[0] is the classic table; slices[k][b] is b followed by k zero bytes. */
static uint32_t slices[8][256];

/* A register carried over STRETCH zero bytes, by a table for each byte of the register. */
static uint32_t over_stretch[4][256];

static uint32_t step(uint32_t crc, uint8_t byte) {
  return slices[0][(crc ^ byte) & 0xFF] ^ crc >> 8;
}

/* These 9 kB are made at the first call, in about 50 microseconds. That is cheaper than having them
 * in the library. */
static void make_tables(void) {
  for (uint32_t b = 0; b < 256; b++) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ POLYNOMIAL : crc >> 1;
    slices[0][b] = crc;
  }
  for (uint32_t b = 0; b < 256; b++) {
    for (int k = 1; k < 8; k++) slices[k][b] = step(slices[k - 1][b], 0);
  }
  /* Carrying is linear, so it is done for each single bit, and the results are added. */
  uint32_t carried[32];
  for (int bit = 0; bit < 32; bit++) {
    carried[bit] = 1u << bit;
    for (int i = 0; i < STRETCH; i++) carried[bit] = step(carried[bit], 0);
  }
  for (int byte = 0; byte < 4; byte++) {
    for (uint32_t b = 0; b < 256; b++) {
      uint32_t sum = 0;
      for (int bit = 0; bit < 8; bit++) {
        if (b >> bit & 1) sum ^= carried[byte * 8 + bit];
      }
      over_stretch[byte][b] = sum;
    }
  }
}

static uint64_t load64(const uint8_t *p) {
  uint64_t word;
  memcpy(&word, p, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word;
}

/* Slicing by eight: the register is combined with the first four bytes of a word, and each byte's
 * share of the result depends only on how many bytes follow it. */
static uint32_t sum_scalar(uint32_t crc, const uint8_t *bytes, size_t length) {
  for (; length >= 8; bytes += 8, length -= 8) {
    uint64_t word = load64(bytes) ^ crc;
    crc = 0;
    for (int k = 0; k < 8; k++) crc ^= slices[7 - k][word >> (8 * k) & 0xFF];
  }
  for (; length > 0; length--) crc = step(crc, *bytes++);
  return crc;
}

#if defined(__x86_64__)
/* Carries the register over STRETCH zero bytes. */
static uint32_t carry(uint32_t crc) {
  return over_stretch[0][crc & 0xFF] ^ over_stretch[1][crc >> 8 & 0xFF] ^
         over_stretch[2][crc >> 16 & 0xFF] ^ over_stretch[3][crc >> 24];
}

__attribute__((target("sse4.2"))) static uint32_t sum_sse42(uint32_t crc, const uint8_t *bytes,
                                                            size_t length) {
  while (length >= 3 * STRETCH) {
    uint64_t a = crc, b = 0, c = 0;
    for (size_t i = 0; i < STRETCH; i += 8) {
      a = _mm_crc32_u64(a, load64(bytes + i));
      b = _mm_crc32_u64(b, load64(bytes + i + STRETCH));
      c = _mm_crc32_u64(c, load64(bytes + i + 2 * STRETCH));
    }
    crc = carry(carry((uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
    bytes += 3 * STRETCH;
    length -= 3 * STRETCH;
  }
  uint64_t wide = crc;
  for (; length >= 8; bytes += 8, length -= 8) wide = _mm_crc32_u64(wide, load64(bytes));
  crc = (uint32_t)wide;
  for (; length > 0; length--) crc = _mm_crc32_u8(crc, *bytes++);
  return crc;
}
#endif

/* The register is inverted before and after, as in the standard form (RFC 3720, appendix B.4), so a
 * sum can be continued with the result of the last call. */
uint32_t hrn_crc32c(uint32_t crc, const uint8_t *bytes, size_t length) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_tables);
#if defined(__x86_64__)
  if (hrn_cpu_has_sse42()) return ~sum_sse42(~crc, bytes, length);
#endif
  return ~sum_scalar(~crc, bytes, length);
}
