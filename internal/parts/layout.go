package parts

import (
	"sync/atomic"
	"unsafe"
)

const (
	magic = 0x33747261706b6472 // the first word of a head; another version of the tables has another one

	mostSlots = 256
	pageBytes = 4 << 10
	none      = ^uint32(0) // ends a list of blocks or entries
)

// head is the first file: totals, who is there, and where the lists of entries begin.
type head struct {
	magic uint64
	// Set before anything else changes and cleared behind it: a process that is killed in between leaves it set, and
	// nothing is synced, so that is all there is to tell by.
	busy       uint64 // somebody is changing the tables, or ended in the middle
	blockBytes uint64
	buckets    uint64
	stamp      uint64 // uses so far: the clock of what is used last
	gen        uint64 // of the entry that changed last
	joined     uint64 // so often a slot was taken or given back
	entryTop   uint64 // entries behind it were never used
	blockTop   uint64
	freeEntry  uint32 // heads of lists
	freeBlock  uint32
	freeBlocks uint64 // in that list
	bytes      uint64 // of all parts that are kept
	kept       uint64 // parts
	slots      [mostSlots]slot
}

// slot is a user: a loader, or a dataset that is read by samples. It is alive while its process has the lock
// of its byte.
type slot struct {
	bound    uint64 // bytes
	job      uint64 // what its uses are numbered by; the same for all ranks
	dataset  uint64
	rank     uint64
	position atomic.Uint64 // the use that its consumer is at
	known    atomic.Uint64 // uses up to it are known, where later ones are not
	done     atomic.Uint64 // parts that it has fetched: a sign of life
	step     uint64        // uses that all ranks make at once
}

// The states of an entry, in the low bits of gen.
const (
	free    = iota
	claimed // somebody fetches or writes it
	present
	states = 4
)

// entry is a part.
type entry struct {
	// A part keeps the number it was found with, so that an entry that became another one's meanwhile is not taken
	// for it (the ABA problem); Peek reads it without the lock.
	gen     atomic.Uint64 // another one whenever the entry changes what it is; the low bits are the state
	key     Key
	dataset uint64 // whose sample it is
	sample  int64
	job     uint64 // whose next use it is; 0: nobody said
	next    uint64
	stamp   uint64 // of its last use
	length  uint32
	crc     uint32
	first   uint32 // block
	chain   uint32 // the next entry of its bucket, or of the free ones
	owner   uint32 // slot of who claims it
	waited  uint32 // who waits for it
}

// Who waits for a part that is claimed: nobody, a use of its own claimer's, or somebody else too.
const (
	byOwner  = 1
	byOthers = 2
)

const (
	headBytes  = int64(unsafe.Sizeof(head{}))
	entryBytes = int64(unsafe.Sizeof(entry{}))
)

// geometry is what a bound allows.
type geometry struct {
	bound      int64
	blockBytes int64
	buckets    int64
	entries    int64
	blocks     int64
}

// geometryOf divides a bound: 1.5 % for entries, and so many blocks that all of it is 1.045 of the bound at most.
// A block is 1 KiB, or 4 KiB of a cache that is large: half of one is lost with each part.
func geometryOf(bound int64) geometry {
	g := geometry{bound: bound, blockBytes: 1 << 10}
	if bound >= 1<<30 {
		g.blockBytes = 4 << 10
	}
	// One for each 64 KiB, about the length of an image: lists of buckets stay short.
	g.buckets = max(256, min(bound>>16, 1<<24))
	// Numbers of entries and blocks have 32 bits, of which the last is none.
	g.entries = min(max(64, bound/64/entryBytes), int64(none)-1)
	// Each of the five files ends in the midst of a page.
	tables := headBytes + 4*g.buckets + g.entries*entryBytes + 5*pageBytes
	g.blocks = min(max(0, bound/1000*1045-tables)/(g.blockBytes+4), int64(none)-1)
	return g
}
