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

// head is the first file: totals, the users, and where the lists of entries begin.
type head struct {
	magic uint64
	// busy is set before anything else changes and cleared afterwards. A process that is killed in between leaves it
	// set. Because nothing is synced, this is the only sign of it.
	busy       uint64 // a process is changing the tables, or ended in the middle
	blockBytes uint64
	buckets    uint64
	stamp      uint64 // uses so far: a clock that says what was used last
	gen        uint64 // gen of the entry that changed last
	joined     uint64 // how often a slot was taken or given back
	entryTop   uint64 // entries from here on were never used
	blockTop   uint64
	freeEntry  uint32 // heads of lists
	freeBlock  uint32
	freeBlocks uint64 // in that list
	bytes      uint64 // of all parts that are kept
	kept       uint64 // parts
	slots      [mostSlots]slot
}

// slot is a user: a loader, or a dataset whose samples are read one by one. It is alive while its process has the lock
// of its byte.
type slot struct {
	bound    uint64 // bytes
	job      uint64 // the numbering of its uses; the same for all ranks
	dataset  uint64
	rank     uint64
	position atomic.Uint64 // the use that its consumer has reached
	known    atomic.Uint64 // uses up to it are known, if later ones are not
	done     atomic.Uint64 // parts that it has fetched: a sign of life
	step     uint64        // uses of all ranks in one step
}

// The states of an entry, in the low bits of gen.
const (
	free    = iota
	claimed // a process fetches or writes it
	present
	states = 4
)

// entry is a part in the table.
type entry struct {
	// A part remembers the gen with which it was found, so that an entry that holds another part meanwhile is not taken
	// for it (the ABA problem). Peek reads it without the lock.
	gen     atomic.Uint64 // changes whenever the entry's meaning does; the low bits are the state
	key     Key
	dataset uint64 // the dataset of the sample
	sample  int64
	job     uint64 // the job of the next use; 0: unknown
	next    uint64
	stamp   uint64 // of its last use
	length  uint32
	crc     uint32
	first   uint32 // block
	chain   uint32 // the next entry of its bucket, or of the free ones
	owner   uint32 // slot of the claimer
	waited  uint32 // who waits for it
}

// Who waits for a claimed part: nobody, a use of the claimer's own, or another process as well.
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

// geometryOf divides a bound: 1.5 % for entries, and so many blocks that everything takes at most 1.045 times the
// bound. A block is 1 KiB, or 4 KiB in a large cache: half a block is lost with each part.
func geometryOf(bound int64) geometry {
	g := geometry{bound: bound, blockBytes: 1 << 10}
	if bound >= 1<<30 {
		g.blockBytes = 4 << 10
	}
	// There is one bucket for each 64 KiB, about the length of an image, so the lists of buckets stay short.
	g.buckets = max(256, min(bound>>16, 1<<24))
	// Numbers of entries and blocks have 32 bits; the last number means none.
	g.entries = min(max(64, bound/64/entryBytes), int64(none)-1)
	// Each of the five files ends in the middle of a page.
	tables := headBytes + 4*g.buckets + g.entries*entryBytes + 5*pageBytes
	g.blocks = min(max(0, bound/1000*1045-tables)/(g.blockBytes+4), int64(none)-1)
	return g
}
