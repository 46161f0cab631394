package order

import (
	"fmt"
	"math"
)

// maxSamples keeps every product of a position and the network's domain inside 64 bits.
const maxSamples = 1 << 62

// Config describes the order of one loader on one rank.
type Config struct {
	Seed      uint64
	Samples   int64 // in the data set
	Shuffle   bool  // false: position p is sample p in every epoch
	BatchSize int64 // samples a batch, on one rank
	DropLast  bool  // leave out the last, partial step
	Rank      int64
	WorldSize int64 // 0 is taken as 1
	Streams   int64 // independent readers the order is made for; 0 is taken as 1, the only one yet
}

// Order is immutable.
type Order struct {
	config Config
	global int64 // samples a step, over all ranks
	full   int64 // steps in which every rank gets a whole batch
	tail   int64 // samples of the step after them
}

// New checks the configuration; its errors name the field that is impossible.
func New(c Config) (*Order, error) {
	c.WorldSize, c.Streams = max(c.WorldSize, 1), max(c.Streams, 1)
	switch {
	case c.Samples < 0 || c.Samples > maxSamples:
		return nil, fmt.Errorf("the dataset has %d samples (expected 0 to 2^62)", c.Samples)
	case c.BatchSize < 1:
		return nil, fmt.Errorf("batch_size is %d (expected at least 1)", c.BatchSize)
	case c.Rank < 0 || c.Rank >= c.WorldSize:
		return nil, fmt.Errorf("rank is %d (expected 0 to %d, less than world_size)", c.Rank, c.WorldSize-1)
	case c.BatchSize > math.MaxInt64/c.WorldSize:
		return nil, fmt.Errorf("batch_size is %d (expected at most %d with a world_size of %d)", c.BatchSize, math.MaxInt64/c.WorldSize, c.WorldSize)
	case c.Streams != 1:
		return nil, fmt.Errorf("streams is %d (expected 1)", c.Streams)
	}
	global := c.BatchSize * c.WorldSize
	return &Order{config: c, global: global, full: c.Samples / global, tail: c.Samples % global}, nil
}

// Config is what the order was made from, with its defaults filled in.
func (o *Order) Config() Config { return o.config }

// Steps is the number of batches in an epoch, equal on all ranks: ranks that train together
// stop together, so a rank may have an empty batch in the last step.
func (o *Order) Steps() int64 {
	if o.tail > 0 && !o.config.DropLast {
		return o.full + 1
	}
	return o.full
}

// Batch says which global positions are this rank's part of a step: [first, first+count). The
// samples of a partial last step are split as evenly as they can be, lower ranks first.
func (o *Order) Batch(step int64) (first, count int64) {
	rank := o.config.Rank
	if step < o.full {
		return step*o.global + rank*o.config.BatchSize, o.config.BatchSize
	}
	share, extra := o.tail/o.config.WorldSize, o.tail%o.config.WorldSize
	first = o.full*o.global + rank*share + min(rank, extra)
	if rank < extra {
		share++
	}
	return first, share
}

// At is the sample at a global position of an epoch. Like an index outside a slice, a position
// outside [0, Samples) panics.
func (o *Order) At(epoch, position int64) int64 {
	o.check("position", position)
	if !o.config.Shuffle {
		return position
	}
	p := o.shuffle(epoch)
	return int64(p.at(uint64(position)))
}

// Position is the inverse of At: where in an epoch a sample comes.
func (o *Order) Position(epoch, sample int64) int64 {
	o.check("sample", sample)
	if !o.config.Shuffle {
		return sample
	}
	p := o.shuffle(epoch)
	return int64(p.inverse(uint64(sample)))
}

// Substitute is another sample to deliver in the place of a faulty one. Attempts 0, 1, ... of
// one sample give different samples until all others were named, scattered over the data set
// because faults come in neighbours (a damaged shard). A set of one has no other: -1.
func (o *Order) Substitute(epoch, sample, attempt int64) int64 {
	o.check("sample", sample)
	others := o.config.Samples - 1
	if others < 1 {
		return -1
	}
	p := newPermutation(uint64(others), substituteKey, o.config.Seed, uint64(epoch), uint64(sample))
	substitute := int64(p.at(uint64(attempt) % uint64(others)))
	if substitute >= sample { // [0, others) without a gap, mapped around the faulty sample
		substitute++
	}
	return substitute
}

// What a permutation is for is the first word of its key, so that no two uses share one.
const (
	shuffleKey    = 1
	substituteKey = 2
)

func (o *Order) shuffle(epoch int64) permutation {
	c := &o.config
	return newPermutation(uint64(c.Samples), shuffleKey, c.Seed, uint64(epoch), uint64(c.Streams))
}

func (o *Order) check(what string, value int64) {
	if uint64(value) >= uint64(o.config.Samples) {
		panic(fmt.Sprintf("the order has no %s %d of %d", what, value, o.config.Samples))
	}
}
