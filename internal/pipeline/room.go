package pipeline

import "github.com/headrace/headrace/pinned"

// room is where batches up to a size are written: their layout in each phase, and slots for the largest.
type room struct {
	layouts []Layout
	pool    *pinned.Pool
	unmixed *pinned.Pool // where samples wait for each other; nil if none are mixed
}

// newRoom makes a room; it allocates no memory yet.
func newRoom(c *Config, batchSize int64) (*room, error) {
	layouts, err := newLayouts(&c.Recipe, c.Labels, batchSize)
	if err != nil {
		return nil, err
	}
	pool, err := pinned.NewPool(pinned.Options{SlotBytes: layouts[0].SlotBytes, Keep: c.slots()})
	if err != nil {
		return nil, err
	}
	unmixed, err := unmixedPool(c, batchSize)
	if err != nil {
		return nil, err
	}
	return &room{layouts, pool, unmixed}, nil
}

// acquire gets a draft's slot, and its mixture's memory.
func (r *room) acquire(d *draft) (*pinned.Slot, error) {
	slot, err := r.pool.Acquire()
	if err != nil || d.mixture == nil {
		return slot, err
	}
	m := d.mixture
	if m.slot, err = r.unmixed.Acquire(); err != nil {
		_ = slot.Abandon()
		return nil, err
	}
	m.base = m.slot.Pointer()
	return slot, nil
}

// close releases memory that nobody uses; memory in use stays until it is returned.
func (r *room) close() {
	r.pool.Close()
	if r.unmixed != nil {
		r.unmixed.Close()
	}
}

// most is the largest batch that fits.
func (r *room) most() int64 { return r.layouts[0].BatchSize }

// roomFor returns a room in which a batch of so many samples fits; the caller holds the lock. Batches longer than the
// usual size share a room, which is made again if a batch is too long for it too. So a caller whose batches differ in
// length reuses memory as well.
func (l *Loader) roomFor(count int64) (*room, error) {
	switch {
	case count <= l.most():
		return &l.room, nil
	case l.long != nil && count <= l.long.most():
		return l.long, nil
	}
	longer, err := newRoom(&l.config, count)
	if err != nil {
		return nil, err
	}
	if l.long != nil {
		l.long.close()
	}
	l.long = longer
	return longer, nil
}
