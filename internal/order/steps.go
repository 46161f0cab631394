package order

// Steps returns the number of batches in an epoch. It is equal on all ranks, because ranks that train together stop
// together. So without padding a rank may have an empty batch in the last step.
func (o *Order) Steps() int64 {
	if o.config.DropLast {
		return o.length / o.global
	}
	return o.length/o.global + min(1, o.length%o.global)
}

// Ended says whether no step begins at this position of an epoch or behind it.
func (o *Order) Ended(position int64) bool {
	left := o.length - position
	return left <= 0 || (o.config.DropLast && left < o.global)
}

// Batch says which positions are this rank's part of the step that begins at a position: [first, first+count), and
// where the next step begins. The samples of an incomplete last step are split as evenly as possible; lower ranks get
// the larger parts. Steps need not begin at multiples of their size: an epoch may have been begun with another world
// size, and continues where that ended.
func (o *Order) Batch(position int64) (first, count, next int64) {
	rank, world := o.config.Rank, o.config.WorldSize
	left := o.length - position
	if left >= o.global {
		return position + rank*o.config.BatchSize, o.config.BatchSize, position + o.global
	}
	if o.config.Pad {
		// This is less than a batch for each rank, because BatchSize*WorldSize is a multiple of WorldSize.
		left = (left + world - 1) / world * world
	}
	each, extra := left/world, left%world
	first = position + rank*each + min(rank, extra)
	if rank < extra {
		each++
	}
	return first, each, o.length
}

// RankOf returns the rank whose part of its step contains a position, which may be a position of padding. The steps
// begin at multiples of their size.
func (o *Order) RankOf(position int64) int64 {
	world, within := o.config.WorldSize, position%o.global
	left := o.length - (position - within)
	if left >= o.global {
		return within / o.config.BatchSize
	}
	if o.config.Pad {
		left = (left + world - 1) / world * world
	}
	each, extra := left/world, left%world
	if large := extra * (each + 1); within >= large {
		return min(extra+(within-large)/max(1, each), world-1)
	}
	return within / (each + 1)
}

// Step returns the number of the step that contains a position.
func (o *Order) Step(position int64) int64 { return position / o.global }
