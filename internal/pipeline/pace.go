package pipeline

import (
	"sync/atomic"
	"time"
)

// pace decides who reads: workers while reads are fast, readers ahead of them while reads are slow. A hand-over between
// threads costs some tens of microseconds of CPU time. That is more than a read from the page cache (2 to 30), and
// negligible beside one from a disk or a bucket.
type pace struct {
	ahead atomic.Bool // readers read, instead of workers

	// These count the reads of the present window. Racing threads may lose one or two, because it is only a measurement.
	count, slowCount, sum atomic.Int64

	left  atomic.Int64 // reads by readers until the workers try again
	trial atomic.Int64 // how many these were the last time; 0 before the first
}

const (
	// Readers take over if, among paceReads reads of the workers, more than a quarter took longer than slowRead, as on a
	// disk.
	// They also do if the sum exceeds slowReads, which a bucket reaches with two reads. A worker that loses its core in
	// the middle of a read, as happens on a machine that others use too, reaches neither.
	paceReads = 32
	slowRead  = 150 * time.Microsecond
	slowReads = paceReads * time.Millisecond

	// After so many reads by readers the workers try again. Each time that they fail the number is doubled, so that with a
	// bucket only a few reads in a million are slow for this reason.
	firstTrial = 1 << 10
	lastTrial  = 1 << 20
)

func (p *pace) slow() bool { return p.ahead.Load() }

// workerRead notes a read by a worker, and says whether readers have to take over now.
func (p *pace) workerRead(took time.Duration) (turned bool) {
	sum, slow := p.sum.Add(int64(took)), int64(0)
	if took > slowRead {
		slow = p.slowCount.Add(1)
	}
	if sum > int64(slowReads) || slow > paceReads/4 {
		p.restart()
		if p.ahead.Swap(true) {
			return false // another worker was first
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

// readerRead notes a read by a reader, and says whether workers have to try again.
func (p *pace) readerRead() (turned bool) {
	return p.left.Add(-1) == 0 && p.ahead.Swap(false)
}

func (p *pace) restart() {
	p.sum.Store(0)
	p.count.Store(0)
	p.slowCount.Store(0)
}
