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
    hrn_blur_across_scalar, hrn_blur_again_scalar, hrn_nearest_scalar,   hrn_bilinear_scalar,
    hrn_bicubic_scalar};
static const hrn_kernels scalar_kernels = {"scalar",
                                           hrn_arrange_scalar,
                                           hrn_horizontal_scalar,
                                           hrn_vertical_scalar,
                                           hrn_write_scalar,
                                           hrn_reverse_scalar,
                                           hrn_spread_scalar,
                                           &scalar_pixels,
                                           NULL,
                                           hrn_weigh_scalar,
                                           NULL};

#if defined(__x86_64__)
static const hrn_pixel_kernels avx2_pixels = {
    hrn_blend_avx2,       hrn_saturate_avx2,   hrn_turn_grey_avx2, hrn_sum_grey_avx2,
    hrn_extremes_avx2,    hrn_turn_hue_avx2,   hrn_sharpen_avx2,   hrn_blur_down_avx2,
    hrn_blur_across_avx2, hrn_blur_again_avx2, hrn_nearest_avx2,   hrn_bilinear_avx2,
    hrn_bicubic_avx2};
static const hrn_plane_kernels avx2_planes = {hrn_idct_avx2, hrn_h2v1_avx2, hrn_h2v2_avx2,
                                              hrn_colour_avx2, hrn_grey_avx2};
static const hrn_kernels avx2_kernels = {
    "avx2",         hrn_arrange_avx2, hrn_horizontal_avx2, hrn_vertical_avx2,
    hrn_write_avx2, hrn_reverse_avx2, hrn_spread_avx2,     &avx2_pixels,
    &avx2_planes,   hrn_weigh_avx2,   hrn_mix_avx2};
static const hrn_kernels avx512_kernels = {
    "avx512",         hrn_arrange_avx512, hrn_horizontal_avx512, hrn_vertical_avx512,
    hrn_write_avx512, hrn_reverse_avx2,   hrn_spread_avx2,       &avx2_pixels,
    &avx2_planes,     hrn_weigh_avx2,     hrn_mix_avx512};

/* XCR0 bits that say which registers the operating system saves (Intel SDM vol. 1, 13.3). */
enum { SAVES_YMM = 0x06, SAVES_ZMM = 0xE6 };

/* Asked with the raw instruction, since _xgetbv needs a target attribute. */
static int system_saves(uint32_t registers) {
  uint32_t eax, ebx, ecx, edx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_OSXSAVE)) return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & registers) == registers;
}

/* What the files named _avx2.c use: AVX2, FMA and F16C came together in every CPU, but a
 * virtual machine may hide any of them. */
static int cpu_has_avx2(void) {
  uint32_t eax, ebx, ecx, edx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return 0;
  if (!(ecx & bit_AVX) || !(ecx & bit_FMA) || !(ecx & bit_F16C) || !system_saves(SAVES_YMM))
    return 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & bit_AVX2);
}

/* What the kernels of resize_avx512.c use, all of it since Ice Lake and Zen 4; and AVX2's, which
 * take what those do not. */
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

/* Asks the CPU each time: only tests and the one choice below call it. */
const hrn_kernels *hrn_kernels_named(const char *name) {
  if (strcmp(name, "scalar") == 0) return &scalar_kernels;
#if defined(__x86_64__)
  if (strcmp(name, "avx2") == 0 && cpu_has_avx2()) return &avx2_kernels;
  if (strcmp(name, "avx512") == 0 && cpu_has_avx512()) return &avx512_kernels;
#endif
  return NULL;
}

/* The choice, made once. Threads that race here compute the same answer from the same
 * environment, so the last store changes nothing; `chosen` is published last. */
static _Atomic(const hrn_kernels *) chosen;
static char refusal[160];
static atomic_int refused, crc32_allowed, bmi2_allowed;

static const char *why_not(const char *wish) {
  if (strcmp(wish, "avx2") == 0) {
    return "this CPU or operating system has no AVX2 with FMA and F16C";
  }
  if (strcmp(wish, "avx512") == 0) {
    return "this CPU or operating system has no AVX-512 with BW, DQ, VL, VBMI and VNNI";
  }
  return "expected scalar, avx2 or avx512";
}

static const hrn_kernels *choose(void) {
  const char *wish = getenv("HEADRACE_SIMD");
  const hrn_kernels *kernels = NULL;
  if (wish != NULL && wish[0] != 0) {
    kernels = hrn_kernels_named(wish);
    if (kernels == NULL) {
      static atomic_flag writing = ATOMIC_FLAG_INIT;
      if (!atomic_flag_test_and_set(&writing)) {
        snprintf(refusal, sizeof refusal, "HEADRACE_SIMD=%.60s: %s", wish, why_not(wish));
        atomic_store(&refused, 1);
      }
      kernels = &scalar_kernels;
    }
  } else {
    kernels = hrn_kernels_named("avx512");
    if (kernels == NULL) kernels = hrn_kernels_named("avx2");
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
