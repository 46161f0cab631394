package blocks

import (
	"container/list"
	"errors"
	"fmt"
	"sync"

	"github.com/headrace/headrace/internal/headroom"
)

// Block is a compressed stretch of a container. There may be several containers, which have numbers.
type Block struct {
	Container uint32
	Offset    int64
	Stored    uint32 // bytes in the container
	Size      uint32 // bytes once it is decoded
	Codec     uint8
}

// Cache keeps the decoded blocks that were used last, for all threads of a loader or a job. If several threads ask for a
// block at once, it is decoded once.
type Cache struct {
	mu      sync.Mutex
	changed sync.Cond
	entries map[Block]*entry
	recent  *list.List // of *entry, the last used one in front
	used    int64      // bytes of all entries that have memory
	limits  Limits
	decoded int64
	spare   []byte // memory of the block that was dropped last, for the next one
}

type entry struct {
	block Block
	data  []byte
	err   error
	ready bool  // decoded, or failed
	users int   // threads that copy from it or wait for it; it is not dropped meanwhile
	bytes int64 // of its memory, which may be larger than the block
	place *list.Element
}

// NewCache returns a cache that keeps at most as many bytes as the limits say. It keeps at least one block, however
// large that is.
func NewCache(limits Limits) *Cache {
	c := &Cache{entries: make(map[Block]*entry), recent: list.New(), limits: limits.complete()}
	c.changed.L = &c.mu
	return c
}

// Copy fills to with the bytes of a block, beginning at from. fetch reads the stored block; the memory that it returns
// may be reused once Copy has returned.
func (c *Cache) Copy(to []byte, from int64, b Block, fetch func() ([]byte, error)) error {
	if b.Codec == Fill {
		paint(to, byte(b.Offset))
		return nil
	}
	if !Known(b.Codec) || b.Size > MostBytes || b.Stored > MostBytes || from < 0 || from > int64(b.Size)-int64(len(to)) {
		return fmt.Errorf("%d bytes at %d of a block of codec %d, %d bytes stored and %d decoded", len(to), from, b.Codec, b.Stored, b.Size)
	}
	if err := c.limits.check(b); err != nil {
		return err
	}
	// The block is not kept, because a cache would only copy the parts as well.
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
	if from == 0 && len(to) == int(b.Size) { // the block holds nothing else, so nobody else will need it soon
		return c.whole(to, b, fetch)
	}
	return c.copied(to, from, b, func(room []byte) ([]byte, error) { return decoded(b, room, fetch) })
}

// Prepare decodes a block before a sample of it is asked for, if it is not cached yet, and returns whether it did. A
// block that another thread is decoding is left to that thread. An error is left to the caller that asks for the
// sample.
func (c *Cache) Prepare(b Block, fetch func() ([]byte, error)) bool {
	if !Known(b.Codec) || Interrupted(b.Codec) || b.Size > MostBytes || c.limits.check(b) != nil {
		return false
	}
	c.mu.Lock()
	// The block is here, or another thread is decoding it.
	if c.entries[b] != nil {
		c.mu.Unlock()
		return false
	}
	for c.used > 0 && c.used+int64(b.Size) > c.limits.Cached {
		if !c.drop() {
			c.mu.Unlock()
			return false
		}
	}
	c.mu.Unlock()
	_ = c.copied(nil, 0, b, func(room []byte) ([]byte, error) { return decoded(b, room, fetch) })
	return true
}

// copied fills to from a block that is kept. If the block is not kept, make decodes it into room, or into new memory if
// room is nil.
func (c *Cache) copied(to []byte, from int64, b Block, make func(room []byte) ([]byte, error)) error {
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

// whole decodes a block that has one sample directly into the sample's memory. The block is not kept.
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

// Forget drops a block whose bytes turned out to be wrong. Threads that copy out of it are not disturbed.
func (c *Cache) Forget(b Block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[b]; e != nil && e.ready {
		c.forget(e)
		c.changed.Broadcast() // a thread may be waiting for room
	}
}

// Decoded returns how many blocks were decoded so far.
func (c *Cache) Decoded() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.decoded
}

// take returns a block with its bytes or its error, and counts it as in use.
func (c *Cache) take(b Block, make func(room []byte) ([]byte, error)) *entry {
	c.mu.Lock()
	// The map is read again after each wait, because an entry that failed is forgotten, and another one may have taken
	// its place.
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
		e.users-- // an error names the sample that met it, so each thread tries by itself
	}
	e := &entry{block: b, users: 1}
	e.place = c.recent.PushFront(e)
	c.entries[b] = e
	// No thread waits here for ever: a thread that waits here holds no block, and one that holds a block only copies
	// from it and lets it go.
	for c.used > 0 && c.used+int64(b.Size) > c.limits.Cached {
		if !c.drop() {
			c.changed.Wait()
		}
	}
	room := c.roomFor(int64(b.Size))
	// The size is that of the memory, not that of the block: reused memory may be larger.
	e.bytes = max(int64(b.Size), int64(cap(room)))
	c.used += e.bytes
	c.mu.Unlock()

	// If make panics, the panic goes on to the caller, who then has no entry. Other threads must not wait for it.
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
	data, err = make(room)
	returned = true
	return e
}

// decoded decodes a block into room, or into new memory if room is nil.
func decoded(b Block, room []byte, fetch func() ([]byte, error)) ([]byte, error) {
	if room == nil {
		if short := headroom.Memory(int64(b.Size)); short != nil {
			return nil, short
		}
	}
	stored, err := fetch()
	if err != nil {
		return nil, err
	}
	if room == nil {
		room = make([]byte, b.Size)
	}
	data := room[:b.Size]
	if err := Decode(b.Codec, data, stored); err != nil {
		return nil, &MalformedError{err}
	}
	return data, nil
}

// MalformedError says that a block is not what its container states.
type MalformedError struct{ Err error }

func (e *MalformedError) Error() string { return e.Err.Error() }
func (e *MalformedError) Unwrap() error { return e.Err }

// drop gives up the block that was used longest ago and is not in use. The lock is held. The block's memory is kept for
// the next one, because returning pages to the system and getting them back costs as much as decoding.
func (c *Cache) drop() bool {
	for at := c.recent.Back(); at != nil; at = at.Prev() {
		if e := at.Value.(*entry); e.ready && e.users == 0 {
			c.forget(e)
			if e.data != nil && cap(e.data) >= leastReused {
				c.spare = e.data[:0]
			}
			return true
		}
	}
	return false
}

// leastReused is the least memory worth keeping: the heap has smaller pieces anyway.
const leastReused = 1 << 20

// roomFor returns the memory of the block that was dropped last, if the wanted size fills most of it; otherwise nil.
func (c *Cache) roomFor(size int64) []byte {
	room := c.spare
	c.spare = nil
	// The memory may be larger by a quarter at most. Otherwise a cache of small blocks would hold memory of large ones.
	if held := int64(cap(room)); held < size || held-size > held/4 || c.used+held > c.limits.Cached {
		return nil
	}
	return room
}

func (c *Cache) forget(e *entry) {
	delete(c.entries, e.block)
	c.recent.Remove(e.place)
	c.used -= e.bytes
}
