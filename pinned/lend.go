package pinned

import (
	"fmt"
	"slices"
	"unsafe"
)

// Alignment is that of lent memory: a cache line, which is also the alignment of a batch's fields.
const Alignment = 64

// Lend gives the pool memory for one batch. It must stay valid until the loan ends: at the Release of the slot with
// this tag, or at Close. Loans that have not ended have different tags.
func (p *Pool) Lend(ptr unsafe.Pointer, bytes int64, tag int64) error {
	address := uintptr(ptr)
	switch {
	case ptr == nil:
		return fmt.Errorf("%w: its address is NULL", ErrLoan)
	case address%Alignment != 0:
		return fmt.Errorf("%w: address %#x is not a multiple of %d", ErrLoan, address, Alignment)
	case bytes < p.options.SlotBytes:
		return fmt.Errorf("%w: %d bytes, and a batch needs %d", ErrLoan, bytes, p.options.SlotBytes)
	case bytes > maxSlotBytes || address+uintptr(bytes) < address:
		return fmt.Errorf("%w: %d bytes from %#x leave the address space", ErrLoan, bytes, address)
	case tag < 0:
		return fmt.Errorf("%w: tag %d is negative", ErrLoan, tag)
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.closed {
		return ErrClosed
	}
	for _, m := range p.loans {
		begin := uintptr(m.pointer)
		// Lending the same memory twice would put two batches in one place.
		if m.tag == tag || (address < begin+uintptr(m.bytes) && begin < address+uintptr(bytes)) {
			return fmt.Errorf("%w: tag %d is lent already, or its memory is", ErrLoan, m.tag)
		}
	}
	m := &memory{pointer: ptr, bytes: bytes, tag: tag}
	p.loans = append(p.loans, m)
	p.enter(m)
	return nil
}

// Lent says whether lent memory is being written, or its batch is waiting to be taken.
func (p *Pool) Lent() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.ContainsFunc(p.loans, func(m *memory) bool { return m.state != Held })
}

// endLoan forgets memory that belongs to its owner again. The lock is held.
func (p *Pool) endLoan(m *memory) {
	i := slices.Index(p.loans, m)
	p.loans = slices.Delete(p.loans, i, i+1)
	p.leave(m)
}
