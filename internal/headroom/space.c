/* space.c: address space that is given up when Go asks for it.
 *
 * The whole library uses the mmap and the malloc of this file, which nobody else sees. With cgo,
 * Go's runtime gets its memory by these names (runtime/cgo, gcc_mmap.c and gcc_util.c), and ends
 * the process if they fail. A mapping of ours is held for that moment. native/ maps what it needs
 * by another name, because a refusal is an ordinary error there.
 */
#include "headroom.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *held;
static _Atomic size_t held_bytes;
static _Atomic size_t wanted; /* 0 if the address space has no limit */

/* libc's malloc, bound like any library's reference to it. */
static void *(*allocate)(size_t);

__attribute__((constructor(101))) static void find_malloc(void) {
  allocate = (void *(*)(size_t))(uintptr_t)dlsym(RTLD_DEFAULT, "malloc");
}

static void *map(size_t bytes) {
  return mmap64(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* Shrinks what is held. The lock is held. */
static void shrink(size_t bytes) {
  munmap(held + bytes, held_bytes - bytes);
  held_bytes = bytes;
}

/* Makes what is held larger, or leaves it as it was. The lock is held. */
static bool enlarge(size_t size) {
  char *more = map(size);
  if (more == MAP_FAILED && held_bytes > 0) { /* both together are too much, but one may fit */
    size_t before = held_bytes;
    shrink(0);
    more = map(size);
    if (more == MAP_FAILED) {
      held = map(before);
      held_bytes = held != MAP_FAILED ? before : 0;
      return false;
    }
  }
  if (more == MAP_FAILED) return false;
  if (held_bytes > 0) shrink(0);
  held = more;
  held_bytes = size;
  return true;
}

bool hrh_hold(int64_t bytes) {
  bool enough = true;
  pthread_mutex_lock(&lock);
  size_t size = hrh_allowed_space() == INT64_MAX ? 0 : (size_t)bytes;
  if (size < held_bytes) {
    shrink(size);
  } else if (size > held_bytes) {
    enough = enlarge(size);
  }
  if (enough)
    wanted = size < HRH_KEPT_BYTES ? size : HRH_KEPT_BYTES; /* Go's start takes the rest */
  pthread_mutex_unlock(&lock);
  return enough;
}

static size_t whole_pages(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  return (bytes + page - 1) & ~(page - 1);
}

bool hrh_give(int64_t bytes) {
  size_t size = whole_pages((size_t)bytes);
  pthread_mutex_lock(&lock);
  bool any = held_bytes > 0;
  if (any) shrink(held_bytes > size ? held_bytes - size : 0);
  pthread_mutex_unlock(&lock);
  return any;
}

static void *aside;
static size_t aside_bytes;

void hrh_set_aside(int64_t bytes) {
  if (aside_bytes > 0) munmap(aside, aside_bytes);
  int64_t left = hrh_allowed_space() / 2;
  aside_bytes =
      bytes == 0 || left >= INT64_MAX / 2 ? 0 : whole_pages((size_t)(bytes < left ? bytes : left));
  aside = aside_bytes > 0 ? map(aside_bytes) : MAP_FAILED;
  if (aside == MAP_FAILED) aside_bytes = 0;
}

bool hrh_spent(char *text, size_t capacity) {
  size_t want = wanted;
  if (held_bytes >= want || hrh_hold((int64_t)want)) return false;
  hrh_say_space(text, capacity, (int64_t)want);
  return true;
}

/* Maps in the place of what is held, so that no other thread can take it first. */
static void *map_in_place(size_t length, int protection, int flags, int file, off_t offset) {
  size_t size = whole_pages(length);
  void *found = MAP_FAILED;
  pthread_mutex_lock(&lock);
  if (size <= held_bytes) {
    found = mmap64(held + held_bytes - size, length, protection, flags | MAP_FIXED, file, offset);
    if (found != MAP_FAILED) held_bytes -= size;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

/* If Go asks for a certain address and fails, it tries others, and in the end no certain one
 * (runtime/malloc.go, mheap.sysAlloc). */
HIDDEN void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset) {
  void *found = mmap64(address, length, protection, flags, file, offset);
  if (found == MAP_FAILED && errno == ENOMEM && address == NULL) {
    found = map_in_place(length, protection, flags, file, offset);
    if (found == MAP_FAILED) errno = ENOMEM;
  }
  return found;
}

/* What Go's runtime asks malloc for at each start of a thread; codecs ask for more at once. */
#define SMALL_BYTES 64

/* What malloc then asks the system for (glibc, malloc.c: MMAP_AS_MORECORE_SIZE), and some more. */
#define GROWTH_BYTES (4 << 20)

HIDDEN void *malloc(size_t bytes) {
  void *found = allocate(bytes);
  while (found == NULL && bytes <= SMALL_BYTES && hrh_give(GROWTH_BYTES)) found = allocate(bytes);
  return found;
}
