package pipeline

import (
	"sync"

	"github.com/headrace/headrace/internal/parts"
)

// chosen is the uses of samples that a caller chose, from the one that is delivered next to the last that was
// submitted. They are numbered on over epochs and seeks, so that a number never means two.
type chosen struct {
	mu    sync.Mutex
	begin uint64 // the number of the first
	uses  []use
	ends  map[int64]span // of samples that are among them
}

// use is a sample, and the number of its next use; 0 where there is none.
type use struct {
	sample int64
	next   uint64
}

// span is the first and the last use of a sample.
type span struct{ first, last uint64 }

// A use is never number 0, which says that there is none.
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

// end is the number of the next use to be submitted, with the lock held.
func (c *chosen) end() uint64 { return c.begin + uint64(len(c.uses)) }

// delivered takes the first uses away and returns the number of the one behind them.
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

// drop takes all uses away: what was submitted is not delivered any more.
func (c *chosen) drop() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin, c.uses = c.end(), nil
	clear(c.ends)
	return c.begin
}

// known is the number behind the last use.
func (c *chosen) known() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end()
}

// after is a sample's first use at or behind a number, or that there is none yet.
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
