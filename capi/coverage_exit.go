//go:build coverage

package main

/*
#include <sys/types.h>
#include <unistd.h>

extern void goWriteCoverage(void);

static pid_t loaded;

__attribute__((constructor)) static void remember_process(void) { loaded = getpid(); }

// A forked child has no Go runtime left to write anything with.
__attribute__((destructor)) static void write_coverage(void) {
  if (getpid() == loaded) goWriteCoverage();
}
*/
import "C"
