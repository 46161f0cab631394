package scan

import (
	"sync"
	"sync/atomic"
)

// Progress is how far the scans of this process are that run now, all together. It is zero while none does.
// It is one for the whole process, because a dataset has no handle to ask by before it is open.
type Progress struct {
	Containers int64 `json:"containers"` // read to their end
	Of         int64 `json:"of"`
	Samples    int64 `json:"samples"` // found so far
}

// walked is the progress of one scan.
type walked struct {
	of                  int64
	containers, samples atomic.Int64
}

// countedAtOnce is after how many samples a walk says so: not after each, for all walks count into one number.
const countedAtOnce = 256

var (
	walking   = make(map[*walked]bool)
	walkingMu sync.Mutex
)

// beginWalk makes the progress of a scan, which end takes out of what Current adds up.
func beginWalk(containers int) *walked {
	w := &walked{of: int64(containers)}
	walkingMu.Lock()
	defer walkingMu.Unlock()
	walking[w] = true
	return w
}

// end takes the scan out of the sum.
func (w *walked) end() {
	walkingMu.Lock()
	defer walkingMu.Unlock()
	delete(walking, w)
}

// Current is the progress of the scans that run now.
// The lock is for the map alone. The numbers may be of slightly different moments.
func Current() (p Progress) {
	walkingMu.Lock()
	defer walkingMu.Unlock()
	for w := range walking {
		p.Containers += w.containers.Load()
		p.Of += w.of
		p.Samples += w.samples.Load()
	}
	return p
}
