/* dispatch.c: the only file that asks the CPU what it can do. */
#include "dispatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdatomic.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const hrn_pixel_kernels scalar_pixels = {
    hrn_blend_scalar,       hrn_saturate_scalar,   hrn_turn_grey_scalar, hrn_sum_grey_scalar,
    hrn_extremes_scalar,    hrn_turn_hue_scalar,   hrn_sharpen_scalar,   hrn_blur_down_scalar,
    hrn_blur_across_scalar, hrn_blur_again_scalar, hrn_nearest_scalar};
static const hrn_kernels scalar_kernels = {
    "scalar",         hrn_horizontal_scalar, hrn_vertical_scalar,
    hrn_write_scalar, hrn_spread_scalar,     &scalar_pixels};

#if defined(__x86_64__)
static const hrn_pixel_kernels avx2_pixels = {
    hrn_blend_avx2,       hrn_saturate_avx2,   hrn_turn_grey_avx2, hrn_sum_grey_avx2,
    hrn_extremes_avx2,    hrn_turn_hue_avx2,   hrn_sharpen_avx2,   hrn_blur_down_avx2,
    hrn_blur_across_avx2, hrn_blur_again_avx2, hrn_nearest_avx2};
static const hrn_kernels avx2_kernels = {"avx2",         hrn_horizontal_avx2, hrn_vertical_avx2,
                                         hrn_write_avx2, hrn_spread_avx2,     &avx2_pixels};

/* The operating system saves ymm registers: OSXSAVE, and XCR0 bits 1 and 2 (Intel SDM vol. 1,
 * 14.3). Asked with the raw instruction, since _xgetbv needs a target attribute. */
static int system_saves_ymm(uint32_t ecx) {
  if (!(ecx & bit_OSXSAVE)) return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & 6) == 6;
}

/* What the files named _avx2.c use: AVX2, FMA and F16C came together in every CPU, but a
 * virtual machine may hide any of them. */
static int cpu_has_avx2(void) {
  uint32_t eax, ebx, ecx, edx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return 0;
  if (!(ecx & bit_AVX) || !(ecx & bit_FMA) || !(ecx & bit_F16C) || !system_saves_ymm(ecx)) return 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & bit_AVX2);
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

/* Asks the CPU each time: only tests and the one choice below call it. */
const hrn_kernels *hrn_kernels_named(const char *name) {
  if (strcmp(name, "scalar") == 0) return &scalar_kernels;
#if defined(__x86_64__)
  if (strcmp(name, "avx2") == 0 && cpu_has_avx2()) return &avx2_kernels;
#endif
  return NULL;
}

/* The choice, made once. Threads that race here compute the same answer from the same
 * environment, so the last store changes nothing; `chosen` is published last. */
static _Atomic(const hrn_kernels *) chosen;
static char refusal[160];
static atomic_int refused, crc32_allowed, bmi2_allowed;

static const hrn_kernels *choose(void) {
  const char *wish = getenv("HEADRACE_SIMD");
  const hrn_kernels *kernels = NULL;
  if (wish != NULL && wish[0] != 0) {
    kernels = hrn_kernels_named(wish);
    if (kernels == NULL) {
      static atomic_flag writing = ATOMIC_FLAG_INIT;
      if (!atomic_flag_test_and_set(&writing)) {
        const int known = strcmp(wish, "avx2") == 0;
        snprintf(refusal, sizeof refusal, "HEADRACE_SIMD=%.60s: %s", wish,
                 known ? "this CPU or operating system has no AVX2 with FMA and F16C"
                       : "expected scalar or avx2");
        atomic_store(&refused, 1);
      }
      kernels = &scalar_kernels;
    }
  } else {
    kernels = hrn_kernels_named("avx2");
    if (kernels == NULL) kernels = &scalar_kernels;
  }
#if defined(__x86_64__)
  const int allowed = wish == NULL || strcmp(wish, "scalar") != 0;
  atomic_store(&crc32_allowed, allowed && cpu_has_crc32());
  atomic_store(&bmi2_allowed, allowed && cpu_has_bmi2());
#endif
  atomic_store(&chosen, kernels);
  return kernels;
}

const hrn_kernels *hrn_kernels_chosen(void) {
  const hrn_kernels *kernels = atomic_load_explicit(&chosen, memory_order_acquire);
  return kernels != NULL ? kernels : choose();
}

int hrn_cpu_has_sse42(void) {
  hrn_kernels_chosen();
  return atomic_load(&crc32_allowed);
}

int hrn_cpu_has_bmi2(void) {
  hrn_kernels_chosen();
  return atomic_load_explicit(&bmi2_allowed, memory_order_relaxed);
}

const char *hrn_simd_name(void) { return hrn_kernels_chosen()->name; }

const char *hrn_simd_error(void) {
  hrn_kernels_chosen();
  return atomic_load(&refused) ? refusal : NULL;
}
