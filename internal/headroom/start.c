/* start.c: starts Go when the first call needs it, and not when the library is loaded; and says
 * what is missing if that is impossible. */
#include "headroom.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* The threads that Go's start takes: four were seen beside HRH_OTHERS, and a quarter of the
 * processors may be at a garbage collection. */
static int64_t start_threads(void) {
  cpu_set_t cores;
  int count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
  return 4 + HRH_OTHERS + count / 4;
}

/* After Go's start these stay set: threads.c and space.c have what Go needs by then. */
static atomic_bool started;
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;

void hrh_say_space(char *text, size_t capacity, int64_t needed) {
  struct rlimit limit = {0};
  getrlimit(RLIMIT_AS, &limit);
  int64_t most = (int64_t)limit.rlim_cur, left = hrh_allowed_space();
  snprintf(text, capacity,
           "the engine needs %" PRId64 " bytes of address space more (%" PRId64
           " are allowed): RLIMIT_AS is %" PRId64 ", and %" PRId64 " are mapped",
           needed, left, most, most - left);
}

int32_t hrh_say_threads(char *text, size_t capacity, int64_t needed, int64_t allowed) {
  int64_t missing = (needed - allowed) * hrh_stack_bytes();
  if (hrh_allowed_space() < missing) {
    hrh_say_space(text, capacity, missing);
    return HRH_SPACE;
  }
  hrh_allowed found = hrh_allowed_threads("");
  const char *by = found.threads < needed ? found.by
                                          : "the system refuses more; a container may have a limit "
                                            "that cannot be seen in it";
  snprintf(text, capacity, "the engine needs %" PRId64 " threads (%" PRId64 " are allowed): %s",
           needed, allowed, by);
  return HRH_THREADS;
}

static int32_t prepare(char *text, size_t capacity) {
  int64_t threads = start_threads();
  int64_t space = hrh_allowed_space();
  int64_t needed = HRH_GO_BYTES + HRH_KEPT_BYTES + threads * hrh_stack_bytes();
  if (needed > space || !hrh_hold(HRH_GO_BYTES + HRH_KEPT_BYTES)) {
    hrh_say_space(text, capacity, needed);
    return HRH_SPACE;
  }
  if (hrh_scarce(threads)) {
    int64_t found = hrh_keep(threads);
    if (found < threads) {
      return hrh_say_threads(text, capacity, threads, found);
    }
  }
  if (hrh_begin() != 0) {
    return hrh_say_threads(text, capacity, threads, 0);
  }
  return HRH_ENOUGH;
}

int32_t hrh_start(char *text, size_t capacity) {
  if (atomic_load_explicit(&started, memory_order_acquire)) return HRH_ENOUGH;
  pthread_mutex_lock(&starting);
  int32_t missing = HRH_ENOUGH;
  if (!atomic_load(&started)) {
    missing = prepare(text, capacity);
    if (missing != HRH_ENOUGH) {
      hrh_keep(0);
      hrh_hold(0);
    }
    atomic_store_explicit(&started, missing == HRH_ENOUGH, memory_order_release);
  }
  pthread_mutex_unlock(&starting);
  return missing;
}
