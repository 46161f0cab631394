/* watch.c: zeros in place of SIGBUS, for mappings that are watched.
 *
 * A page of a mapping that lies behind the end of its file raises SIGBUS in the thread that reads
 * it. The handler here puts a page of zeros there and notes it, and the reader continues. The code
 * that asked for the bytes checks afterwards whether they were the file's. Everything else is
 * handed to the handler that was there before. */
#include "watch.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

struct hr_watch {
  _Atomic(uintptr_t) start; /* 0: free for the next mapping */
  _Atomic(size_t) length;
  _Atomic(int64_t) lost;
  atomic_int protection; /* of the page of zeros: the same as the mapping's */
  hr_watch *next;
};

/* Never freed, because the handler may be reading the list at any time. */
static _Atomic(hr_watch *) watches;

/* The handlers that were there when ours went on top. There is more than one, because a handler may
 * run in one thread while another thread arms. It is not expected that other threads arm KEPT times
 * meanwhile. */
#define KEPT 16
static struct sigaction kept[KEPT];
static const struct sigaction standard; /* zeros: SIG_DFL */
static _Atomic(const struct sigaction *) below = &standard;
static atomic_uint arms;
static uintptr_t page_bytes;

/* Notes the page first, before any thread can read a zero. */
static bool mend(uintptr_t address) {
  for (hr_watch *watch = atomic_load(&watches); watch; watch = watch->next) {
    uintptr_t start = atomic_load(&watch->start);
    if (start == 0 || address < start || address - start >= atomic_load(&watch->length)) continue;
    uintptr_t page = address - address % page_bytes;
    int64_t offset = (int64_t)(page - start), lost = atomic_load(&watch->lost);
    while (offset < lost && !atomic_compare_exchange_weak(&watch->lost, &lost, offset)) continue;
    void *to = (void *)page;
    int protection = atomic_load(&watch->protection);
    return mmap64(to, page_bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == to;
  }
  return false;
}

/* The same access is repeated: the handler below ours has not repaired it. */
static bool is_stuck(const siginfo_t *info) {
  static _Atomic(void *) last;
  static atomic_int times;
  if (atomic_exchange(&last, info->si_addr) != info->si_addr) atomic_store(&times, 0);
  return atomic_fetch_add(&times, 1) >= 3;
}

/* Our handler stays on top meanwhile, because other threads read mapped bytes. A handler that means
 * to end the process prints, restores the handler that it replaced, which is ours (Python's
 * faulthandler) or the default, and raises the signal again. That signal waits until we return;
 * then no handler is below ours. A handler that only returns, like faulthandler's once it was
 * disabled, is called again in vain. */
static void hand_on(int signal, siginfo_t *info, void *context) {
  const struct sigaction *next = atomic_load(&below);
  const bool sent = info->si_code <= 0; /* sent by a process: no access will repeat it */
  if (!sent && is_stuck(info)) next = &standard;
  if (next->sa_handler == SIG_DFL || next->sa_handler == SIG_IGN) {
    if (sent && next->sa_handler == SIG_IGN) return;
    sigaction(signal, &standard, NULL);
    if (sent) raise(signal);
    return;
  }
  if (next->sa_flags & SA_SIGINFO) {
    next->sa_sigaction(signal, info, context);
  } else {
    next->sa_handler(signal);
  }
  sigset_t waiting;
  if (sigpending(&waiting) == 0 && sigismember(&waiting, signal)) atomic_store(&below, &standard);
}

/* Whether the signal interrupted another handler: its stack is the one that this handler has. */
static bool inside_handler(const ucontext_t *interrupted) {
#if defined(__x86_64__)
  uintptr_t at = (uintptr_t)interrupted->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
  uintptr_t at = (uintptr_t)interrupted->uc_mcontext.sp;
#else
  uintptr_t at = 0;
#endif
  stack_t stack;
  if (sigaltstack(NULL, &stack) != 0 || (stack.ss_flags & SS_DISABLE)) return false;
  return at - (uintptr_t)stack.ss_sp < stack.ss_size;
}

/* The address of the last access of this thread that failed, 0 if it is not known: the kernel keeps
 * it, and a signal that is raised carries it, too (set_signal_archinfo in arch/x86/mm/fault.c,
 * set_thread_esr in arch/arm64/mm/fault.c). */
static uintptr_t last_fault(const ucontext_t *interrupted) {
#if defined(__x86_64__)
  return (uintptr_t)interrupted->uc_mcontext.gregs[REG_CR2];
#elif defined(__aarch64__)
  return (uintptr_t)interrupted->uc_mcontext.fault_address;
#else
  (void)interrupted;
  return 0;
#endif
}

/* A handler was put on top of ours between arming and the access, and the access failed. Python's
 * faulthandler then restores our handler and raises the signal, from inside itself
 * (faulthandler_fatal_error in Modules/faulthandler.c). The access is repeated when that handler
 * returns. It raises a signal that somebody sent in the same way. Then no access failed in a
 * watched mapping, and the signal is handed on. */
static bool is_mended_for_handler(const siginfo_t *info, const ucontext_t *interrupted) {
  return info->si_code == SI_TKILL && info->si_pid == getpid() && inside_handler(interrupted) &&
         mend(last_fault(interrupted));
}

static void on_signal(int signal, siginfo_t *info, void *context) {
  int before = errno;
  if (!is_mended_for_handler(info, context) &&
      (info->si_code != BUS_ADRERR || !mend((uintptr_t)info->si_addr))) {
    hand_on(signal, info, context);
  }
  errno = before;
}

int hr_watch_arm(void) {
  struct sigaction now;
  if (sigaction(SIGBUS, NULL, &now) != 0 || now.sa_sigaction == on_signal) return 0;
  unsigned time = atomic_fetch_add(&arms, 1);
  kept[time % KEPT] = now;
  atomic_store(&below, &kept[time % KEPT]);
  page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
  struct sigaction ours = {.sa_sigaction = on_signal};
  /* What Go requires of handlers on top of its own (package os/signal). */
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigfillset(&ours.sa_mask);
  return sigaction(SIGBUS, &ours, NULL);
}

hr_watch *hr_watch_begin(const void *start, size_t length, bool written) {
  hr_watch *watch = atomic_load(&watches);
  while (watch && atomic_load(&watch->start) != 0) watch = watch->next;
  if (!watch) {
    watch = calloc(1, sizeof *watch);
    if (!watch) return NULL;
    watch->next = atomic_load(&watches);
    atomic_store(&watches, watch);
  }
  atomic_store(&watch->lost, INT64_MAX);
  atomic_store(&watch->protection, written ? PROT_READ | PROT_WRITE : PROT_READ);
  atomic_store(&watch->length, length);
  atomic_store(&watch->start, (uintptr_t)start);
  return watch;
}

void hr_watch_end(hr_watch *watch) { atomic_store(&watch->start, 0); }

const int64_t *hr_watch_lost(const hr_watch *watch) { return (const int64_t *)&watch->lost; }
