package pipeline

import (
	"sync"

	"github.com/headrace/headrace/internal/parts"
)

// chosen has the uses of samples that a caller chose, from the next one to deliver to the last one that was submitted.
// Their numbers go on over epochs and seeks, so that a number never means two uses.
type chosen struct {
	mu    sync.Mutex
	begin uint64 // number of the first use
	uses  []use
	ends  map[int64]span // of the samples that have a use in it
}

// use is a sample, and the number of its next use; 0 if there is none.
type use struct {
	sample int64
	next   uint64
}

// span has the first and the last use of a sample.
type span struct{ first, last uint64 }

// newChosen begins at 1, because number 0 means that there is no use.
func newChosen() *chosen { return &chosen{begin: 1, ends: map[int64]span{}} }

// add appends uses and returns the number of the first.
func (c *chosen) add(indices []int64) (first uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first = c.end()
	for _, sample := range indices {
		number := c.end()
		found, ok := c.ends[sample]
		if ok {
			c.uses[found.last-c.begin].next = number
		} else {
			found.first = number
		}
		found.last = number
		c.ends[sample] = found
		c.uses = append(c.uses, use{sample: sample})
	}
	return first
}

// end returns the number of the next use to be submitted; the caller holds the lock.
func (c *chosen) end() uint64 { return c.begin + uint64(len(c.uses)) }

// delivered removes the first uses and returns the number of the one after them.
func (c *chosen) delivered(count int64) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.uses[:count] {
		if one.next == 0 {
			delete(c.ends, one.sample)
		} else {
			c.ends[one.sample] = span{one.next, c.ends[one.sample].last}
		}
	}
	c.uses = c.uses[count:]
	c.begin += uint64(count)
	return c.begin
}

// drop removes all uses, because what was submitted will not be delivered any more.
func (c *chosen) drop() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin, c.uses = c.end(), nil
	clear(c.ends)
	return c.begin
}

// known returns the number after the last use.
func (c *chosen) known() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end()
}

// after returns a sample's first use at or after a number, or says that none is known yet.
func (c *chosen) after(sample int64, number uint64) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.ends[sample]
	if !ok || found.last < number {
		return parts.Unknown | number
	}
	at := found.first
	for at < number {
		at = c.uses[at-c.begin].next
	}
	return at
}
