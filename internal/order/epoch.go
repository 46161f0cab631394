package order

// Epoch is the order of one epoch, for callers that ask for many positions: the keys of its permutation are made only
// once.
type Epoch struct {
	order   *Order
	number  int64
	shuffle permutation // if the whole dataset is mixed
}

// Epoch returns the order of an epoch.
func (o *Order) Epoch(number int64) Epoch {
	e := Epoch{order: o, number: number}
	if o.config.Shuffle && o.config.Window == 0 && o.domain > 0 {
		e.shuffle = o.shuffle(number)
	}
	return e
}

// At returns the sample at a global position of the epoch, and the number of its draw: 0, unless a sample may come
// twice in an epoch. A position outside the epoch panics, like an index outside a slice.
func (e *Epoch) At(position int64) (sample int64, draw uint64) {
	o, s := e.order, e.order.config.Selection
	if s != nil && s.times > 1 {
		draw = uint64(position) // also for padding
	}
	// Padding begins the order again, as torch's DistributedSampler does.
	if position >= o.length && o.config.Pad && o.length > 0 {
		draw, position = uint64(position), position%o.length
	}
	o.check("position", position, o.length)
	place := uint64(position)
	if s != nil && s.weighted() {
		draw = place
	} else if s != nil && s.times > 1 {
		place /= uint64(s.times)
	}
	switch {
	case o.stretches != nil:
		place = o.stretches.at(o.windowKey(e.number), place)
	case o.config.Window > 0:
		place = o.window.at(o.windowKey(e.number), place)
	case o.config.Shuffle:
		place = e.shuffle.at(place)
	}
	if s == nil {
		return int64(place), draw
	}
	return s.at(place, uint64(e.number), o.config.Seed), draw
}
