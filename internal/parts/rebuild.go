package parts

// rebuild makes totals and lists again from the entries that can be right. If two entries claim a block, the first one
// gets it. An entry that is wrong nevertheless fails its checksum.
func (c *Cache) rebuild() {
	h := c.head
	h.entryTop, h.blockTop = min(h.entryTop, uint64(len(c.entries))), min(h.blockTop, uint64(len(c.blocks)))
	// Touching memory behind the end of a file that was cut causes a fault.
	if status, err := c.entryTable.file.Stat(); err == nil {
		h.entryTop = min(h.entryTop, uint64(status.Size()/entryBytes))
	}
	if status, err := c.blockTable.file.Stat(); err == nil {
		h.blockTop = min(h.blockTop, uint64(status.Size()/4))
	}
	for i := range c.buckets {
		c.buckets[i] = none
	}
	used := make([]bool, h.blockTop)
	h.freeEntry, h.freeBlock, h.freeBlocks, h.bytes, h.kept = none, none, 0, 0, 0
	for i := range uint32(h.entryTop) {
		e := &c.entries[i]
		// The head's own number may be older than those of entries: when a machine stops, pages reach the disk in any
		// order.
		h.gen = max(h.gen, e.gen.Load()/states)
		if !c.sound(e, used) {
			e.first = none
			// The entry becomes free and keeps its number: a process that remembers it finds another state, and no
			// other process can hold it.
			e.gen.Store(e.gen.Load() / states * states)
			e.chain, h.freeEntry = h.freeEntry, i
			continue
		}
		for b := e.first; b != none; b = c.blocks[b] {
			used[b] = true
		}
		if e.gen.Load()%states == present {
			h.bytes += uint64(e.length)
			h.kept++
		}
		at := c.bucket(&e.key)
		e.chain, *at = *at, i
	}
	// Free blocks are listed from the back, so that those in front are taken first and the file stays short.
	for b := int64(h.blockTop) - 1; b >= 0; b-- {
		if !used[b] {
			c.blocks[b], h.freeBlock = h.freeBlock, uint32(b)
			h.freeBlocks++
		}
	}
	h.busy = 0
}

// sound is true for an entry that can be kept: complete, or claimed by a living process.
func (c *Cache) sound(e *entry, used []bool) bool {
	state := e.gen.Load() % states
	if state != present && (state != claimed || !c.alive(e.owner)) {
		return false
	}
	// The count is bounded by the length, so that a ring ends.
	count, most := int64(0), c.blocksOf(int64(e.length))
	for b := e.first; b != none; b = c.blocks[b] {
		if uint64(b) >= uint64(len(used)) || used[b] || count == most {
			return false
		}
		count++
	}
	return count == most || state == claimed && count == 0
}
