package pinned

import (
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// chunk is the unit of populating. It is small enough that two threads that write neighbouring samples of 150 kB or 600
// kB share the work, and large enough that a call is cheap.
const chunk = 512 << 10

// Populate pays the first touch of a part before it is written, in the thread that will write it. Any number of threads
// may call it. A chunk is populated once in its memory's life, so for used memory this costs a few loads. Lent memory
// is populated by its owner.
func (s *Slot) Populate(offset, length int64) error {
	m := s.memory
	if offset < 0 || length < 0 || offset > m.bytes-length {
		return ErrRange
	}
	if m.tag != Own || length == 0 {
		return nil
	}
	for i := offset / chunk; i <= (offset+length-1)/chunk; i++ {
		// The second thread writes while the first one still populates: the kernel gives both the same page.
		if m.populated[i].Load() || m.populated[i].Swap(true) {
			continue
		}
		pages := m.part(i)
		err := populatePages(pages)
		if err == unix.EINVAL || err == unix.ENOSYS {
			touch(pages) // Linux before 5.14
			err = nil
		}
		if err != nil {
			m.populated[i].Store(false)
			return &MemoryError{Needed: m.bytes, Available: none, Op: "populate", Err: err}
		}
		promised.Add(-int64(len(pages)))
	}
	return nil
}

// touch writes to every page without changing its contents: an atomic addition of zero cannot undo what another thread
// writes at the same time.
func touch(pages []byte) {
	for i := 0; i < len(pages); i += os.Getpagesize() {
		atomic.AddUint32((*uint32)(unsafe.Pointer(&pages[i])), 0)
	}
}

// Reserve makes sure that the pool has n slots, and populates its own ones; lent slots count as well. It frees the
// slots that it made. A background goroutine should call it, so that the batches after the first one find warm memory.
// It stops early if the pool is closed or has Keep free slots.
func (p *Pool) Reserve(n int) error {
	for {
		p.mutex.Lock()
		enough := p.closed || len(p.free) >= p.options.Keep || p.stats.Made-p.stats.Unmapped+int64(p.stats.Lent) >= int64(n)
		inUse := p.stats.OwnBytes
		p.mutex.Unlock()
		if enough {
			return nil
		}
		if err := p.addWarm(inUse); err != nil {
			return err
		}
	}
}

// addWarm makes one free slot.
func (p *Pool) addWarm(inUse int64) error {
	m, shortage := newMemory(p.options.SlotBytes, p.options.NoDevZero)
	if shortage != nil {
		shortage.InUse = inUse
		return shortage
	}
	// The slot is not in the pool yet, so Close need not wait for more than one chunk.
	for offset := int64(0); offset < m.bytes; offset += chunk {
		p.mutex.Lock()
		closed := p.closed
		p.mutex.Unlock()
		var err error
		if !closed {
			err = (&Slot{memory: m}).Populate(offset, min(chunk, m.bytes-offset))
		}
		if closed || err != nil {
			m.unmap()
			return err
		}
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.closed {
		m.unmap()
		return nil
	}
	p.enter(m)
	p.free = append(p.free, m)
	return nil
}
