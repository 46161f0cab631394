/* cpu.h: which instruction set is used. Nothing else is asked of the CPU. Each package that has
 * kernels has a table of them by this level. */
#ifndef HEADRACE_CORE_CPU_H
#define HEADRACE_CORE_CPU_H

/* All sets give the same bytes. */
enum hrn_level { HRN_LEVEL_SCALAR = 0, HRN_LEVEL_AVX2, HRN_LEVEL_AVX512, HRN_LEVELS };

/* Chosen once, at the first call, from what the CPU and the operating system support.
 * HEADRACE_SIMD=scalar|avx2|avx512 forces one. If it has another value, or names a set that is
 * missing here, scalar is used and hrn_simd_error says so. */
enum hrn_level hrn_cpu_level(void);
const char *hrn_simd_name(void);
const char *hrn_simd_error(void); /* NULL, or a sentence that names the bad value */

/* The level of that name ("scalar", "avx2", "avx512"), for tests that compare levels. HRN_LEVELS if
 * this CPU cannot run it. */
enum hrn_level hrn_cpu_level_named(const char *name);

/* Whether there is SSE4.2's crc32 instruction. 0 under HEADRACE_SIMD=scalar. */
int hrn_cpu_has_sse42(void);

/* Whether there is BMI2, whose shifts leave the flags alone. 0 under HEADRACE_SIMD=scalar. */
int hrn_cpu_has_bmi2(void);

#endif
