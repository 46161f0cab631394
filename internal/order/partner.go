package order

// Step is a step of all ranks: the positions of which each rank's batch is a part.
type Step struct {
	Begin, Total int64 // its first position, and how many it has, padding included
}

// StepAt is the step that begins at a position of an epoch.
func (o *Order) StepAt(position int64) Step {
	_, _, next := o.Batch(position)
	total := next - position
	if world := o.config.WorldSize; o.config.Pad && total < o.global {
		total = (total + world - 1) / world * world
	}
	return Step{position, total}
}

// Pairing says which rows of a step are mixed with each other. It depends on the rows' numbers
// alone, so that it is the same for any number of ranks, and it pairs neighbours: a rank's part of
// a step is contiguous, so all partners but those at its two ends are its own.
type Pairing int

const (
	// Before: each with the row before it, the first with the last; torch's roll by one.
	Before Pairing = iota
	// Neighbours: the first two with each other, the next two, and so on. A last one that is left
	// over is its own partner. This is a pairing that both sides share, as torch's flip is.
	Neighbours
)

// Partner is the row that a row of a step of `total` takes from.
func (p Pairing) Partner(row, total int64) int64 {
	if p == Before {
		return (row + total - 1) % total
	}
	if other := row ^ 1; other < total {
		return other
	}
	return row
}

// Taker is the row that takes from a row: the inverse of Partner.
func (p Pairing) Taker(row, total int64) int64 {
	if p == Before {
		return (row + 1) % total
	}
	return p.Partner(row, total)
}

// Foreign lists the partners of rows [first, first+count) that are not among them: at most one
// for Before, two for Neighbours.
func (p Pairing) Foreign(first, count, total int64) []int64 {
	var found []int64
	if count == 0 {
		return nil
	}
	for _, end := range []int64{first, first + count - 1} {
		if other := p.Partner(end, total); other < first || other >= first+count {
			found = append(found, other)
		}
	}
	if len(found) == 2 && found[0] == found[1] {
		found = found[:1]
	}
	return found
}
