// Package processors keeps goroutines from waiting for a P (GOMAXPROCS), a processor of Go's scheduler, while others
// are in C or in the kernel for long: decoders, readers of slow storage, packing, walks of directories. It adds a P for
// each of these, and makes sure that the system has a thread for it.
//
// Such a goroutine keeps its P until the runtime's monitor takes the P away. The monitor wakes seldom
// (internal/headroom/timerslack.c), and other goroutines would wait for it. With a spare P the monitor also leaves
// goroutines in C alone for 10 ms, and sleeps. A P is not a thread: no more threads run than there is work for, though
// a garbage collection plans with a quarter of the Ps.
//
// But each P may need a thread, and if the runtime gets none, it ends the process. So if threads are scarce, there are
// only as many Ps and goroutines as threads can be kept for (internal/headroom).
package processors

import (
	"runtime"
	"sync"

	"github.com/headrace/headrace/internal/headroom"
)

const (
	// most bounds how many Ps are added, because a scheduler that searches for work looks through all of them.
	most = 256
	// spare Ps are enough for goroutines that are not in C; each of them costs a thread.
	spare = 16
	// fewest Ps are enough to continue: goroutines in C then lose theirs to others.
	fewest = 2
)

var (
	cores  = runtime.GOMAXPROCS(0)
	mu     sync.Mutex
	busy   int
	scarce bool // whether threads are kept
)

// This doubles the Ps, for threads that are not ours and call into the library.
func init() { _, _ = Take(0, 0) }

// Cores returns what GOMAXPROCS was when the library was loaded.
func Cores() int { return cores }

// Take makes room for up to want more goroutines that will be in C or in the kernel, and returns for how many. If these
// are fewer, for lack of threads, short says so. If they would be fewer than least, there are none. Return gives them
// back.
func Take(want, least int) (got int, short error) {
	mu.Lock()
	defer mu.Unlock()
	procs := 2*cores + min(busy+want, most)
	if scarce = headroom.Scarce(procs + busy + want + headroom.Others); !scarce {
		headroom.Keep(0)
		busy += want
		if procs > runtime.GOMAXPROCS(0) {
			runtime.GOMAXPROCS(procs)
		}
		return want, nil
	}
	if short = headroom.Hold(); short != nil {
		return 0, short
	}
	procs = min(2*cores, spare) + min(busy+want, most)
	threads := procs + busy + want + headroom.Others
	// Some threads are left to other code of this process: PyTorch wants one for each core.
	leave := min(cores+4, 16)
	defer headroom.SetAside(int64(64+16*want) << 20)()
	found := headroom.Keep(threads + leave)
	if got = want; found < threads+leave {
		short = headroom.Threads(threads, found)
		got, procs = divide(found, leave, want, least, procs)
		if got < least {
			short = headroom.Threads(fewest+busy+least+headroom.Others, found)
			got, procs = 0, runtime.GOMAXPROCS(0)
		} else if got == want {
			short = nil
		}
	}
	busy += got
	if procs != runtime.GOMAXPROCS(0) {
		runtime.GOMAXPROCS(procs)
	}
	headroom.Keep(procs + busy + headroom.Others)
	return got, short
}

// divide decides how the available threads are used: some are left, then goroutines come first, because they do the
// work, and Ps get the rest.
func divide(found, leave, want, least, procs int) (goroutines, ps int) {
	most := found - headroom.Others - busy - fewest
	rest := most - min(leave, found/4)
	goroutines = min(want, rest)
	if goroutines < least {
		goroutines = min(least, most)
	}
	return max(goroutines, 0), min(procs, fewest+max(rest-goroutines, 0))
}

// Return gives back what Take returned. The number of Ps is not reduced, because changing it stops the world.
func Return(goroutines int) {
	mu.Lock()
	defer mu.Unlock()
	busy -= goroutines
	if scarce {
		headroom.Keep(runtime.GOMAXPROCS(0) + busy + headroom.Others)
	}
}
