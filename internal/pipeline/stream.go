package pipeline

import (
	"sync/atomic"

	"github.com/headrace/headrace/internal/order"
)

// stream is everything that was begun since the last SeekTo. The Loader's lock protects all fields that are not atomic.
type stream struct {
	order     *order.Order
	recipe    *Recipe
	submitted bool     // the caller chooses the batches
	waiting   []*draft // submitted, but not planned yet
	held      int64    // number of samples in submitted batches that were not delivered
	drafts    []*draft // not delivered yet, in order
	opened    int      // number of drafts that are open or being opened

	// claiming is the draft whose samples are handed out: the first that may have unclaimed ones.
	claiming atomic.Pointer[draft]

	// Positions count the samples of an epoch over all ranks; for submitted batches they count batches.
	epoch, position         int64 // the next to deliver
	planEpoch, planPosition int64 // the next to plan, or to be submitted
	ends                    int   // number of ErrEnds that Next returns before the next delivery
	opening                 bool  // a worker is getting a slot
	cancelled               atomic.Bool
}

// newStream begins at a position that checkPosition has accepted. The end of an epoch becomes the beginning of the
// next, and its ErrEnd is still to be returned.
func newStream(o *order.Order, r *Recipe, submitted bool, epoch, position int64) *stream {
	s := &stream{order: o, recipe: r, submitted: submitted, epoch: epoch, position: position}
	if !submitted {
		s.epoch, s.position, s.ends = normalise(o, epoch, position)
	}
	s.planEpoch, s.planPosition = s.epoch, s.position
	// In an epoch without steps nothing is ever planned: Next only counts its ends.
	if !s.hollow() && !submitted {
		s.claiming.Store(s.plan())
	}
	return s
}

// hollow is true if every epoch ends without a batch.
func (s *stream) hollow() bool { return !s.submitted && s.order.Steps() == 0 }

// normalise gives the end of an epoch and the beginning of the next one the same position; ends is the number of
// ErrEnds that are still to be returned.
func normalise(o *order.Order, epoch, position int64) (e, p int64, ends int) {
	if o.Steps() > 0 && o.Ended(position) {
		return epoch + 1, 0, 1
	}
	return epoch, position, 0
}

// plan appends the next draft; it returns nil if the caller has submitted no more.
func (s *stream) plan() *draft {
	var d *draft
	switch {
	case !s.submitted:
		first, count, next := s.order.Batch(s.planPosition)
		d = newDraft(s, s.planEpoch, s.order.Step(s.planPosition), first, count)
		whole := s.order.StepAt(s.planPosition)
		d.mix(whole, first-whole.Begin)
		d.begin, d.after = s.planPosition, next
		s.planEpoch, s.planPosition, d.ends = normalise(s.order, s.planEpoch, next)
	case len(s.waiting) > 0:
		d = s.waiting[0]
		s.waiting[0] = nil // the array outlives the slice
		s.waiting = s.waiting[1:]
	default:
		return nil
	}
	s.drafts = append(s.drafts, d)
	return d
}

// advance goes on to the next draft when the present one has no sample left to hand out.
// It plans that draft if fewer than `most` are under way.
func (s *stream) advance(most int) bool {
	d := s.claiming.Load()
	if d == nil || d.claimed.Load() < d.tasks {
		return false
	}
	next := d.next
	if next == nil {
		if len(s.drafts) >= most {
			return false
		}
		if next = s.plan(); next == nil {
			return false
		}
		d.next = next
	}
	s.claiming.Store(next)
	return true
}

// unopened returns the draft to open next: the first one without a slot, but not before its samples are being handed
// out, because the first batch should not wait for the memory of the second.
func (s *stream) unopened(window int) *draft {
	if s.opening || s.opened >= min(window, len(s.drafts)) {
		return nil
	}
	d, claiming := s.drafts[s.opened], s.claiming.Load()
	if d.epoch > claiming.epoch || (d.epoch == claiming.epoch && d.step > claiming.step) {
		return nil
	}
	return d
}

// wanting is true if all submitted batches are in work or complete, so that the caller must submit more.
func (s *stream) wanting() bool {
	return s.submitted && len(s.waiting) == 0 && s.opened == len(s.drafts)
}

// incomplete is true if an open batch still lacks samples.
func (s *stream) incomplete() bool {
	for _, d := range s.drafts[:s.opened] {
		if !d.done {
			return true
		}
	}
	return false
}

// head returns the next draft to deliver if it is complete.
func (s *stream) head() *draft {
	if len(s.drafts) > 0 && s.drafts[0].done {
		return s.drafts[0]
	}
	return nil
}

// pop removes the head.
func (s *stream) pop() *draft {
	d := s.drafts[0]
	s.drafts[0] = nil // the array outlives the slice, and would keep the draft
	s.drafts = s.drafts[1:]
	s.opened--
	s.epoch, s.position, s.ends = d.epoch, d.after, d.ends
	if d.ends > 0 {
		s.epoch, s.position = d.epoch+int64(d.ends), 0
	}
	if s.submitted {
		s.held -= d.count
	}
	return d
}
