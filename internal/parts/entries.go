package parts

import "encoding/binary"

// Entries are in lists: that of a bucket, which is found by a key, or that of the free ones. All of this is done while
// the tables are locked.

// bucket returns where the list with a key's entries begins.
func (c *Cache) bucket(k *Key) *uint32 {
	return &c.buckets[binary.LittleEndian.Uint64(k[:])%c.head.buckets]
}

// still returns the entry in which a part was found or claimed; nil if it holds another part by now. Its place may lie
// behind the end of a table that was cut to a smaller bound.
func (c *Cache) still(at uint32, gen uint64) *entry {
	if uint64(at) >= c.head.entryTop {
		return nil
	}
	if e := &c.entries[at]; e.gen.Load() == gen {
		return e
	}
	return nil
}

// find returns a key's entry.
func (c *Cache) find(k *Key) (*entry, uint32) {
	// Only mapped entries count: Peek searches while others make the table longer.
	most := min(c.head.entryTop, uint64(len(c.entries)))
	left := most // a damaged list may be a ring
	// A number behind the last entry ends the list, as none does: the contents of a table are as untrusted as a file.
	for i := *c.bucket(k); uint64(i) < most && left > 0; i, left = c.entries[i].chain, left-1 {
		if e := &c.entries[i]; e.key == *k && e.gen.Load()%states != free {
			return e, i
		}
	}
	return nil, none
}

// turn gives an entry another state.
func (c *Cache) turn(e *entry, state uint64) {
	c.head.gen++
	e.gen.Store(c.head.gen*states + state)
}

// insert makes a claimed entry for a key; nil if there is no room for one.
func (c *Cache) insert(k *Key, owner uint32) (*entry, uint32) {
	i := c.head.freeEntry
	switch {
	case i != none:
		c.head.freeEntry = c.entries[i].chain
	case int64(c.head.entryTop) < c.limit.entries:
		if err := c.entryTable.grow(int64(c.head.entryTop+1) * entryBytes); err != nil {
			c.takesNoMore(err)
			return nil, none
		}
		i = uint32(c.head.entryTop)
		c.head.entryTop++
	default:
		return nil, none
	}
	e := &c.entries[i]
	e.key, e.owner, e.waited, e.first, e.length, e.job = *k, owner, 0, none, 0, 0
	c.turn(e, claimed)
	b := c.bucket(k)
	e.chain, *b = *b, i
	return e, i
}

// remove frees an entry and its blocks.
func (c *Cache) remove(e *entry, i uint32) {
	// A claim is not counted in any total yet.
	if e.gen.Load()%states == present {
		c.head.bytes -= uint64(e.length)
		c.head.kept--
	}
	c.giveBlocks(e)
	c.turn(e, free)
	at := c.bucket(&e.key)
	for left := c.head.entryTop; *at != none && left > 0; left-- {
		if *at == i {
			*at = e.chain
			break
		}
		at = &c.entries[*at].chain
	}
	e.chain, c.head.freeEntry = c.head.freeEntry, i
}
