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

// largeSlot is the size from which the available memory is looked up: that takes about 0.2 ms, half of the time of the
// first touch of such a slot. From this size on a slot is also hidden from children: that takes two calls of 1 to 4 us
// for a batch, which would be noticeable for a batch of a few kilobytes.
const largeSlot = 1 << 20

// memory is own or lent memory that one tenancy after the other uses.
type memory struct {
	pointer unsafe.Pointer
	bytes   int64
	tag     int64  // Own, or the loan's
	mapping []byte // own memory: what munmap gets
	apart   bool   // own memory: the kernel joins no other mapping with it, so it can be hidden

	state      State  // under the pool's lock
	generation uint64 // counts tenancies; under the pool's lock
	hidden     bool   // from children that are forked; under the pool's lock

	populated []atomic.Bool // own memory: one for each chunk, set by the thread that populates it first
}

// promised is how much of all own memory has not been populated yet. The system still counts it as available, and would
// promise it twice.
var promised atomic.Int64

// newMemory maps own memory for a slot, hidden from children until it is held.
func newMemory(bytes int64, noDevZero bool) (*memory, *MemoryError) {
	length := wholePages(bytes)
	// This is promised before the system is asked, so that of two threads that ask at once one sees the other.
	before := promised.Add(length) - length
	// The system is asked before the memory is touched, because its answer then would be the OOM killer.
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

// shortage returns an error if the system lacks so many bytes in addition to those promised before. It returns nil if
// the system has them, or if that is not known.
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

// hide keeps own memory out of children that are forked from now on. The pool's lock is held, or the pool does not know
// the memory yet. A child cannot use memory that was not handed out. The fork would copy page tables of all slots (30
// us for each MB), and this process would copy each page that it writes afterwards.
func (m *memory) hide() {
	if m.apart && !m.hidden && len(m.mapping) >= largeSlot {
		m.hidden = hide(m.mapping)
	}
}

// show lets children have a copy of a slot that is handed out. The pool's lock is held.
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

// part returns chunk i of own memory.
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
	// Mmap returned this range, so munmap cannot fail.
	_ = unix.Munmap(m.mapping)
}
