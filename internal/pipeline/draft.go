package pipeline

import (
	"sync/atomic"
	"unsafe"

	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/pinned"
)

// draft is a batch that is being made, from the moment when it is planned until it is delivered.
type draft struct {
	stream       *stream
	next         *draft // in the stream, nil until it is planned
	epoch, step  int64
	begin        int64      // position at which the step begins, over all ranks
	first, count int64      // position of its first sample over all ranks, and number of its samples
	after        int64      // position after the step, over all ranks
	chosen       *selection // its samples if the caller chose them, otherwise nil
	use          uint64     // number of the first of those uses, for the cache
	ends         int        // number of epochs that end with it
	phase        int        // of the recipe
	tasks        int64      // number of samples to decode: its own, and partners in other ranks' rows
	mixture      *mixture   // nil if samples are not mixed

	// The counters have their own cache lines, because every worker writes them for every sample and reads the fields
	// around them.
	_         [64]byte
	claimed   atomic.Int64 // samples handed out
	_         [56]byte
	remaining atomic.Int64 // samples that are not finished, and one more until the draft is opened
	_         [56]byte

	// These are written before open is set, and read only by those who have seen it set.
	room   *room
	layout *Layout
	slot   *pinned.Slot
	base   unsafe.Pointer
	open   atomic.Bool

	// The Loader's lock protects these.
	opening bool
	refused bool      // there was no memory for a slot
	early   []*record // read before the draft was open
	faultAt int64     // number of the sample with the fault
	fault   error     // of the first faulty sample in their order, whichever thread came first
	notes   []Replacement
	done    bool
}

func newDraft(s *stream, epoch, step, first, count int64) *draft {
	d := &draft{stream: s, epoch: epoch, step: step, first: first, count: count, tasks: count}
	d.phase = s.recipe.at(epoch, step, s.order.Steps())
	d.remaining.Store(count + 1)
	return d
}

// mix tells a draft with mixed samples which rows of the step are its own. It is called before the draft is planned.
func (d *draft) mix(step order.Step, first int64) {
	plan := d.stream.recipe.Phases[d.phase].Views[0]
	if plan.Mix() != nil {
		d.mixture = newMixture(plan, step, first, d.count)
		d.tasks += int64(len(d.mixture.foreign))
		d.remaining.Store(d.tasks + 1)
	}
}

// position returns the position in the epoch of the i-th sample to decode.
func (d *draft) position(i int64) int64 {
	if i >= d.count {
		return d.mixture.step.Begin + d.mixture.row(i)
	}
	return d.first + i
}

// sample returns the number in the dataset of the i-th sample, and its draw number.
func (d *draft) sample(i int64) (index int64, draw uint64) {
	epoch := d.stream.order.Epoch(d.epoch)
	return d.sampleOf(&epoch, i)
}

// sampleOf is sample for a caller that has the order of the draft's epoch.
func (d *draft) sampleOf(epoch *order.Epoch, i int64) (index int64, draw uint64) {
	if d.chosen != nil {
		return d.chosen.at(i)
	}
	return epoch.At(d.stream.order.Spread(d.begin, d.position(i)))
}

// claim hands out the next n samples, or the remaining ones, from `first` to before `end`. The caller must finish them.
func (d *draft) claim(n int64) (first, end int64, ok bool) {
	// The counter is read first, so that it does not run away while workers wait for the next draft.
	if d.claimed.Load() >= d.tasks {
		return 0, 0, false
	}
	first = d.claimed.Add(n) - n
	return first, min(first+n, d.tasks), first < d.tasks
}

// revoked exceeds any number of tasks, and leaves room for late claims.
const revoked = 1 << 60

// revoke claims all remaining samples and returns their number. They must be finished too.
func (d *draft) revoke() int64 { return max(0, d.tasks-d.claimed.Swap(revoked)) }

// fail records a fault of sample i; the caller holds the lock. The first one in the order of samples counts, not the
// first in time, so that the number of threads does not change what is reported.
func (d *draft) fail(i int64, err error) {
	if d.fault == nil || i < d.faultAt {
		d.fault, d.faultAt = err, i
	}
}
