// Package order says which sample comes next.
//
// The samples of an epoch lie in one global order, a pure function of (seed, epoch), and the
// ranks of a job split it: step s covers the global positions [s*G, (s+1)*G) with G = batch size
// times world size, and each rank reads a contiguous part of that. The order never depends
// on the world size, so a job may be resumed with another number of ranks and still see every
// sample of the epoch exactly once.
//
// Nothing is stored: any position of any epoch is computed in tens of nanoseconds, and so is
// its inverse. A state to resume from is therefore a number.
//
// The package knows nothing of files, images or threads. All functions are pure and safe for
// any number of goroutines.
package order
