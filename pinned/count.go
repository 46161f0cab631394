package pinned

// Own is the Tag of the pool's own memory.
const Own = -1

// Stats counts memory by state, own and lent memory together unless stated otherwise.
type Stats struct {
	Free, Filling, Ready, Held int
	Lent                       int   // loans that have not ended
	OwnBytes, LentBytes        int64 // own slots in any state; loans that have not ended
	Made, Unmapped             int64 // own slots since the beginning
}

// Stats returns a snapshot.
func (p *Pool) Stats() Stats {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.stats
}

// counter returns where the statistics count a state.
func (p *Pool) counter(s State) *int {
	switch s {
	case Filling:
		return &p.stats.Filling
	case Ready:
		return &p.stats.Ready
	case Held:
		return &p.stats.Held
	}
	return &p.stats.Free
}

// move changes the state of memory that the pool knows. The lock is held.
func (p *Pool) move(m *memory, to State) {
	*p.counter(m.state)--
	m.state = to
	*p.counter(to)++
}

// enter makes free memory known to the pool. The lock is held.
func (p *Pool) enter(m *memory) {
	p.stats.Free++
	if m.tag == Own {
		p.stats.OwnBytes += m.bytes
		p.stats.Made++
		return
	}
	p.stats.LentBytes += m.bytes
	p.stats.Lent++
}

// leave is the opposite of enter.
func (p *Pool) leave(m *memory) {
	p.stats.Free--
	if m.tag == Own {
		p.stats.OwnBytes -= m.bytes
		p.stats.Unmapped++
		return
	}
	p.stats.LentBytes -= m.bytes
	p.stats.Lent--
}
