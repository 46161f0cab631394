package pipeline

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/headrace/headrace/pinned"
)

// Batch is held by the consumer until Release; until then nobody writes to it.
type Batch struct {
	Slot        *pinned.Slot
	Epoch, Step int64
	Length      int64 // samples; on one rank of several the last batch may have none
	Replaced    int32 // samples that are substitutes
	Phase       int   // of the recipe; batches of one phase and length have their fields alike
	loader      *Loader
	layout      *Layout
	released    atomic.Bool
}

// Images is where the first view of the first sample lies.
func (b *Batch) Images() unsafe.Pointer { return b.Slot.Pointer() }

// Layout says where the batch's fields lie: as in every batch of its phase, unless it is a longer
// one that was submitted.
func (b *Batch) Layout() Layout { return *b.layout }

// Labels are those of the samples in the slot, valid until Release.
func (b *Batch) Labels() []int64 {
	return int64s(b.Slot.Pointer(), b.layout.labelsOffset(), b.Length)
}

// Indices say which sample of the dataset each is: that of the substitute where one was taken.
func (b *Batch) Indices() []int64 {
	return int64s(b.Slot.Pointer(), b.layout.indicesOffset(), b.Length)
}

// Release gives the memory back, also after the Loader was closed. Again is harmless.
func (b *Batch) Release() error {
	if b.released.Swap(true) {
		return nil
	}
	return b.Slot.Release()
}

// Next waits at most timeout for the next batch in order; 0 only looks. Its errors are ErrEnd,
// ErrTimeout, ErrClosed, and whatever made the batch fail, which is returned again by every
// further call until SeekTo.
func (l *Loader) Next(timeout time.Duration) (*Batch, error) {
	began := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stalls.begin(began) // the wait for the lock is part of the stall
	var timer *time.Timer
	for {
		if batch, err := l.take(); batch != nil || err != nil {
			return batch, err
		}
		if timeout <= 0 {
			return nil, ErrTimeout
		}
		if timer == nil {
			timer = time.NewTimer(timeout)
			defer timer.Stop()
		}
		l.mu.Unlock()
		// Closing has a channel of its own: it concerns all waiters, the token only one.
		late := false
		select {
		case <-l.ready:
		case <-l.closed:
		case <-timer.C:
			late = true
		}
		l.mu.Lock()
		if late {
			timeout = 0 // a last look
		}
	}
}

// take is one look, with the lock held: nil and nil when nothing is ready.
func (l *Loader) take() (*Batch, error) {
	s := l.stream
	switch {
	case l.closing:
		return nil, ErrClosed
	case s.hollow():
		s.epoch++
		return nil, ErrEnd
	case s.ends > 0:
		s.ends--
		l.notify()
		return nil, ErrEnd
	}
	d := s.head()
	if d == nil {
		return nil, nil
	}
	// A slot that cannot be held is a mistake of ours; kept as the batch's fault, it stays one.
	if d.fault == nil {
		d.fault = d.slot.Hold()
	}
	if d.fault != nil {
		return nil, d.fault
	}
	// The report is of what was delivered: what was prefetched and dropped never happened.
	s.pop()
	if l.chosen == nil {
		l.kept.At(l.uses.at(s.epoch, s.position))
	} else {
		l.kept.At(l.chosen.delivered(d.count))
	}
	l.points.delivered()
	replaced := l.report.add(d)
	if l.idle > 0 {
		l.work.Signal() // the window has moved; whoever wakes opens the next draft and wakes the rest
	}
	l.ahead.wake()
	l.notify()
	l.stalls.end(d.count)
	return &Batch{Slot: d.slot, Epoch: d.epoch, Step: d.step, Length: d.count, Replaced: replaced,
		loader: l, layout: d.layout, Phase: d.phase}, nil
}

// Position says where the stream stands, as SeekTo takes it: at the next batch to deliver, the first
// of the next epoch after the last of one.
func (l *Loader) Position() (epoch, position int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stream.epoch, l.stream.position
}

// SeekTo says where the next Next goes on: behind so many samples of an epoch, of all ranks
// together. That need not be a multiple of a step: the samples before may have been taken in steps
// of another size. For the position where the stream already stands everything prefetched is kept, of
// the next epoch too; else work begins anew there, and what is in the decoders is dropped when it is
// done. Whatever was submitted is always dropped: the next batch to be submitted is number
// `position` of `epoch`.
func (l *Loader) SeekTo(epoch, position int64) error {
	if err := l.config.checkPosition(epoch, position); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return ErrClosed
	}
	l.stalls.drop()
	s := l.stream
	e, p, ends := normalise(l.order, epoch, position)
	// Seeking to where an error stands is how a caller tries again.
	faulty := len(s.drafts) > 0 && s.drafts[0].fault != nil
	if s.epoch == e && s.position == p && !faulty && !s.submitted {
		s.ends = ends
		l.notify()
		return nil
	}
	l.cancel(s)
	l.move(epoch, position)
	l.work.Broadcast()
	l.ahead.wake()
	l.notify()
	return nil
}

// move makes a stream from a position on the current one.
func (l *Loader) move(epoch, position int64) {
	l.stream = newStream(l.order, &l.config.Recipe, l.config.Submitted, epoch, position)
	l.current.Store(l.stream)
	if l.chosen != nil {
		l.kept.At(l.chosen.drop())
	}
}

// notify tells a waiting Next and whoever polls the descriptor whether Next would answer at once,
// with the lock held.
func (l *Loader) notify() {
	s := l.stream
	ready := l.closing || s.ends > 0 || s.head() != nil || s.hollow()
	// One token is enough for any number of waiters: whoever takes a batch comes by here again,
	// and so passes the token on while there is more to take.
	if ready {
		select {
		case l.ready <- struct{}{}:
		default:
		}
	}
	l.event.set(ready)
}
