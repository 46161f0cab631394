package pipeline

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/headrace/headrace/pinned"
)

// Batch belongs to the consumer until Release; until then nobody writes to it.
type Batch struct {
	Slot        *pinned.Slot
	Epoch, Step int64
	Length      int64 // number of samples; with several ranks the last batch may have none
	Replaced    int32 // number of substitutes among them
	Phase       int   // of the recipe; batches of one phase and length have the same layout
	loader      *Loader
	layout      *Layout
	released    atomic.Bool
}

// Images returns the address of the first view of the first sample.
func (b *Batch) Images() unsafe.Pointer { return b.Slot.Pointer() }

// Layout says where the batch's fields are. It is the same in every batch of a phase, except in a longer one that was
// submitted.
func (b *Batch) Layout() Layout { return *b.layout }

// Labels returns the labels of the samples in the slot, valid until Release.
func (b *Batch) Labels() []int64 {
	return int64s(b.Slot.Pointer(), b.layout.labelsOffset(), b.Length)
}

// Indices returns the samples' numbers in the dataset; for a substitute, its own number.
func (b *Batch) Indices() []int64 {
	return int64s(b.Slot.Pointer(), b.layout.indicesOffset(), b.Length)
}

// Release returns the memory, even after the Loader was closed. Calling it again is harmless.
func (b *Batch) Release() error {
	if b.released.Swap(true) {
		return nil
	}
	return b.Slot.Release()
}

// Next waits at most timeout for the next batch in order; with 0 it only looks. Its errors are ErrEnd, ErrTimeout,
// ErrClosed, and the error that made the batch fail, which every further call returns again until SeekTo.
func (l *Loader) Next(timeout time.Duration) (*Batch, error) {
	began := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stalls.begin(began, l.bytesRead) // the wait for the lock is part of the stall
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
		// Closing has its own channel, because it concerns all waiters, and the token only one.
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

// take looks once; the caller holds the lock. It returns nil and nil if nothing is ready.
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
	// A slot that cannot be held is a bug of ours. It becomes the batch's fault, so that it is reported again.
	if d.fault == nil {
		d.fault = d.slot.Hold()
	}
	if d.fault != nil {
		return nil, d.fault
	}
	// Only delivered batches enter the report; what was prefetched and dropped does not.
	s.pop()
	if l.chosen == nil {
		l.kept.At(l.uses.at(s.epoch, s.position))
	} else {
		l.kept.At(l.chosen.delivered(d.count))
	}
	l.points.delivered()
	replaced := l.report.add(d)
	if l.idle > 0 {
		l.work.Signal() // the window has moved; the worker that wakes opens the next draft and wakes the others
	}
	l.ahead.wake()
	l.notify()
	l.stalls.end(d.count)
	return &Batch{Slot: d.slot, Epoch: d.epoch, Step: d.step, Length: d.count, Replaced: replaced,
		loader: l, layout: d.layout, Phase: d.phase}, nil
}

// Position returns where the stream is, in the form of SeekTo: at the next batch to deliver. After the last batch of an
// epoch that is the first of the next one.
func (l *Loader) Position() (epoch, position int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stream.epoch, l.stream.position
}

// SeekTo says where the next Next goes on: after `position` samples of an epoch, counted over all ranks.
// That need not be a multiple of a step, because the samples before may have been taken in steps of another size. If
// the stream is at that position already, everything prefetched is kept, even that of the next epoch. Otherwise work
// begins again there, and what is being decoded is dropped when it is done. Submitted batches are always dropped: the
// next batch to be submitted is number `position` of `epoch`.
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
	// A caller tries again by seeking to the position of the error.
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

// move makes a stream that begins at a position the current one.
func (l *Loader) move(epoch, position int64) {
	l.stream = newStream(l.order, &l.config.Recipe, l.config.Submitted, epoch, position)
	l.current.Store(l.stream)
	if l.chosen != nil {
		l.kept.At(l.chosen.drop())
	}
}

// notify tells a waiting Next, and whoever polls the descriptor, whether Next would answer at once. The caller holds
// the lock.
func (l *Loader) notify() {
	s := l.stream
	ready := l.closing || s.ends > 0 || s.head() != nil || s.hollow()
	// One token is enough for any number of waiters: whoever takes a batch comes here again, and so passes the token on
	// while there is more to take.
	if ready {
		select {
		case l.ready <- struct{}{}:
		default:
		}
	}
	l.event.set(ready)
}
