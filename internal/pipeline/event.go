package pipeline

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// event is an eventfd that polls readable while Next would answer at once. It is made when it is
// first asked for, so that who never polls pays no system calls. It belongs to the Loader's lock.
type event struct {
	fd    int
	made  bool
	shut  bool
	state bool // what Next would do
}

// set makes the descriptor agree with the state. Its counter is 0 or 1, so neither call blocks.
func (e *event) set(ready bool) {
	changed := ready != e.state
	e.state = ready
	if !changed || !e.made || e.shut {
		return
	}
	var one [8]byte
	if ready {
		binary.NativeEndian.PutUint64(one[:], 1)
		retry(func() error { _, err := unix.Write(e.fd, one[:]); return err })
	} else {
		retry(func() error { _, err := unix.Read(e.fd, one[:]); return err })
	}
}

// open makes the descriptor at the first call. Non-blocking, so that a consumer who reads it
// against the rules cannot hang; close-on-exec, so that it does not leak into other programs.
func (e *event) open() (int, error) {
	if e.shut {
		return -1, ErrClosed
	}
	if e.made {
		return e.fd, nil
	}
	// The state was kept while there was no descriptor, so a late one is right from the start.
	initial := uint(0)
	if e.state {
		initial = 1
	}
	fd, err := unix.Eventfd(initial, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return -1, fmt.Errorf("cannot make an event descriptor: %w", err)
	}
	e.fd, e.made = fd, true
	return fd, nil
}

// close comes after set(true), which wakes whoever polls: closing alone would not.
func (e *event) close() {
	if e.made && !e.shut {
		_ = unix.Close(e.fd)
	}
	e.shut = true
}

// retry goes on after signals: Go's own preemption signal interrupts system calls too.
func retry(call func() error) {
	for call() == unix.EINTR {
	}
}

// EventFD is a descriptor that polls readable while a batch, an end or an error is ready for Next.
// It is the Loader's: it must not be read or closed, and Close closes it.
func (l *Loader) EventFD() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.event.open()
}
