// Package processors sees to it that Go's scheduler has a P (GOMAXPROCS) for each goroutine that is
// in C or in the kernel for long: decoders, readers of slow storage, packing, walks of directories.
// Such a one keeps its P until the runtime's monitor takes it away, which wakes seldom
// (capi/timerslack.c), and whoever has work for a P meanwhile would wait for that. With a P to spare
// the monitor leaves those in C alone for 10 ms, too, and sleeps. They are Ps and not threads: no more
// run than there is work for, though a garbage collection plans with a quarter of them.
package processors

import (
	"runtime"
	"sync"
)

// most bounds what is added, for a scheduler that searches for work looks through all of them.
const most = 256

var (
	cores = runtime.GOMAXPROCS(0)
	mu    sync.Mutex
	busy  int
)

// As many again for threads that are not ours and call in.
func init() { runtime.GOMAXPROCS(2 * cores) }

// Cores is what GOMAXPROCS was when the library was loaded.
func Cores() int { return cores }

// Add makes room for so many goroutines more that are to be in C or in the kernel, or fewer. Ps are
// never taken back, for changing their number stops the world.
func Add(goroutines int) {
	mu.Lock()
	defer mu.Unlock()
	busy += goroutines
	if n := 2*cores + min(busy, most); n > runtime.GOMAXPROCS(0) {
		runtime.GOMAXPROCS(n)
	}
}
