package parts

// withBlocks returns a bound's geometry for the block size that a directory has.
func withBlocks(g geometry, blockBytes int64) geometry {
	g.blocks = g.blocks * (g.blockBytes + 4) / (blockBytes + 4)
	g.blockBytes = blockBytes
	return g
}

// reach extends the mappings to what another process has made longer than this one knows. A process with a larger bound
// may do that while this process has the cache open, but has no use of it whose bound would apply.
func (c *Cache) reach() {
	h := c.head
	if h.entryTop <= uint64(len(c.entries)) && h.blockTop <= uint64(len(c.blocks)) {
		return
	}
	c.widen(c.own)
	if h.entryTop > uint64(len(c.entries)) || h.blockTop > uint64(len(c.blocks)) {
		h.busy = 1 // a damaged number: rebuild looks through what is there
	}
}

// widen gives the mappings room for a geometry; it returns false if they stay as they are.
func (c *Cache) widen(g geometry) bool {
	ok := c.entryTable.widen(g.entries*entryBytes) == nil && c.blockTable.widen(4*max(1, g.blocks)) == nil
	c.entries, c.blocks = view[entry](&c.entryTable), view[uint32](&c.blockTable)
	return ok
}

// allow prepares for one more use by this process, whose bound may be larger than those before it.
func (c *Cache) allow(g geometry) {
	c.mu.Lock()
	if g.bound > c.asked.bound {
		// This is only noted: follow makes the mappings longer, and tries again if that is not possible at once.
		c.asked, c.joined = g, ^uint64(0)
	}
	c.mu.Unlock()
	c.with(func() {})
}

// follow finds the smallest bound of all living uses if one of them came or went, and makes the cache that small. A
// process that is killed cannot say so. So while another process's bound applies, follow checks from time to time.
func (c *Cache) follow() {
	c.followed++
	// This runs at every change of the tables, so it has to be cheap if no use came or went.
	if c.joined == c.head.joined && (c.limit.bound >= c.asked.bound || c.followed%64 != 0) {
		return
	}
	c.joined = c.head.joined
	// Earlier there may have been too little address space, or another process had the tables.
	if g := withBlocks(c.asked, int64(c.head.blockBytes)); g.bound > c.own.bound && c.widen(g) {
		c.own = g
	}
	c.findRanks()
	bound := c.own.bound
	// The smallest bound is used, so that a user's bound on the directory is kept whatever others allow.
	for n := range uint32(mostSlots) {
		if s := &c.head.slots[n]; s.bound != 0 && c.alive(n) {
			bound = min(bound, int64(s.bound))
		}
	}
	g := withBlocks(geometryOf(max(bound, LeastBytes)), int64(c.head.blockBytes))
	// The number of buckets does not change.
	g.blocks = max(0, g.blocks-max(0, int64(c.head.buckets)-g.buckets)*4/g.blockBytes)
	g.entries, g.blocks = min(g.entries, int64(len(c.entries))), min(g.blocks, int64(len(c.blocks)))
	c.limit = g
	c.shrink()
	c.entryTable.bound(int64(c.head.entryTop)*entryBytes, g.entries*entryBytes)
	c.blockTable.bound(int64(c.head.blockTop)*4, g.blocks*4)
}

// shrink drops what lies behind the limit, and then what is too much within it.
func (c *Cache) shrink() {
	h := c.head
	if int64(h.entryTop) <= c.limit.entries && int64(h.blockTop) <= c.limit.blocks {
		return
	}
	for i := range uint32(h.entryTop) {
		e := &c.entries[i]
		if e.gen.Load()%states == free {
			continue
		}
		behind := int64(i) >= c.limit.entries
		for b, left := e.first, h.blockTop; b != none && left > 0 && !behind; b, left = c.blocks[b], left-1 {
			behind = int64(b) >= c.limit.blocks
		}
		if behind {
			c.remove(e, i)
		}
	}
	h.entryTop, h.blockTop = min(h.entryTop, uint64(c.limit.entries)), min(h.blockTop, uint64(c.limit.blocks))
	// The lists of free entries and blocks lead behind the new ends.
	c.rebuild()
	h.busy = 1
	_ = c.data.Truncate(int64(h.blockTop * h.blockBytes))
}
