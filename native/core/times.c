/* times.c: measures the times that the parts of a sample take. */
#include "times.h"

#include <time.h>

#include "context.h"

void hrn_times_note(hrn_context *context, int32_t on) {
  context->timed = on != 0;
  context->times = (hrn_times){0};
}

hrn_times *hrn_times_of(hrn_context *context) { return context->timed ? &context->times : NULL; }

int64_t hrn_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
