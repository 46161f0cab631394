package order

// Step is a step of all ranks: its positions are divided into the batches of the ranks.
type Step struct {
	Begin, Total int64 // its first position, and how many it has, padding included
}

// StepAt returns the step that begins at a position of an epoch.
func (o *Order) StepAt(position int64) Step {
	_, _, next := o.Batch(position)
	total := next - position
	if world := o.config.WorldSize; o.config.Pad && total < o.global {
		total = (total + world - 1) / world * world
	}
	return Step{position, total}
}

// Pairing says which rows of a step are mixed with each other. It depends only on the rows' numbers, so it is the same
// for any number of ranks. It pairs neighbours: a rank's part of a step is contiguous, so all partners except those at
// its two ends are on the same rank.
type Pairing int

const (
	// Before: each row with the row before it, the first with the last, like torch's roll by one.
	Before Pairing = iota
	// Neighbours: the first two rows with each other, the next two, and so on. A single last row is its own partner.
	// Two rows are each other's partners, as in torch's flip.
	Neighbours
)

// Partner returns the row from which a row of a step of `total` takes.
func (p Pairing) Partner(row, total int64) int64 {
	if p == Before {
		return (row + total - 1) % total
	}
	if other := row ^ 1; other < total {
		return other
	}
	return row
}

// Taker returns the row that takes from a row; it is the inverse of Partner.
func (p Pairing) Taker(row, total int64) int64 {
	if p == Before {
		return (row + 1) % total
	}
	return p.Partner(row, total)
}

// Foreign lists the partners of rows [first, first+count) that are not among these rows: at most one for Before, two
// for Neighbours.
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
