/* codes.h: counts how many runs ended with each enum hrn_code, and prints that by name. */
#ifndef HEADRACE_CTEST_CODES_H
#define HEADRACE_CTEST_CODES_H

#include <stdint.h>
#include <stdio.h>

#include "../../capi/headrace.h"
#include "../native.h"

#define CODES HR_CODES /* enum hrn_code has the numbers of enum hr_code */

static inline void print_codes(const uint64_t counts[CODES]) {
  static const char *const names[CODES] = {[HRN_OK] = "ok",
                                           [HRN_BAD] = "bad",
                                           [HRN_TRUNCATED] = "truncated",
                                           [HRN_CHECKSUM] = "checksum",
                                           [HRN_UNSUPPORTED] = "unsupported",
                                           [HRN_LIMIT] = "limit",
                                           [HRN_NO_PIXELS] = "no pixels",
                                           [HRN_MEMORY] = "memory",
                                           [HRN_ARGUMENT] = "argument"};
  for (int i = 0; i < CODES; i++) {
    if (names[i] != NULL && counts[i] > 0)
      printf(" %s %llu", names[i], (unsigned long long)counts[i]);
  }
}

#endif
