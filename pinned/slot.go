package pinned

import "unsafe"

// State of a slot; see "Life of a slot".
type State uint8

const (
	Free State = iota
	Filling
	Ready
	Held
)

// String returns the state's word in docs and errors.
func (s State) String() string { return [...]string{"free", "filling", "ready", "held"}[s] }

// Slot is one batch's tenancy of a piece of memory, from Acquire to Release or Abandon.
type Slot struct {
	pool       *Pool
	memory     *memory
	generation uint64
}

// Pointer returns the first byte, aligned to 64 (own memory: to a page).
func (s *Slot) Pointer() unsafe.Pointer { return s.memory.pointer }

// Bytes returns how much may be written: at least the pool's SlotBytes.
func (s *Slot) Bytes() int64 { return s.memory.bytes }

// Tag names the loan; it is Own for the pool's own memory.
func (s *Slot) Tag() int64 { return s.memory.tag }

// State returns Free for a slot whose life is over.
func (s *Slot) State() State {
	s.pool.mutex.Lock()
	defer s.pool.mutex.Unlock()
	if s.generation != s.memory.generation {
		return Free
	}
	return s.memory.state
}

// Ready says that the batch is complete: filling -> ready.
func (s *Slot) Ready() error { return s.pool.step(s, "ready", Filling, Filling, Ready) }

// Hold gives the slot to the consumer: ready -> held.
func (s *Slot) Hold() error { return s.pool.step(s, "hold", Ready, Ready, Held) }

// Release takes the slot back from the consumer: held -> free. It is valid even after the pool was closed.
func (s *Slot) Release() error { return s.pool.step(s, "release", Held, Held, Free) }

// Abandon gives up a batch that nobody saw: filling or ready -> free. All threads must have stopped writing.
func (s *Slot) Abandon() error { return s.pool.step(s, "abandon", Filling, Ready, Free) }
