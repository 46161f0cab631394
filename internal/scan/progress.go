package scan

import (
	"sync"
	"sync/atomic"
)

// Progress is how far the scans are that this process runs now, added up. It is zero if none runs.
// It is one for the whole process, because before a dataset is open it has no handle to ask with.
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

// countedAtOnce is after how many samples a walk reports. It does not report each, because all walks add to one number.
const countedAtOnce = 256

var (
	walking   = make(map[*walked]bool)
	walkingMu sync.Mutex
)

// beginWalk adds a scan to what Current sums up; end removes it.
func beginWalk(containers int) *walked {
	w := &walked{of: int64(containers)}
	walkingMu.Lock()
	defer walkingMu.Unlock()
	walking[w] = true
	return w
}

// end removes the scan from the sum.
func (w *walked) end() {
	walkingMu.Lock()
	defer walkingMu.Unlock()
	delete(walking, w)
}

// Current returns the progress of the scans that run now.
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
