/* threads.c: threads that wait for Go to ask for them.
 *
 * The whole library uses the pthread_create of this file, which nobody else sees. With cgo, Go's
 * runtime makes its threads by that name (runtime/cgo, gcc_libinit.c), and ends the process if it
 * fails. Here it is given a thread that is already waiting.
 */
#include "headroom.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define HIDDEN __attribute__((visibility("hidden")))

typedef void *(*task)(void *);

/* A thread of the library. */
typedef struct thread {
  pthread_t id;
  pthread_cond_t called;
  task work; /* NULL while it waits */
  void *argument;
  bool dismissed;
  struct thread *next; /* the next thread that waits */
} thread;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t returned = PTHREAD_COND_INITIALIZER; /* one more waits, or has begun */
static thread *waiting;
static int64_t alive; /* the waiting threads and those at work */
static int64_t kept;  /* so many threads should not end */
static int64_t made, begun;

/* libc's pthread_create, bound like any library's reference to it: through what a program has put
 * before it. */
static int (*create)(pthread_t *, const pthread_attr_t *, task, void *);

/* Go's start, while it is put off. */
static bool loading;
static struct {
  task work;
  void *argument;
  sigset_t mask;
} first;

/* Go starts by a constructor without a priority, so after the constructors that have one. Go's
 * object is linked before those of C, so its constructor runs before theirs. In a program nothing
 * is started then. */
__attribute__((constructor(101))) static void begin_loading(void) {
  create = (int (*)(pthread_t *, const pthread_attr_t *, task, void *))(uintptr_t)dlsym(
      RTLD_DEFAULT, "pthread_create");
  loading = true;
}

__attribute__((constructor)) static void end_loading(void) { loading = false; }

/* When a thread first allocates memory, glibc makes it an arena of 64 MB of addresses, if it gets
 * them. It is better to do so when the thread begins than when other code counts on these
 * addresses. */
static void take_arena(void) {
  void *volatile memory = malloc(1);
  free(memory);
}

/* The life of one thread: it works, and waits for more work as long as it is kept. */
static void *serve(void *own) {
  thread *self = own;
  if (first.work != NULL) hrh_wake_late();
  pthread_mutex_lock(&lock); /* waits until all threads that are made together exist */
  pthread_mutex_unlock(&lock);
  take_arena();
  pthread_mutex_lock(&lock);
  begun++;
  pthread_cond_broadcast(&returned);
  for (;;) {
    while (self->work == NULL && !self->dismissed) pthread_cond_wait(&self->called, &lock);
    if (self->work == NULL) break;
    pthread_mutex_unlock(&lock);
    self->work(self->argument);
    pthread_mutex_lock(&lock);
    self->work = NULL;
    if (alive > kept) {
      alive--;
      break;
    }
    self->next = waiting;
    waiting = self;
    pthread_cond_broadcast(&returned);
  }
  pthread_mutex_unlock(&lock);
  pthread_cond_destroy(&self->called);
  free(self);
  return NULL;
}

/* Makes a thread; without work it waits. The lock is held. All signals are blocked in it, as Go
 * requires in a thread that begins. */
static int add(pthread_t *id, task work, void *argument) {
  thread *fresh = calloc(1, sizeof *fresh);
  if (fresh == NULL) return EAGAIN;
  pthread_cond_init(&fresh->called, NULL);
  fresh->work = work;
  fresh->argument = argument;
  fresh->next = waiting;
  pthread_attr_t detached;
  sigset_t all, before;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = create(&fresh->id, &detached, serve, fresh);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&detached);
  if (error != 0) {
    pthread_cond_destroy(&fresh->called);
    free(fresh);
    return error;
  }
  if (id != NULL) *id = fresh->id;
  if (work == NULL) waiting = fresh;
  alive++;
  made++;
  return 0;
}

/* Gives work to a waiting thread. The lock is held. */
static bool hand_out(pthread_t *id, task work, void *argument) {
  thread *found = waiting;
  if (found == NULL) return false;
  waiting = found->next;
  found->work = work;
  found->argument = argument;
  if (id != NULL) *id = found->id;
  pthread_cond_signal(&found->called);
  return true;
}

/* How long to wait for a thread to come back, if there is no other: Go asks twenty times. */
#define PATIENCE_NS 500000000

static void wait_for_one(void) {
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_nsec += PATIENCE_NS;
  end.tv_sec += end.tv_nsec / 1000000000;
  end.tv_nsec %= 1000000000;
  while (waiting == NULL && pthread_cond_timedwait(&returned, &lock, &end) == 0) continue;
}

HIDDEN int pthread_create(pthread_t *id, const pthread_attr_t *attributes, task work,
                          void *argument) {
  (void)attributes; /* Go's attributes are those that add sets */
  if (loading) {
    first.work = work;
    first.argument = argument;
    return 0;
  }
  pthread_mutex_lock(&lock);
  int error = 0;
  if (!hand_out(id, work, argument)) {
    error = add(id, work, argument);
    /* pthread_create returns EAGAIN for either: no thread, and no address space for its stack. */
    while (error != 0 && hrh_give(hrh_stack_bytes())) error = add(id, work, argument);
    if (error != 0) {
      wait_for_one();
      if (hand_out(id, work, argument)) error = 0;
    }
  }
  pthread_mutex_unlock(&lock);
  return error;
}

static void *begin_go(void *argument) {
  /* Signals that are blocked in Go's first thread stay blocked in all its threads. */
  pthread_sigmask(SIG_SETMASK, &first.mask, NULL);
  return first.work(argument);
}

int hrh_begin(void) {
  if (first.work == NULL) return 0; /* it was not put off */
  pthread_sigmask(SIG_SETMASK, NULL, &first.mask);
  pthread_mutex_lock(&lock);
  int error = 0;
  if (!hand_out(NULL, begin_go, first.argument)) error = add(NULL, begin_go, first.argument);
  pthread_mutex_unlock(&lock);
  return error;
}

/* The kernel counts a thread until a moment after its end. */
#define TRIES 4
static const struct timespec moment = {.tv_nsec = 2000000};

int64_t hrh_keep(int64_t threads) {
  int tries = TRIES;
  pthread_mutex_lock(&lock);
  kept = threads;
  while (alive < threads) {
    if (add(NULL, NULL, NULL) == 0) continue;
    if (--tries == 0) break;
    pthread_mutex_unlock(&lock);
    nanosleep(&moment, NULL);
    pthread_mutex_lock(&lock);
  }
  while (alive > threads && waiting != NULL) {
    thread *found = waiting;
    waiting = found->next;
    found->dismissed = true;
    alive--;
    pthread_cond_signal(&found->called);
  }
  while (begun < made) pthread_cond_wait(&returned, &lock);
  int64_t found = alive;
  pthread_mutex_unlock(&lock);
  return found;
}

/* If less than this is left of a limit, other processes may take it while we are at work: limits of
 * containers are a few thousand at most. */
static int64_t plenty(int64_t threads) { return 4 * threads + 4096; }

bool hrh_scarce(int64_t threads) {
  if (hrh_allowed_space() != INT64_MAX) return true;
  hrh_allowed allowed = hrh_allowed_threads("");
  return allowed.hidden || allowed.threads < plenty(threads);
}

int64_t hrh_stack_bytes(void) {
  pthread_attr_t usual;
  size_t stack = 0, guard = 0;
  pthread_attr_init(&usual);
  pthread_attr_getstacksize(&usual, &stack);
  pthread_attr_getguardsize(&usual, &guard);
  pthread_attr_destroy(&usual);
  return (int64_t)(stack + guard);
}
