//go:build coverage

package main

/*
#include <sys/types.h>
#include <unistd.h>

extern void goWriteCoverage(void);

static pid_t started;

static void remember_process(void) { started = getpid(); }

// Not where Go was never started, nor in a forked child, which has no Go runtime left.
__attribute__((destructor)) static void write_coverage(void) {
  if (getpid() == started) goWriteCoverage();
}
*/
import "C"

func init() { C.remember_process() }
