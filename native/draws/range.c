/* range.c: the ranges that parameters of all kinds of ops must be in. */
#include <math.h>

#include "check.h"

int hrn_within(int32_t index, const char *what, double value, double low, double high,
               hrn_status *status) {
  if (value >= low && value <= high) return 1; /* also refuses NaN */
  hrn_fail_op(status, HRN_ARGUMENT, index, "%s is %.9g, must be %.9g to %.9g", what, value, low,
              high);
  return 0;
}

int hrn_interval(int32_t index, const char *what, const double bound[2], double low, double high,
                 hrn_status *status) {
  return hrn_within(index, what, bound[0], low, high, status) &&
         hrn_within(index, what, bound[1], bound[0], high, status);
}

int hrn_is_fill(int32_t index, const hrn_op *op, hrn_status *status) {
  for (int c = 0; c < 3; c++) {
    if (!hrn_within(index, "fill", op->fill[c], 0, 255, status)) return 0;
    if (op->fill[c] != floor(op->fill[c])) {
      hrn_fail_op(status, HRN_ARGUMENT, index, "fill is %g, must be a whole number", op->fill[c]);
      return 0;
    }
  }
  return 1;
}
