package pipeline

import (
	"runtime"
	"sync"
)

// processors counts the Ps of Go's scheduler (GOMAXPROCS): as many as at first, and one for each
// decode thread. Such a thread is nearly always in C and keeps its P there until the runtime's
// monitor takes it away, and a consumer that comes in meanwhile, or a reader, would wait for that.
// With a P to spare the monitor leaves them alone, too, and sleeps.
var processors struct {
	sync.Mutex
	first, decoders int
}

// mostProcessors bounds what a scheduler has to look through that searches for work.
const mostProcessors = 256

// addDecoders makes room for as many decode threads more, or fewer. Ps are never taken back, for
// changing their number stops the world.
func addDecoders(threads int) {
	p := &processors
	p.Lock()
	defer p.Unlock()
	if p.first == 0 {
		p.first = runtime.GOMAXPROCS(0)
	}
	p.decoders += threads
	if n := p.first + min(p.decoders, mostProcessors); n > runtime.GOMAXPROCS(0) {
		runtime.GOMAXPROCS(n)
	}
}
