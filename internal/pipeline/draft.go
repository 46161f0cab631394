package pipeline

import (
	"sync/atomic"
	"unsafe"

	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/pinned"
)

// draft is a batch that is being made: from being planned until it is delivered.
type draft struct {
	stream       *stream
	next         *draft // in the stream, nil until it is planned
	epoch, step  int64
	begin        int64      // the position where the step begins, of all ranks
	first, count int64      // global positions of its samples
	after        int64      // the position after the step, of all ranks
	chosen       *selection // its samples where the caller chose them, else nil
	use          uint64     // of the first of those, as a cache counts them
	ends         int        // how many epochs end with it
	phase        int        // of the recipe
	tasks        int64      // samples to decode: its own, and partners in other ranks' rows
	mixture      *mixture   // nil where samples are not mixed

	// The counters have cache lines of their own: every worker writes them for every sample,
	// and reads the fields around them.
	_         [64]byte
	claimed   atomic.Int64 // samples handed out
	_         [56]byte
	remaining atomic.Int64 // samples not yet finished, and one for the opening
	_         [56]byte

	// Written before open is set, read by whoever has seen it set.
	room   *room
	layout *Layout
	slot   *pinned.Slot
	base   unsafe.Pointer
	open   atomic.Bool

	// With the Loader's lock held.
	opening bool
	refused bool      // there was no memory for a slot
	early   []*record // read before the draft was open
	faultAt int64     // the sample of fault
	fault   error     // of the first faulty sample: independent of which thread came first
	notes   []Replacement
	done    bool
}

func newDraft(s *stream, epoch, step, first, count int64) *draft {
	d := &draft{stream: s, epoch: epoch, step: step, first: first, count: count, tasks: count}
	d.phase = s.recipe.at(epoch, step, s.order.Steps())
	d.remaining.Store(count + 1)
	return d
}

// mix tells a draft whose samples are mixed which rows of the step are its own, before it is
// planned.
func (d *draft) mix(step order.Step, first int64) {
	plan := d.stream.recipe.Phases[d.phase].Views[0]
	if plan.Mix() != nil {
		d.mixture = newMixture(plan, step, first, d.count)
		d.tasks += int64(len(d.mixture.foreign))
		d.remaining.Store(d.tasks + 1)
	}
}

// position is where in the epoch the i-th sample to decode lies.
func (d *draft) position(i int64) int64 {
	if i >= d.count {
		return d.mixture.step.Begin + d.mixture.row(i)
	}
	return d.first + i
}

// sample says which sample of the dataset comes i-th, and its draw number.
func (d *draft) sample(i int64) (index int64, draw uint64) {
	epoch := d.stream.order.Epoch(d.epoch)
	return d.sampleOf(&epoch, i)
}

// sampleOf is sample where the order of the draft's epoch is at hand.
func (d *draft) sampleOf(epoch *order.Epoch, i int64) (index int64, draw uint64) {
	if d.chosen != nil {
		return d.chosen.at(i)
	}
	return epoch.At(d.stream.order.Spread(d.begin, d.position(i)))
}

// claim hands out the next n samples, or those that are left, to be finished by the caller: from
// `first` to before `end`.
func (d *draft) claim(n int64) (first, end int64, ok bool) {
	// Looked at first, so that the counter cannot run away while workers wait for the next draft.
	if d.claimed.Load() >= d.tasks {
		return 0, 0, false
	}
	first = d.claimed.Add(n) - n
	return first, min(first+n, d.tasks), first < d.tasks
}

// revoked is more than any number of tasks and leaves room for late claims.
const revoked = 1 << 60

// revoke claims all samples that are left and returns how many; they must be finished too.
func (d *draft) revoke() int64 { return max(0, d.tasks-d.claimed.Swap(revoked)) }

// fail records a fault of sample i, with the lock held. The first in the order of samples wins,
// not the first in time, so that a run with another number of threads says the same.
func (d *draft) fail(i int64, err error) {
	if d.fault == nil || i < d.faultAt {
		d.fault, d.faultAt = err, i
	}
}
