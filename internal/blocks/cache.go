package blocks

import (
	"container/list"
	"errors"
	"fmt"
	"sync"

	"github.com/headrace/headrace/internal/headroom"
)

// Block is a compressed stretch of a container: of one of several, by its number.
type Block struct {
	Container uint32
	Offset    int64
	Stored    uint32 // bytes in the container
	Size      uint32 // bytes once it is decoded
	Codec     uint8
}

// Cache keeps decoded blocks, those that were used last, for all threads of a loader or a job. A block that
// several ask for at once is decoded once.
type Cache struct {
	mu      sync.Mutex
	changed sync.Cond
	entries map[Block]*entry
	recent  *list.List // of *entry, the last used in front
	used    int64      // bytes of all entries that have memory
	most    int64
	decoded int64
}

type entry struct {
	block Block
	data  []byte
	err   error
	ready bool // decoded, or failed
	users int  // that must not lose it
	place *list.Element
}

// MostCached bounds the decoded blocks that a loader or a job keeps.
const MostCached = 512 << 20

// NewCache keeps at most so many bytes, and at least one block however large it may be.
func NewCache(most int64) *Cache {
	c := &Cache{entries: make(map[Block]*entry), recent: list.New(), most: most}
	c.changed.L = &c.mu
	return c
}

// Copy fills to with the bytes of a block from byte from on. fetch reads the block as it is stored; what it
// returns may be used again when Copy is back.
func (c *Cache) Copy(to []byte, from int64, b Block, fetch func() ([]byte, error)) error {
	if b.Codec == Fill {
		paint(to, byte(b.Offset))
		return nil
	}
	if !Known(b.Codec) || b.Size > MostBytes || b.Stored > MostBytes || from < 0 || from > int64(b.Size)-int64(len(to)) {
		return fmt.Errorf("%d bytes at %d of a block of codec %d, %d bytes stored and %d decoded", len(to), from, b.Codec, b.Stored, b.Size)
	}
	if Interrupted(b.Codec) {
		stored, err := fetch()
		if err != nil {
			return err
		}
		if err := join(b.Codec, to, from, int64(b.Size), stored); err != nil {
			return &MalformedError{err}
		}
		return nil
	}
	if from == 0 && len(to) == int(b.Size) { // nothing else is in it, so nobody else will ask for it soon
		return c.whole(to, b, fetch)
	}
	return c.copied(to, from, b, func() ([]byte, error) { return decoded(b, fetch) })
}

// copied fills to out of a block that is kept, or that make makes.
func (c *Cache) copied(to []byte, from int64, b Block, make func() ([]byte, error)) error {
	e := c.take(b, make)
	if e.err == nil {
		copy(to, e.data[from:])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e.users--
	c.changed.Broadcast()
	return e.err
}

// whole decodes a block of one sample to where that goes. It is not kept.
func (c *Cache) whole(to []byte, b Block, fetch func() ([]byte, error)) error {
	stored, err := fetch()
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.decoded++
	c.mu.Unlock()
	if err := Decode(b.Codec, to, stored); err != nil {
		return &MalformedError{err}
	}
	return nil
}

// Decoded is how many blocks were decoded so far.
func (c *Cache) Decoded() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.decoded
}

// take returns a block with its bytes or its error, counted as in use.
func (c *Cache) take(b Block, make func() ([]byte, error)) *entry {
	c.mu.Lock()
	for e := c.entries[b]; e != nil; e = c.entries[b] {
		e.users++
		c.recent.MoveToFront(e.place)
		for !e.ready {
			c.changed.Wait()
		}
		if e.err == nil {
			c.mu.Unlock()
			return e
		}
		e.users-- // an error names whoever met it, so everybody tries it himself
	}
	e := &entry{block: b, users: 1}
	e.place = c.recent.PushFront(e)
	c.entries[b] = e
	size := int64(b.Size)
	// Whoever waits here holds no memory, and whoever has some needs nothing else to be done with it.
	for c.used > 0 && c.used+size > c.most {
		if !c.drop() {
			c.changed.Wait()
		}
	}
	c.used += size
	c.mu.Unlock()

	// A panic of make goes on to the caller, who has no entry then; others must not wait for it.
	err := errors.New("reading the block ended in a panic")
	var data []byte
	returned := false
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		e.data, e.err, e.ready = data, err, true
		c.decoded++
		if err != nil {
			c.forget(e)
		}
		if !returned {
			e.users--
		}
		c.changed.Broadcast()
	}()
	data, err = make()
	returned = true
	return e
}

func decoded(b Block, fetch func() ([]byte, error)) ([]byte, error) {
	if short := headroom.Memory(int64(b.Size)); short != nil {
		return nil, short
	}
	stored, err := fetch()
	if err != nil {
		return nil, err
	}
	data := make([]byte, b.Size)
	if err := Decode(b.Codec, data, stored); err != nil {
		return nil, &MalformedError{err}
	}
	return data, nil
}

// MalformedError says that a block is not what its container says.
type MalformedError struct{ Err error }

func (e *MalformedError) Error() string { return e.Err.Error() }
func (e *MalformedError) Unwrap() error { return e.Err }

// drop gives up the block that was used longest ago and is not in use, with the lock held.
func (c *Cache) drop() bool {
	for at := c.recent.Back(); at != nil; at = at.Prev() {
		if e := at.Value.(*entry); e.ready && e.users == 0 {
			c.forget(e)
			return true
		}
	}
	return false
}

func (c *Cache) forget(e *entry) {
	delete(c.entries, e.block)
	c.recent.Remove(e.place)
	c.used -= int64(e.block.Size)
}
