/* timerslack.c: lets the threads of Go's runtime wake a millisecond late.
 *
 * Its monitor (runtime.sysmon, which no setting turns off) asks which threads have been in C for
 * long, as decode threads always have: every 20 us as long as it finds some, and Linux adds 50 us
 * of timer slack. It woke 5,600 times a second on two cores, each time in the place of a decoder,
 * and took 5 % of the CPU time of loading by itself, 8 % with what it held up (a virtual machine;
 * with what internal/processors does about it). Threads inherit the slack of the one that makes
 * them (prctl(2), PR_SET_TIMERSLACK), and Go's first is made when this library is loaded: by a
 * constructor that has no priority, so behind those that have one, and of Go's object, which is
 * linked before those of C, so before theirs. The thread that loads us gets its own slack back.
 */
#include <sys/prctl.h>

enum { SLACK_NS = 1000000 };

static int before_ns; /* 0 for real-time threads, whose timers have none */

__attribute__((constructor(101))) static void widen(void) {
  before_ns = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  if (before_ns > 0 && before_ns < SLACK_NS) prctl(PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0);
}

__attribute__((constructor)) static void restore(void) {
  if (before_ns > 0 && before_ns < SLACK_NS) prctl(PR_SET_TIMERSLACK, before_ns, 0, 0, 0);
}
