package pipeline

import (
	"fmt"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/order"
)

const (
	// maxWaiting and maxWaitingSamples limit how many batches, and samples in more than one batch, may be submitted ahead
	// of the consumer. A caller that never calls Next must not fill the memory.
	maxWaiting        = 4096
	maxWaitingSamples = 1 << 24
)

// ErrFull means that as many batches as may wait were submitted; Next makes room.
var ErrFull = fault.New(fault.KindLimit, "too many batches were submitted ahead")

// selection has the samples that a caller chose for a batch.
type selection struct {
	indices []int64
	draws   []uint64 // nil: all 0
}

func (s *selection) at(i int64) (index int64, draw uint64) {
	if s.draws != nil {
		draw = s.draws[i]
	}
	return s.indices[i], draw
}

// Submit appends a batch of these samples, of any number, to a Loader whose batches the caller chooses. draws is nil or
// has a draw number for each index: a sample that comes twice in an epoch is augmented differently if they differ. The
// Loader owns the slices from then on.
func (l *Loader) Submit(indices []int64, draws []uint64) error {
	if draws != nil && len(draws) != len(indices) {
		return fmt.Errorf("%d indices have %d draw numbers", len(indices), len(draws))
	}
	samples := l.config.Dataset.Len()
	for i, index := range indices {
		if index < 0 || index >= samples {
			return fmt.Errorf("index %d, at place %d of the batch, is not in [0, %d), the samples of the dataset", index, i, samples)
		}
	}
	count := int64(len(indices))
	if count > l.most() {
		if _, err := newLayouts(&l.config.Recipe, l.config.Labels, count); err != nil {
			return err
		}
	}
	s, err := l.submitting()
	if err != nil {
		return err
	}
	defer l.mu.Unlock()
	switch ahead := len(s.waiting) + len(s.drafts); {
	case ahead >= maxWaiting:
		return fmt.Errorf("%w: %d wait, of at most %d", ErrFull, ahead, maxWaiting)
	case ahead > 0 && s.held+count > maxWaitingSamples:
		return fmt.Errorf("%w: %d samples wait and %d more were submitted, of at most %d", ErrFull, s.held, count, maxWaitingSamples)
	}
	d := newDraft(s, s.planEpoch, s.planPosition, 0, count)
	d.chosen = &selection{indices, draws}
	if l.chosen != nil {
		d.use = l.chosen.add(indices)
	}
	// A submitted batch is a whole step; its number makes its draws differ from those of other batches.
	d.mix(order.Step{Begin: d.step, Total: count}, 0)
	s.planPosition++
	d.after = s.planPosition
	s.held += count
	s.waiting = append(s.waiting, d)
	if s.claiming.Load() == nil {
		s.claiming.Store(s.plan())
	}
	if l.idle > 0 {
		l.work.Broadcast()
	}
	l.ahead.wake()
	return nil
}

// EndEpoch ends the epoch after the submitted batches: Next returns ErrEnd there, once, and the next batch to be
// submitted is the first of the next epoch.
func (l *Loader) EndEpoch() error {
	s, err := l.submitting()
	if err != nil {
		return err
	}
	defer l.mu.Unlock()
	s.planEpoch, s.planPosition = s.planEpoch+1, 0
	switch {
	case len(s.waiting) > 0:
		s.waiting[len(s.waiting)-1].ends++
	case len(s.drafts) > 0:
		s.drafts[len(s.drafts)-1].ends++
	default: // everything was delivered
		s.ends++
		s.epoch, s.position = s.planEpoch, 0
		l.notify()
	}
	return nil
}

// submitting returns the stream that batches are submitted to. Unless there is an error, the lock is then held.
func (l *Loader) submitting() (*stream, error) {
	if !l.config.Submitted {
		return nil, fmt.Errorf("this loader's order is its own; batches are submitted to one that was opened for it")
	}
	l.mu.Lock()
	if l.closing {
		l.mu.Unlock()
		return nil, ErrClosed
	}
	return l.stream, nil
}
