package pipeline

import "github.com/headrace/headrace/pinned"

// open gives a draft its slot; the caller holds the lock. Getting the memory may take milliseconds, so the lock is
// released meanwhile.
func (l *Loader) open(d *draft) {
	s := d.stream
	s.opened++
	s.opening, d.opening = true, true
	room, err := l.roomFor(d.count)
	var slot *pinned.Slot
	l.mu.Unlock()
	if err == nil {
		slot, err = room.acquire(d)
	}
	l.mu.Lock()
	s.opening = false
	if err != nil {
		d.fail(-1, err)
		// Nobody can work on this draft. Records that readers hold come back by themselves.
		d.refused = true
		l.finish(d, d.revoke()+l.forget(d))
	} else {
		// open is stored last, so that a worker that sees it set sees the slot too.
		d.room, d.layout, d.slot, d.base = room, &room.layouts[d.phase], slot, slot.Pointer()
		d.open.Store(true)
		for _, r := range d.early {
			l.ahead.hand(r)
		}
		d.early = nil
	}
	if l.idle > 0 {
		l.work.Broadcast()
	}
	l.finish(d, 1)
}

// cancel ends a stream; the caller holds the lock. Workers finish what they are doing.
func (l *Loader) cancel(s *stream) {
	s.cancelled.Store(true)
	s.waiting = nil // nobody has begun these
	for _, d := range s.drafts {
		left := d.revoke() + l.forget(d)
		if !d.opening {
			left++ // nobody will open it
		}
		if d.done {
			_ = d.abandon()
			continue
		}
		l.finish(d, left)
	}
	l.ahead.drop(s)
}

// forget drops what was read ahead for a draft, and returns the number of those samples, which must be finished. The
// caller holds the lock.
func (l *Loader) forget(d *draft) int64 {
	n := len(d.early)
	for _, r := range d.early {
		l.ahead.recycle(r)
	}
	d.early = nil
	return int64(n)
}

// finished is finish for a worker, which does not hold the lock. It needs the lock only for the last sample of a batch.
func (l *Loader) finished(d *draft) {
	if d.remaining.Add(-1) == 0 {
		l.mu.Lock()
		l.completed(d)
		l.mu.Unlock()
	}
}

// finishedRun is finished for n samples of a draft.
func (l *Loader) finishedRun(d *draft, n int64) {
	if d.remaining.Add(-n) == 0 {
		l.mu.Lock()
		l.completed(d)
		l.mu.Unlock()
	}
}

// finish counts n samples as finished; the caller holds the lock.
func (l *Loader) finish(d *draft, n int64) {
	if n > 0 && d.remaining.Add(-n) == 0 {
		l.completed(d)
	}
}

// completed ends a draft that nobody works on any more; the caller holds the lock.
func (l *Loader) completed(d *draft) {
	d.done = true
	d.mixture.drop()
	switch {
	case d.stream.cancelled.Load() || d.fault != nil:
		_ = d.abandon()
	default:
		if err := d.slot.Ready(); err != nil {
			d.fail(-1, err)
		}
	}
	// Only the head of the stream concerns the consumer; a later batch that is complete waits for it.
	if d.stream == l.stream && l.stream.head() == d {
		l.notify()
	}
	if !l.reserved && !l.closing && d.slot != nil {
		// The first batch is made now, so making the other slots may use the memory's bandwidth.
		l.reserved = true
		l.group.Go(l.reserve)
	}
}

// abandon returns the slot of a draft that will not be delivered.
func (d *draft) abandon() error {
	if d.slot == nil {
		return nil
	}
	slot := d.slot
	d.slot = nil
	return slot.Abandon()
}

// reserve makes the memory of the usual slots in the background. A shortage is no error yet: it is reported when a slot
// is needed and cannot be had.
func (l *Loader) reserve() { _ = l.pool.Reserve(l.config.slots()) }
