package pipeline

import "github.com/headrace/headrace/pinned"

// room is where batches up to a size are written: their layout in each phase, and slots for the
// largest.
type room struct {
	layouts []Layout
	pool    *pinned.Pool
}

// newRoom makes a room; no memory is allocated yet.
func newRoom(c *Config, batchSize int64) (*room, error) {
	layouts, err := newLayouts(&c.Recipe, c.Labels, batchSize)
	if err != nil {
		return nil, err
	}
	pool, err := pinned.NewPool(pinned.Options{SlotBytes: layouts[0].SlotBytes, Keep: c.slots(), NoMemfd: c.NoMemfd})
	if err != nil {
		return nil, err
	}
	return &room{layouts, pool}, nil
}

// most is the largest batch that fits.
func (r *room) most() int64 { return r.layouts[0].BatchSize }

// roomFor is where a batch of so many samples fits, with the lock held. Batches longer than the
// usual size share a room that is made anew when one of them is too long for it too, so that a
// caller whose batches differ in length reuses memory as well.
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
		l.long.pool.Close() // what is in use stays until it is released
	}
	l.long = longer
	return longer, nil
}
