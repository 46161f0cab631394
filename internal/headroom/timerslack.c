/* timerslack.c: lets the threads of Go's runtime wake a millisecond late.
 *
 * Go's monitor (runtime.sysmon, which no setting turns off) asks which threads have been in C for
 * long, as decode threads always have. It asks every 20 us as long as it finds some, and Linux adds
 * 50 us of timer slack. On two cores it woke 5,600 times a second, each time in place of a decoder.
 * It took 5 % of the CPU time of loading by itself, and 8 % with what it held up (a virtual
 * machine; with what internal/processors does about it).
 */
#include "headroom.h"

#include <sys/prctl.h>

enum { SLACK_NS = 1000000 };

void hrh_wake_late(void) {
  int slack_ns =
      prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0); /* 0 for real-time threads, which have no slack */
  if (slack_ns > 0 && slack_ns < SLACK_NS) prctl(PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0);
}
