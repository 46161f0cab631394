package pinned

import (
	"math"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxSlotBytes leaves room to round up to pages without overflow.
const maxSlotBytes = math.MaxInt - (2 << 20)

// largeSlot is from where the room left is looked up: it takes about 0.2 ms, half of what
// the first touch of this much takes. And from where a slot is hidden from children: that is two calls of
// 1 to 4 us a batch, which would be seen in what a batch of a few kilobytes costs.
const largeSlot = 1 << 20

// memory is what tenancies follow each other in: own or lent.
type memory struct {
	pointer unsafe.Pointer
	bytes   int64
	tag     int64  // Own, or the loan's
	mapping []byte // own memory: what munmap gets
	apart   bool   // own memory: no mapping is joined with it, so that it can be hidden

	state      State  // under the pool's lock
	generation uint64 // counts tenancies; under the pool's lock
	hidden     bool   // from children that are forked; under the pool's lock

	populated []atomic.Bool // own memory: one a chunk, set by whoever populates it first
}

// promised is how much of all own memory nobody has populated yet: the system still counts that as
// available, and would promise it twice.
var promised atomic.Int64

// newMemory maps own memory for a slot, hidden from children until it is held.
func newMemory(bytes int64, noDevZero bool) (*memory, *MemoryError) {
	length := wholePages(bytes)
	// Promised before anybody asks, so that of two who ask at once one sees the other.
	before := promised.Add(length) - length
	// Asked before the memory is touched: the kernel's answer then would be the OOM killer.
	if short := shortage(bytes, before); short != nil {
		promised.Add(-length)
		return nil, short
	}
	mapping, apart, err := mapPrivate(length, noDevZero)
	if err != nil {
		promised.Add(-length)
		return nil, &MemoryError{Needed: bytes, Available: none, Op: "mmap", Err: err}
	}
	m := &memory{
		pointer: unsafe.Pointer(unsafe.SliceData(mapping)), bytes: bytes, tag: Own, mapping: mapping, apart: apart,
		populated: make([]atomic.Bool, (length+chunk-1)/chunk),
	}
	m.hide()
	return m, nil
}

const none = -1

func wholePages(bytes int64) int64 {
	page := int64(os.Getpagesize())
	return (bytes + page - 1) &^ (page - 1)
}

// shortage says that the system has not got so many bytes, and those promised before; nil where it
// has, or is not known to lack them.
func shortage(bytes, before int64) *MemoryError {
	length := wholePages(bytes)
	if length < largeSlot {
		return nil
	}
	if available := availableBytes(); available >= 0 && length > available-before {
		return &MemoryError{Needed: bytes, Available: max(available-before, 0)}
	}
	return nil
}

// hide keeps own memory out of children that are forked from now on, with the pool's lock held or
// before the pool knows of it. A child has no use for memory that nobody was handed: the fork would
// copy page tables of all slots (30 us a MB), and this process each page that it writes behind it.
func (m *memory) hide() {
	if m.apart && !m.hidden && len(m.mapping) >= largeSlot {
		m.hidden = hide(m.mapping)
	}
}

// show lets children have a copy of what is handed out, with the pool's lock held.
func (m *memory) show() *MemoryError {
	if !m.hidden {
		return nil
	}
	if err := show(m.mapping); err != nil {
		return &MemoryError{Needed: m.bytes, Available: none, Op: "madvise", Err: err}
	}
	m.hidden = false
	return nil
}

// part is chunk i of own memory.
func (m *memory) part(i int64) []byte {
	return m.mapping[i*chunk : min((i+1)*chunk, int64(len(m.mapping)))]
}

// unmap gives own memory back to the system.
func (m *memory) unmap() {
	if m.mapping == nil {
		return
	}
	for i := range m.populated {
		if !m.populated[i].Load() {
			promised.Add(-int64(len(m.part(int64(i)))))
		}
	}
	// A range that Mmap returned: munmap has nothing to object to.
	_ = unix.Munmap(m.mapping)
}
