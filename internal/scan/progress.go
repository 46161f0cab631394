package scan

import (
	"sync"
	"sync/atomic"
)

// Progress is how far the scans of this process are that run now, all together. It is zero while none does.
// It is of the process and not of a call, for whoever shows it has no handle of a dataset before that is open.
type Progress struct {
	Containers int64 `json:"containers"` // read to their end
	Of         int64 `json:"of"`
	Samples    int64 `json:"samples"` // found so far
}

// walked is the progress of one scan.
// of is set before the walk; the others grow while it goes on.
type walked struct {
	of                  int64
	containers, samples atomic.Int64
}

// countedAtOnce is after how many samples a walk says so: not after each, for all walks count into one number.
const countedAtOnce = 256

// One map for the process, since a scan has no handle before its dataset is there.
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

// end takes the scan out of the sum; its numbers are those of a finished one then, and of use to nobody.
func (w *walked) end() {
	walkingMu.Lock()
	defer walkingMu.Unlock()
	delete(walking, w)
}

// Current is the progress of the scans that run now.
// The lock is for the map: the numbers are read as they are, and may be of different moments.
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
