/* strips.h: a window decoded as the resizer takes it, a few rows at a time. */
#ifndef HEADRACE_CTEST_STRIPS_H
#define HEADRACE_CTEST_STRIPS_H

#include "../native.h"

/* Call after hrn_decode_header. Rows are taken in pairs, with room for `at_once` (2 or more). image
 * gets pixels of its own, which must be freed, or NULL if the status is not HRN_OK. */
void decode_in_strips(hrn_context *context, const hrn_box *box, int32_t at_once, hrn_image *image,
                      hrn_status *status);

#endif
