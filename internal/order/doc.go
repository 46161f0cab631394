// Package order decides which sample comes at which position of an epoch, and which rank gets it.
//
// The positions of an epoch are numbered, and the sample at each is a pure function of (seed, epoch).
// The ranks of a job split them: a step covers the next G positions, G = batch size times world
// size, and each rank takes a contiguous part of that. The order never depends on the world size,
// so a job may be resumed with another number of ranks, at any position where a step ended, and
// still see every sample of the epoch exactly once.
//
//	position -> shuffled place -> entry of the selection -> sample
//
// The shuffled place is a keyed permutation of the position. It permutes all positions, or first blocks of neighbours
// and then the samples inside windows of them. The selection is every sample, or some samples, or some more often than
// others.
//
// Nothing is stored except what the caller gave: any position of any epoch is computed in tens of nanoseconds, and so
// is its inverse if there is one. A state to resume from is therefore a number.
//
// The package knows nothing of files, images or threads. All functions are pure and safe for
// any number of goroutines.
package order
