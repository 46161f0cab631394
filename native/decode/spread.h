/* spread.h: turns the RGB of files into the RGBX of the stages. */
#ifndef HEADRACE_DECODE_SPREAD_H
#define HEADRACE_DECODE_SPREAD_H

#include <stdint.h>

#include "../core/cpu.h"

/* Turns `count` pixels of 3 bytes into pixels of 4 bytes. Reads nothing beyond 3 * count bytes. */
typedef void (*hrn_spread_kernel)(const uint8_t *rgb, int32_t count, uint8_t *rgbx);

void hrn_spread_scalar(const uint8_t *, int32_t, uint8_t *);
#if defined(__x86_64__)
void hrn_spread_avx2(const uint8_t *, int32_t, uint8_t *);
#endif

extern const hrn_spread_kernel hrn_spread_of[HRN_LEVELS];

static inline hrn_spread_kernel hrn_spread_chosen(void) { return hrn_spread_of[hrn_cpu_level()]; }

#endif
