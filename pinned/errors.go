package pinned

import (
	"errors"
	"fmt"

	"github.com/headrace/headrace/internal/fault"
)

var (
	// ErrMemory is wrapped by every MemoryError.
	ErrMemory = errors.New("not enough memory")
	// ErrState is wrapped by every StateError.
	ErrState = errors.New("slot is not in the right state")
	// ErrClosed: the pool was closed.
	ErrClosed = fault.New(fault.KindClosed, "pool is closed")
	// ErrLoan: memory that cannot be lent; the text says why.
	ErrLoan = errors.New("memory cannot be lent")
	// ErrRange: a part to populate lies outside the slot.
	ErrRange = errors.New("range outside the slot")
)

// MemoryError says how much a slot needed when the system refused it.
type MemoryError struct {
	Needed    int64 // bytes of one slot
	InUse     int64 // bytes of the pool's slots that exist already
	Available int64 // bytes that the system would still give, -1 if unknown
	Op        string
	Err       error // the errno, or nil if the shortage was foreseen
}

func (e *MemoryError) Error() string {
	text := fmt.Sprintf("a batch needs a slot of %d bytes and %d bytes are in use: %v", e.Needed, e.InUse, ErrMemory)
	if e.Available >= 0 {
		text += fmt.Sprintf(" (%d bytes available)", e.Available)
	}
	if e.Err != nil {
		text += fmt.Sprintf(": %s: %v", e.Op, e.Err)
	}
	return text
}

// Is makes every MemoryError an ErrMemory; Unwrap returns the errno.
func (e *MemoryError) Is(target error) bool { return target == ErrMemory }

func (e *MemoryError) Unwrap() error { return e.Err }

// FaultKind is for package fault: this kind tells a caller to free memory, and not to look for a file.
func (e *MemoryError) FaultKind() fault.Kind { return fault.KindMemory }

// StateError is a step that a slot's life does not have.
type StateError struct {
	Op    string
	State State
	Stale bool // the slot's life is over; the memory may have another tenant
}

func (e *StateError) Error() string {
	if e.Stale {
		return fmt.Sprintf("%s of a slot whose life is over", e.Op)
	}
	return fmt.Sprintf("%s of a slot that is %s", e.Op, e.State)
}

func (e *StateError) Unwrap() error { return ErrState }
