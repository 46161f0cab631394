package pinned

import (
	"slices"
	"sync"
)

// Options are options of a pool.
type Options struct {
	SlotBytes int64 // what one batch needs
	Keep      int   // how many free slots of its own the pool keeps for reuse
	NoDevZero bool  // behave as if there were no /dev/zero
}

// Pool makes slots and takes them back. Any number of goroutines may use it.
type Pool struct {
	options Options

	mutex  sync.Mutex
	free   []*memory // own, last in first out: the warmest memory is used first
	loans  []*memory // every loan that has not ended, oldest first, free or in use
	closed bool
	stats  Stats
}

// NewPool checks the options and allocates nothing.
func NewPool(o Options) (*Pool, error) {
	if o.SlotBytes <= 0 || o.SlotBytes > maxSlotBytes || o.Keep < 0 {
		return nil, ErrRange
	}
	return &Pool{options: o}, nil
}

// Acquire returns a slot to fill: lent memory first, then free memory, then new memory. It
// never waits for a slot to come back.
func (p *Pool) Acquire() (*Slot, error) {
	p.mutex.Lock()
	if p.closed {
		p.mutex.Unlock()
		return nil, ErrClosed
	}
	if m := p.takeFree(); m != nil {
		defer p.mutex.Unlock()
		return p.tenant(m), nil
	}
	inUse := p.stats.OwnBytes
	p.mutex.Unlock()

	// This is done without the lock, because allocating takes milliseconds, and slots must be able to come back
	// meanwhile.
	m, err := newMemory(p.options.SlotBytes, p.options.NoDevZero)
	if err != nil {
		err.InUse = inUse
		return nil, err
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.closed {
		m.unmap()
		return nil, ErrClosed
	}
	p.enter(m)
	return p.tenant(m), nil
}

// Check returns an error if the system lacks the memory for a slot; it does so before any slot is made.
func (p *Pool) Check() error {
	if short := shortage(p.options.SlotBytes, promised.Load()); short != nil {
		return short
	}
	return nil
}

// takeFree removes the next free memory from its list.
func (p *Pool) takeFree() *memory {
	for _, m := range p.loans {
		if m.state == Free {
			return m
		}
	}
	if n := len(p.free); n > 0 {
		m := p.free[n-1]
		p.free = slices.Delete(p.free, n-1, n)
		return m
	}
	return nil
}

// tenant begins a tenancy of free memory. The lock is held.
func (p *Pool) tenant(m *memory) *Slot {
	m.generation++
	p.move(m, Filling)
	return &Slot{pool: p, memory: m, generation: m.generation}
}

// step makes one step of a slot's life, if the slot is in one of the two states that allow it.
func (p *Pool) step(s *Slot, op string, from, orFrom, to State) error {
	p.mutex.Lock()
	m := s.memory
	if stale := s.generation != m.generation; stale || (m.state != from && m.state != orFrom) {
		err := &StateError{Op: op, State: m.state, Stale: stale || m.state == Free}
		p.mutex.Unlock()
		return refuse(err)
	}
	if to == Held {
		if refused := m.show(); refused != nil {
			refused.InUse = p.stats.OwnBytes
			p.mutex.Unlock()
			return refused
		}
	}
	p.move(m, to)
	var ended *memory
	if to == Free {
		ended = p.settle(m, op == "release")
	}
	p.mutex.Unlock()
	if ended != nil {
		ended.unmap() // without the lock, because it takes milliseconds
	}
	return nil
}

// settle decides what becomes of memory that has just become free. The lock is held. It returns memory that has to be
// unmapped.
func (p *Pool) settle(m *memory, released bool) *memory {
	switch {
	case m.tag != Own:
		if released || p.closed {
			p.endLoan(m)
		}
		return nil
	case p.closed || len(p.free) >= p.options.Keep:
		p.leave(m)
		return m
	}
	m.hide()
	p.free = append(p.free, m)
	return nil
}

// Close ends every free slot and loan; slots in use end when they are released or abandoned.
// Closing twice is harmless.
func (p *Pool) Close() {
	p.mutex.Lock()
	free := p.free
	p.closed, p.free = true, nil
	for _, m := range free {
		p.leave(m)
	}
	for _, m := range slices.Clone(p.loans) {
		if m.state == Free {
			p.endLoan(m)
		}
	}
	p.mutex.Unlock()
	for _, m := range free {
		m.unmap()
	}
}
