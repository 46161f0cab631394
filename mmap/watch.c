/* watch.c: zeros in place of SIGBUS, for mappings that are watched.
 *
 * A page of a mapping that lies behind the end of its file raises SIGBUS in whoever reads it. The
 * handler here puts a page of zeros there and notes it, and the reader goes on; who asked for the
 * bytes asks afterwards whether they were the file's. Everything else is handed to the handler that
 * was there before. */
#include "watch.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct hr_watch {
  _Atomic(uintptr_t) start; /* 0: free for the next mapping */
  _Atomic(size_t) length;
  atomic_int broken;
  hr_watch *next;
};

/* Never freed, for the handler may be going over them at any time. */
static _Atomic(hr_watch *) watches;

/* What was there when our handler went on top. More than one, for a handler may run in one thread
 * while another arms; that one thread arms so often meanwhile, nobody does. */
#define KEPT 16
static struct sigaction kept[KEPT], first;
static _Atomic(const struct sigaction *) below = &first;
static atomic_uint arms;
static uintptr_t page_bytes;

static int mend(uintptr_t address) {
  for (hr_watch *watch = atomic_load(&watches); watch; watch = watch->next) {
    uintptr_t start = atomic_load(&watch->start);
    if (start == 0 || address < start || address - start >= atomic_load(&watch->length)) continue;
    atomic_store(&watch->broken, 1); /* before anybody can read a zero */
    void *page = (void *)(address - address % page_bytes);
    return mmap64(page, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
           page;
  }
  return 0;
}

/* The handler below is put back rather than called: the same access then meets it as if ours had
 * never been there. Below that one is the first: Python's faulthandler prints, puts back what it
 * was put on, which is ours, and raises the signal again. */
static void hand_on(int signal, const siginfo_t *info) {
  const struct sigaction *next = atomic_exchange(&below, &first);
  sigaction(signal, next, NULL);
  if (info->si_code <= 0) raise(signal); /* somebody sent it, and no access will repeat it */
}

static void on_signal(int signal, siginfo_t *info, void *context) {
  (void)context;
  int before = errno;
  if (info->si_code != BUS_ADRERR || !mend((uintptr_t)info->si_addr)) hand_on(signal, info);
  errno = before;
}

int hr_watch_arm(void) {
  struct sigaction now;
  if (sigaction(SIGBUS, NULL, &now) != 0 || now.sa_sigaction == on_signal) return 0;
  unsigned time = atomic_fetch_add(&arms, 1);
  if (time == 0) first = now;
  kept[time % KEPT] = now;
  atomic_store(&below, &kept[time % KEPT]);
  page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
  struct sigaction ours = {.sa_sigaction = on_signal};
  /* What Go asks of handlers on top of its own (package os/signal). */
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigfillset(&ours.sa_mask);
  return sigaction(SIGBUS, &ours, NULL);
}

hr_watch *hr_watch_begin(const void *start, size_t length) {
  hr_watch *watch = atomic_load(&watches);
  while (watch && atomic_load(&watch->start) != 0) watch = watch->next;
  if (!watch) {
    watch = calloc(1, sizeof *watch);
    if (!watch) return NULL;
    watch->next = atomic_load(&watches);
    atomic_store(&watches, watch);
  }
  atomic_store(&watch->broken, 0);
  atomic_store(&watch->length, length);
  atomic_store(&watch->start, (uintptr_t)start);
  return watch;
}

void hr_watch_end(hr_watch *watch) { atomic_store(&watch->start, 0); }

const int *hr_watch_broken(const hr_watch *watch) { return (const int *)&watch->broken; }
