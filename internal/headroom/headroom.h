/* headroom.h: makes sure of the threads and the address space that the engine needs.
 *
 * Go's runtime ends the process if it gets no thread or no address space, at its start and at any
 * later moment ("runtime/cgo: pthread_create failed", "out of memory"): it has no other answer. So
 * what it will ask for is taken before, when a shortage can still be an error. Threads are made and
 * wait for their work (threads.c). Address space is mapped and given up when Go asks for it
 * (space.c). The system's limits say whether that is necessary (allowed.c).
 *
 * In a shared library, Go starts when the library is loaded, in a thread of its own. Here that is
 * put off until the first call (start.c), which can report what is missing.
 */
#ifndef HEADROOM_H
#define HEADROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most bytes of a sentence. */
#define HRH_TEXT 512

/* What is short, if anything. */
enum hrh_short { HRH_ENOUGH = 0, HRH_THREADS = 1, HRH_SPACE = 2 };

/* ---- allowed.c: what the system allows ---- */

typedef struct hrh_allowed {
  int64_t threads;   /* that may still be made, as far as limits can be read; INT64_MAX: no limit */
  bool hidden;       /* a limit may be above a container, where it cannot be read */
  char by[HRH_TEXT]; /* which limit that is; "" if there is none */
} hrh_allowed;

/* root: "", or for a test a directory that has a /proc and what is mounted. */
hrh_allowed hrh_allowed_threads(const char *root);

/* Bytes that may still be mapped; INT64_MAX: no limit. */
int64_t hrh_allowed_space(void);

/* ---- threads.c: threads that wait for Go to ask for them ---- */

/* The most threads that Go may ask for beside those that run its goroutines: its monitor, its
 * template thread, one that polls, one for a finalizer, one for a close that waits, the one that
 * ends a loader; and two that are about to sleep while another takes their place. */
#define HRH_OTHERS 8

/* Makes sure that the library has so many threads, counting those that run, and ends waiting ones
 * beyond that number. Returns how many there are; fewer if the system refuses more. */
int64_t hrh_keep(int64_t threads);

/* Whether threads have to be kept at all for a caller that needs so many: a limit is near, or
 * cannot be read. */
bool hrh_scarce(int64_t threads);

/* Begins the one thread that was put off while the library was loaded; it starts Go. Returns an
 * errno. */
int hrh_begin(void);

/* Address space of one thread's stack. */
int64_t hrh_stack_bytes(void);

/* ---- space.c: address space that is given up when Go asks for it ---- */

/* What Go's runtime maps at its start, beside the stacks of its threads: 1,167 MiB of tables for
 * the pages of all addresses, a heap of 64 MiB, 36 MiB of its own (Go 1.26 on amd64 and arm64), and
 * 8 MiB for an arena of libc's, which takes more for a moment. With less, the limits around this
 * sum abort the process in tests/faults/test_starved.py. */
#define HRH_GO_BYTES (INT64_C(1248) << 20)

/* What is kept for later: one more part of Go's heap, for which Go maps 128 MiB and gives back
 * half, and the tables that describe it. */
#define HRH_KEPT_BYTES (INT64_C(144) << 20)

/* Holds back so many bytes, if the address space is limited; false if it does not have them. */
bool hrh_hold(int64_t bytes);

/* Gives up so many of these bytes, for a mapping that the system refused. */
bool hrh_give(int64_t bytes);

/* Maps so many bytes, or half of what is allowed, until it is called with 0, so that threads that
 * begin do not take them. Only one caller at a time may call it. */
void hrh_set_aside(int64_t bytes);

/* Whether Go took some of what was held back, and it cannot be held again; with a sentence. */
bool hrh_spent(char *text, size_t capacity);

/* ---- start.c ---- */

/* Writes a sentence about what is short if only some of so many threads were allowed, or if so many
 * bytes are needed. */
int32_t hrh_say_threads(char *text, size_t capacity, int64_t needed, int64_t allowed);
void hrh_say_space(char *text, size_t capacity, int64_t needed);

/* Starts Go's runtime, once. If the result is not HRH_ENOUGH, nothing was begun, and text says
 * why. */
int32_t hrh_start(char *text, size_t capacity);

/* ---- timerslack.c ---- */

/* Lets the calling thread, and those that it makes, wake a millisecond late. */
void hrh_wake_late(void);

#endif
