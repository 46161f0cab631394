package pipeline

import (
	"sync/atomic"
	"time"
)

// pace decides who reads: workers while reads are fast, readers ahead of them while they are
// slow. A hand-over between threads costs some tens of microseconds of CPU time, more than a read
// from the page cache (2 to 30), and nothing beside one from a disk or a bucket.
type pace struct {
	ahead atomic.Bool // readers read

	// Of the reads in the current window. Racing threads may lose one or two: it is a measurement.
	count, slowCount, sum atomic.Int64

	left  atomic.Int64 // reads ahead until the workers try again
	trial atomic.Int64 // how many that were the last time; 0 before the first
}

const (
	// Of so many reads of the workers, a quarter over slowRead make the readers take over: a disk.
	// So does the sum of slowReads, which a bucket reaches with two reads. A worker that loses its
	// core in the middle of a read, as it does on a machine that others use too, reaches neither.
	paceReads = 32
	slowRead  = 150 * time.Microsecond
	slowReads = paceReads * time.Millisecond

	// After so many reads ahead the workers try themselves again; each time that they fail twice
	// as many, so that a bucket loses a few reads in a million by it.
	firstTrial = 1 << 10
	lastTrial  = 1 << 20
)

func (p *pace) slow() bool { return p.ahead.Load() }

// workerRead reports that readers are to take over now.
func (p *pace) workerRead(took time.Duration) (turned bool) {
	sum, slow := p.sum.Add(int64(took)), int64(0)
	if took > slowRead {
		slow = p.slowCount.Add(1)
	}
	if sum > int64(slowReads) || slow > paceReads/4 {
		p.restart()
		if p.ahead.Swap(true) {
			return false // another worker has said so
		}
		trial := min(max(firstTrial, 2*p.trial.Load()), lastTrial)
		p.trial.Store(trial)
		p.left.Store(trial)
		return true
	}
	if p.count.Add(1) >= paceReads {
		p.restart()
	}
	return false
}

// readerRead reports that workers are to try again.
func (p *pace) readerRead() (turned bool) {
	return p.left.Add(-1) == 0 && p.ahead.Swap(false)
}

func (p *pace) restart() {
	p.sum.Store(0)
	p.count.Store(0)
	p.slowCount.Store(0)
}
