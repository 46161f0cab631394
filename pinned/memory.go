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
// allocating this much takes.
const largeSlot = 1 << 20

// memory is what tenancies follow each other in: own or lent.
type memory struct {
	pointer unsafe.Pointer
	bytes   int64
	tag     int64  // Own, or the loan's
	mapping []byte // own memory: what munmap gets

	state      State  // under the pool's lock
	generation uint64 // counts tenancies; under the pool's lock

	populated []atomic.Bool // own memory: one a chunk, set by whoever populates it first
}

// newMemory allocates own memory for a slot: memfd where the system has it, otherwise an
// anonymous shared mapping.
func newMemory(bytes int64, noMemfd bool) (*memory, *MemoryError) {
	length := wholePages(bytes)
	// Asked first: where a cgroup is the limit, the kernel's answer would be the OOM killer.
	if short := shortage(bytes); short != nil {
		return nil, short
	}
	fd, flags := -1, unix.MAP_SHARED
	if !noMemfd {
		var err error
		if fd, err = newMemfd(length); err != nil {
			return nil, &MemoryError{Needed: bytes, Available: none, Op: "fallocate", Err: err}
		}
	}
	if fd < 0 {
		flags |= unix.MAP_ANON
	} else {
		// The mapping keeps the pages. A descriptor a batch would bound the batches that a caller
		// may hold, at 1,024 or 4,096 on many machines.
		defer unix.Close(fd)
	}
	mapping, err := unix.Mmap(fd, 0, int(length), unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return nil, &MemoryError{Needed: bytes, Available: none, Op: "mmap", Err: err}
	}
	return &memory{
		pointer: unsafe.Pointer(unsafe.SliceData(mapping)), bytes: bytes, tag: Own, mapping: mapping,
		populated: make([]atomic.Bool, (length+chunk-1)/chunk),
	}, nil
}

const none = -1

func wholePages(bytes int64) int64 {
	page := int64(os.Getpagesize())
	return (bytes + page - 1) &^ (page - 1)
}

// shortage says that the system has not got so many bytes; nil where it has, or is not known to lack
// them.
func shortage(bytes int64) *MemoryError {
	length := wholePages(bytes)
	if length < largeSlot {
		return nil
	}
	if available := availableBytes(); available >= 0 && length > available {
		return &MemoryError{Needed: bytes, Available: available}
	}
	return nil
}

// unmap gives own memory back to the system.
func (m *memory) unmap() {
	if m.mapping != nil {
		// A range that Mmap returned: munmap has nothing to object to.
		_ = unix.Munmap(m.mapping)
	}
}
