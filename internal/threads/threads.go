// Package threads decides how many decode threads a process should have, and gives them their name. It knows nothing of
// what they do.
package threads

import (
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Most is the largest number for which a user may ask.
const Most = 1024

// Default returns how many decode threads this process should have: the cores that affinity and every cgroup above it
// allow, divided by the other ranks on this machine. From four cores on, one core is left for the consumer. GOMAXPROCS
// does not answer this: it is never below 2 under a quota, and internal/processors raises it.
func Default() int {
	cores := float64(affinity())
	if quota, ok := cgroupCores(rootFiles); ok {
		cores = min(cores, quota)
	}
	ranks, _ := strconv.Atoi(os.Getenv("LOCAL_WORLD_SIZE")) // set by torchrun; anything else counts as one
	return threadsFor(cores, ranks)
}

// threadsFor divides before it leaves a core, because each rank has its own consumer.
func threadsFor(cores float64, ranks int) int {
	threads := int(cores / float64(max(ranks, 1)))
	if threads >= 4 {
		threads--
	}
	return min(max(threads, 1), Most)
}

// affinity counts the cores that the scheduler may use for this process.
func affinity() int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return runtime.NumCPU() // more than 1,024 cores do not fit the set
	}
	return max(1, set.Count())
}
