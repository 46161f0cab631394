package parts

// The blocks of the file with all bytes. The blocks of an entry form a list, as in a file system's cluster table:
// c.blocks[b] is the block after b. The free blocks form a list as well.

// blocksOf returns how many blocks so many bytes take.
func (c *Cache) blocksOf(length int64) int64 {
	size := int64(c.head.blockBytes)
	return (length + size - 1) / size
}

// roomForBlocks returns how many blocks may be taken now.
func (c *Cache) roomForBlocks() int64 {
	return int64(c.head.freeBlocks) + max(0, c.limit.blocks-int64(c.head.blockTop))
}

// takeBlocks gives an entry the blocks for its length; roomForBlocks must have so many. It returns false if the disk
// has no room for the table.
func (c *Cache) takeBlocks(e *entry) bool {
	at := &e.first
	for range c.blocksOf(int64(e.length)) {
		b := c.head.freeBlock
		if b != none {
			c.head.freeBlock = c.blocks[b]
			c.head.freeBlocks--
		} else {
			// The file grows only if no block is free.
			b = uint32(c.head.blockTop)
			if err := c.blockTable.grow(int64(b+1) * 4); err != nil {
				c.takesNoMore(err)
				*at = none
				return false
			}
			c.head.blockTop++
		}
		*at = b
		at = &c.blocks[b]
		*at = none
	}
	return true
}

// giveBlocks puts an entry's blocks before the free ones in their order, so that neighbours stay neighbours.
func (c *Cache) giveBlocks(e *entry) {
	last, count := none, uint64(0)
	// The count ends a damaged list that forms a ring.
	for b := e.first; b != none && count <= c.head.blockTop; b = c.blocks[b] {
		last = b
		count++
	}
	if last != none {
		c.blocks[last], c.head.freeBlock = c.head.freeBlock, e.first
		c.head.freeBlocks += count
	}
	e.first = none
}

// span is a part of the file with all bytes.
type span struct{ at, length int64 }

// spans returns where an entry's bytes lie; nil if its blocks cannot be right.
func (c *Cache) spans(e *entry) []span {
	size, left := int64(c.head.blockBytes), int64(e.length)
	var list []span
	for b := e.first; left > 0; b = c.blocks[b] {
		if b == none || uint64(b) >= c.head.blockTop {
			return nil
		}
		at, length := int64(b)*size, min(size, left)
		// Blocks that were taken together usually lie together, and are read at once.
		if n := len(list); n > 0 && list[n-1].at+list[n-1].length == at {
			list[n-1].length += length
		} else {
			list = append(list, span{at, length})
		}
		left -= length
	}
	return list
}
