/* cpu.c: the only file that asks the CPU what it can do. */
#include "cpu.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* XCR0 bits that say which registers the operating system saves (Intel SDM vol. 1, 13.3). */
enum { SAVES_YMM = 0x06, SAVES_ZMM = 0xE6 };

/* This uses the raw instruction, because _xgetbv needs a target attribute. */
static int system_saves(uint32_t registers) {
  uint32_t eax, ebx, ecx, edx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_OSXSAVE)) return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & registers) == registers;
}

/* The files named _avx2.c use AVX2, FMA and F16C. They came together in every CPU, but a virtual
 * machine may hide any of them. */
static int cpu_has_avx2(void) {
  uint32_t eax, ebx, ecx, edx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return 0;
  if (!(ecx & bit_AVX) || !(ecx & bit_FMA) || !(ecx & bit_F16C) || !system_saves(SAVES_YMM))
    return 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & bit_AVX2);
}

/* The AVX-512 kernels use these sets, all of which exist since Ice Lake and Zen 4. They also need
 * AVX2's kernels, which do what they do not. */
static int cpu_has_avx512(void) {
  const uint32_t in_ebx = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
  const uint32_t in_ecx = bit_AVX512VBMI | bit_AVX512VNNI;
  uint32_t eax, ebx, ecx, edx;
  if (!cpu_has_avx2() || !system_saves(SAVES_ZMM)) return 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & in_ebx) == in_ebx &&
         (ecx & in_ecx) == in_ecx;
}

static int cpu_has_crc32(void) {
  uint32_t eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_SSE4_2);
}

static int cpu_has_bmi2(void) {
  uint32_t eax, ebx, ecx, edx;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & bit_BMI) && (ebx & bit_BMI2);
}
#endif

static const char *const names[HRN_LEVELS] = {"scalar", "avx2", "avx512"};

/* This asks the CPU each time. Only tests and the one choice below call it. */
enum hrn_level hrn_cpu_level_named(const char *name) {
  if (strcmp(name, names[HRN_LEVEL_SCALAR]) == 0) return HRN_LEVEL_SCALAR;
#if defined(__x86_64__)
  if (strcmp(name, names[HRN_LEVEL_AVX2]) == 0 && cpu_has_avx2()) return HRN_LEVEL_AVX2;
  if (strcmp(name, names[HRN_LEVEL_AVX512]) == 0 && cpu_has_avx512()) return HRN_LEVEL_AVX512;
#endif
  return HRN_LEVELS;
}

/* The choice is made once. Threads that race here compute the same answer from the same
 * environment, so the last store changes nothing. `chosen` is published last. */
static atomic_int chosen; /* a level plus 1; 0: none yet */
static char refusal[240];
static atomic_int refused, crc32_allowed, bmi2_allowed;

/* What HEADRACE_SIMD should be, or what the machine should have, for the error's text. */
static const char *expected(const char *wish) {
  if (strcmp(wish, "avx2") == 0) {
    return "a CPU and operating system that have AVX2 with FMA and F16C";
  }
  if (strcmp(wish, "avx512") == 0) {
    return "a CPU and operating system that have AVX-512 with BW, DQ, VL, VBMI and VNNI";
  }
  return "scalar, avx2 or avx512";
}

static enum hrn_level choose(void) {
  const char *wish = getenv("HEADRACE_SIMD");
  enum hrn_level level = HRN_LEVEL_SCALAR;
  if (wish != NULL && wish[0] != 0) {
    level = hrn_cpu_level_named(wish);
    if (level == HRN_LEVELS) {
      static atomic_flag writing = ATOMIC_FLAG_INIT;
      if (!atomic_flag_test_and_set(&writing)) {
        snprintf(refusal, sizeof refusal,
                 "HEADRACE_SIMD is \"%.60s\" (expected %s), so scalar code is used", wish,
                 expected(wish));
        atomic_store(&refused, 1);
      }
      level = HRN_LEVEL_SCALAR;
    }
  } else {
    level = hrn_cpu_level_named(names[HRN_LEVEL_AVX512]);
    if (level == HRN_LEVELS) level = hrn_cpu_level_named(names[HRN_LEVEL_AVX2]);
    if (level == HRN_LEVELS) level = HRN_LEVEL_SCALAR;
  }
#if defined(__x86_64__)
  const int allowed = wish == NULL || strcmp(wish, "scalar") != 0;
  atomic_store(&crc32_allowed, allowed && cpu_has_crc32());
  atomic_store(&bmi2_allowed, allowed && cpu_has_bmi2());
#endif
  atomic_store(&chosen, (int)level + 1);
  return level;
}

enum hrn_level hrn_cpu_level(void) {
  const int level = atomic_load_explicit(&chosen, memory_order_acquire);
  return level != 0 ? (enum hrn_level)(level - 1) : choose();
}

int hrn_cpu_has_sse42(void) {
  hrn_cpu_level();
  return atomic_load(&crc32_allowed);
}

int hrn_cpu_has_bmi2(void) {
  hrn_cpu_level();
  return atomic_load_explicit(&bmi2_allowed, memory_order_relaxed);
}

const char *hrn_simd_name(void) { return names[hrn_cpu_level()]; }

const char *hrn_simd_error(void) {
  hrn_cpu_level();
  return atomic_load(&refused) ? refusal : NULL;
}
