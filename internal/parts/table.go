package parts

import (
	"encoding/binary"
	"errors"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/mmap"
)

const (
	magic = 0x33747261706b6472 // the first word of a head; another version of the tables has another one

	mostSlots = 256
	pageBytes = 4 << 10
	none      = ^uint32(0) // ends a list of blocks or entries
	growBy    = 1 << 20    // bytes by which a table is made longer, an eighth of what it may have at most
)

// head is the first file: totals, who is there, and where the lists of entries begin.
type head struct {
	magic      uint64
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
	g.buckets = max(256, min(bound>>16, 1<<24))
	g.entries = min(max(64, bound/64/entryBytes), int64(none)-1)
	// Each of the five files ends in the midst of a page.
	tables := headBytes + 4*g.buckets + g.entries*entryBytes + 5*pageBytes
	g.blocks = min(max(0, bound/1000*1045-tables)/(g.blockBytes+4), int64(none)-1)
	return g
}

// table is a file that is mapped whole, and has disk under it as far as it was grown: a write to a mapping
// that finds no room on the disk would end the process.
type table struct {
	file   *os.File
	memory []byte
	watch  mmap.Table // somebody else may cut the file
	length int64
	limit  int64 // no more than is needed is taken behind it
}

func (t *table) open(dir *os.Root, name string, most int64) (err error) {
	if t.file, err = openIn(dir, name); err != nil {
		return err
	}
	status, err := t.file.Stat()
	if err != nil {
		return err
	}
	memory, err := unix.Mmap(int(t.file.Fd()), 0, int(max(most, status.Size())), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	if err := t.watch.Watch(memory); err != nil {
		_ = unix.Munmap(memory)
		return err
	}
	t.memory = memory
	return nil
}

// filePrefix begins the names of a cache's files, so that they are no others of a directory.
const filePrefix = "headrace-cache."

func openIn(dir *os.Root, name string) (*os.File, error) {
	f, err := dir.OpenFile(filePrefix+name, os.O_RDWR|os.O_CREATE|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if status, err := f.Stat(); err != nil || !status.Mode().IsRegular() {
		f.Close()
		return nil, errors.Join(err, unix.EINVAL)
	}
	return f, nil
}

func (t *table) close() {
	if t.memory != nil {
		t.watch.End()
		_ = unix.Munmap(t.memory)
	}
	if t.file != nil {
		t.file.Close()
	}
	t.memory, t.file = nil, nil
}

// grow makes sure of so many bytes of disk, and some more.
func (t *table) grow(length int64) error {
	if length <= t.length {
		return nil
	}
	most := int64(len(t.memory))
	if length > most {
		return unix.ENOSPC
	}
	to := max(length, min(t.limit, t.length+min(growBy, most/8)))
	err := unix.Fallocate(int(t.file.Fd()), 0, 0, to)
	if err != nil && to > length { // there may be room for what is needed now
		to = length
		err = unix.Fallocate(int(t.file.Fd()), 0, 0, to)
	}
	if err == nil {
		t.length = to
	}
	return err
}

// bound gives back what a table has behind its limit, and looks anew at how long it is when it next grows: another
// process may have cut it.
func (t *table) bound(used, limit int64) {
	t.length, t.limit = 0, limit
	if status, err := t.file.Stat(); err == nil && status.Size() > max(used, limit) {
		_ = t.file.Truncate(max(used, limit))
	}
}

func view[T any](t *table) []T {
	var one T
	return unsafe.Slice((*T)(unsafe.Pointer(&t.memory[0])), len(t.memory)/int(unsafe.Sizeof(one)))
}

// bucket is where the list of a key's entries begins.
func (c *Cache) bucket(k *Key) *uint32 {
	return &c.buckets[binary.LittleEndian.Uint64(k[:])%c.head.buckets]
}

// still is the entry that a part was found in or claimed, nil where it is another one by now: its place may lie behind
// the end of a table that was cut to a smaller bound.
func (c *Cache) still(at uint32, gen uint64) *entry {
	if uint64(at) >= c.head.entryTop {
		return nil
	}
	if e := &c.entries[at]; e.gen.Load() == gen {
		return e
	}
	return nil
}

// find is a key's entry.
func (c *Cache) find(k *Key) (*entry, uint32) {
	left := c.head.entryTop // a list that is damaged may be a ring
	for i := *c.bucket(k); uint64(i) < c.head.entryTop && left > 0; i, left = c.entries[i].chain, left-1 {
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

// insert makes a claimed entry of a key; nil where there is no room for one.
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

// remove makes an entry and its blocks free.
func (c *Cache) remove(e *entry, i uint32) {
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

// blocksOf is how many blocks so many bytes take.
func (c *Cache) blocksOf(length int64) int64 {
	size := int64(c.head.blockBytes)
	return (length + size - 1) / size
}

// roomForBlocks is how many may be taken now.
func (c *Cache) roomForBlocks() int64 {
	return int64(c.head.freeBlocks) + max(0, c.limit.blocks-int64(c.head.blockTop))
}

// takeBlocks gives an entry blocks for its length, which roomForBlocks has; false where the disk has no
// room for the table.
func (c *Cache) takeBlocks(e *entry) bool {
	at := &e.first
	for range c.blocksOf(int64(e.length)) {
		b := c.head.freeBlock
		if b != none {
			c.head.freeBlock = c.blocks[b]
			c.head.freeBlocks--
		} else {
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

// giveBlocks puts them before the free ones in their order, so that neighbours stay neighbours.
func (c *Cache) giveBlocks(e *entry) {
	last, count := none, uint64(0)
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

// span is a stretch of the file of all bytes.
type span struct{ at, length int64 }

// spans are where an entry's bytes lie; nil where its blocks cannot be right.
func (c *Cache) spans(e *entry) []span {
	size, left := int64(c.head.blockBytes), int64(e.length)
	var list []span
	for b := e.first; left > 0; b = c.blocks[b] {
		if b == none || uint64(b) >= c.head.blockTop {
			return nil
		}
		at, length := int64(b)*size, min(size, left)
		if n := len(list); n > 0 && list[n-1].at+list[n-1].length == at {
			list[n-1].length += length
		} else {
			list = append(list, span{at, length})
		}
		left -= length
	}
	return list
}

// rebuild makes totals and lists anew from the entries that can be right: of those that claim a block
// twice, the first. What is wrong all the same fails its checksum.
func (c *Cache) rebuild() {
	h := c.head
	h.entryTop, h.blockTop = min(h.entryTop, uint64(len(c.entries))), min(h.blockTop, uint64(len(c.blocks)))
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
		h.gen = max(h.gen, e.gen.Load()/states)
		if !c.sound(e, used) {
			e.first = none
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
	for b := int64(h.blockTop) - 1; b >= 0; b-- {
		if !used[b] {
			c.blocks[b], h.freeBlock = h.freeBlock, uint32(b)
			h.freeBlocks++
		}
	}
	h.busy = 0
}

// sound is true of an entry that can be kept: whole, or claimed by one who lives.
func (c *Cache) sound(e *entry, used []bool) bool {
	state := e.gen.Load() % states
	if state != present && (state != claimed || !c.alive(e.owner)) {
		return false
	}
	count, most := int64(0), c.blocksOf(int64(e.length))
	for b := e.first; b != none; b = c.blocks[b] {
		if uint64(b) >= uint64(len(used)) || used[b] || count == most {
			return false
		}
		count++
	}
	return count == most || state == claimed && count == 0
}
