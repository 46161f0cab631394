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
	Samples   int64      // in the dataset
	Selection *Selection // of these samples; nil: every one, once
	Shuffle   bool       // false: position p is entry p of the selection in every epoch
	Window    int64      // with Shuffle: positions that are mixed with one another; 0: all
	Storage   *Storage   // with Window: how samples are stored, which may shrink it; nil: neighbours are read together
	BatchSize int64      // samples a batch, on one rank
	DropLast  bool       // leave out the last, partial step
	Pad       bool       // repeat samples until the last step is equally long on all ranks
	Rank      int64
	WorldSize int64 // 0 is taken as 1
	Streams   int64 // independent readers of the order; 0 is taken as 1, the only number so far
}

// Order is immutable.
type Order struct {
	config Config
	length int64 // positions of an epoch
	domain int64 // of the permutation: fewer than length if samples are repeated
	global int64 // samples a step, over all ranks
	window windows

	stretches *stretches // used instead of window if Storage is known
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
	case c.BatchSize > math.MaxInt64/2/c.WorldSize:
		return nil, fmt.Errorf("batch_size is %d (expected at most %d with a world_size of %d)", c.BatchSize, math.MaxInt64/2/c.WorldSize, c.WorldSize)
	case c.Streams != 1:
		return nil, fmt.Errorf("streams is %d (expected 1)", c.Streams)
	case c.Window < 0:
		return nil, fmt.Errorf("window is %d (expected at least 0, the samples that shuffling mixes)", c.Window)
	case c.Window > 0 && !c.Shuffle:
		return nil, fmt.Errorf("window is %d without shuffle (expected 0)", c.Window)
	case c.Pad && c.DropLast:
		return nil, fmt.Errorf("pad makes the last step whole and drop_last leaves it out (expected one of them)")
	}
	o := &Order{config: c, length: c.Samples, global: c.BatchSize * c.WorldSize}
	if s := c.Selection; s != nil {
		if s.samples != c.Samples {
			return nil, fmt.Errorf("the sampler selects from %d samples (expected %d, as many as the dataset has)", s.samples, c.Samples)
		}
		o.length = s.length
		if s.weighted() && (c.Window > 0 || !c.Shuffle) {
			return nil, fmt.Errorf("a weighted sampler draws from all of its samples (expected shuffle without a window)")
		}
	}
	o.domain = o.length
	if s := c.Selection; s != nil && s.times > 0 {
		o.domain = s.samples
	}
	switch {
	case c.Window > 0 && c.Storage != nil && o.domain > 0:
		if err := checkStorage(c.Storage, c.Samples); err != nil {
			return nil, err
		}
		o.stretches = newStretches(c.Storage, c.Window, o.domain, o.entry)
		o.config.Window = int64(o.stretches.window)
	case c.Window > 0:
		o.window = newWindows(c.Window, o.domain)
	}
	return o, nil
}

// entry returns the sample of an entry of the selection.
func (o *Order) entry(i uint64) int64 {
	if o.config.Selection == nil {
		return int64(i)
	}
	return o.config.Selection.entry(i)
}

// Config returns the configuration of the order, with its defaults filled in.
func (o *Order) Config() Config { return o.config }

// Length returns the number of positions in an epoch, over all ranks and without padding.
func (o *Order) Length() int64 { return o.length }

// At does what Epoch's At does, for one position.
func (o *Order) At(epoch, position int64) (sample int64, draw uint64) {
	e := o.Epoch(epoch)
	return e.At(position)
}

// Position is the inverse of At if every sample comes once: it returns where in an epoch a sample comes.
func (o *Order) Position(epoch, sample int64) int64 {
	o.check("sample", sample, o.config.Samples)
	switch {
	case o.config.Selection != nil:
		panic("a selection has no inverse")
	case o.stretches != nil:
		return int64(o.stretches.inverse(o.windowKey(epoch), uint64(sample)))
	case o.config.Window > 0:
		return int64(o.window.inverse(o.windowKey(epoch), uint64(sample)))
	case o.config.Shuffle:
		p := o.shuffle(epoch)
		return int64(p.inverse(uint64(sample)))
	}
	return sample
}

// Others returns how many substitutes a sample has.
func (o *Order) Others() int64 {
	entries := o.config.Samples
	if s := o.config.Selection; s != nil {
		entries = int64(s.entries())
	}
	return max(0, entries-1)
}

// Substitute returns another sample to deliver in place of a faulty one. Attempts 0, 1, ... for one sample give
// different samples, until all others of the selection were named. They are scattered over the selection, because
// faulty samples are often neighbours (a damaged shard). A dataset of one sample has no other: -1.
func (o *Order) Substitute(epoch, sample, attempt int64) int64 {
	o.check("sample", sample, o.config.Samples)
	if s := o.config.Selection; s != nil {
		return o.substituteOf(s, epoch, sample, attempt)
	}
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

// substituteOf stays within the selection, because a training run must not get samples that were set apart.
func (o *Order) substituteOf(s *Selection, epoch, sample, attempt int64) int64 {
	entries := s.entries()
	if entries < 2 {
		return -1
	}
	p := newPermutation(entries, substituteKey, o.config.Seed, uint64(epoch), uint64(sample))
	last := entries - 1
	substitute := s.entry(p.at(uint64(attempt) % last))
	if substitute == sample { // take the last one, which no attempt reaches
		substitute = s.entry(p.at(last))
	}
	return substitute
}

// The first word of a permutation's key says what it is for, so that no two uses share a key.
const (
	shuffleKey    = 1
	substituteKey = 2
	blockKey      = 3
	windowKey     = 4
	shiftKey      = 5
	drawKey       = 6
	groupKey      = 7
)

func (o *Order) shuffle(epoch int64) permutation {
	return newPermutation(uint64(o.domain), shuffleKey, o.config.Seed, uint64(epoch), uint64(o.config.Streams))
}

func (o *Order) windowKey(epoch int64) epochKey {
	return epochKey{o.config.Seed, uint64(epoch), uint64(o.config.Streams)}
}

func (o *Order) check(what string, value, below int64) {
	if uint64(value) >= uint64(below) {
		panic(fmt.Sprintf("the order has no %s %d of %d", what, value, below))
	}
}
