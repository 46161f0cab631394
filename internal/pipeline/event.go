package pipeline

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// event is an eventfd that polls readable while Next would answer at once. It is made when it is first asked for, so
// that callers who never poll pay no system calls. The Loader's lock protects it.
type event struct {
	fd    int
	made  bool
	shut  bool
	state bool // whether Next would answer at once
}

// set makes the descriptor agree with ready. Its counter is 0 or 1, so neither call blocks.
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

// open makes the descriptor at the first call. It is non-blocking, so that a consumer who reads it against the rules
// does not hang, and close-on-exec, so that other programs do not inherit it.
func (e *event) open() (int, error) {
	if e.shut {
		return -1, ErrClosed
	}
	if e.made {
		return e.fd, nil
	}
	// The state was kept without a descriptor, so a late one is right from the start.
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

// close must follow set(true), which wakes pollers; closing alone would not.
func (e *event) close() {
	if e.made && !e.shut {
		_ = unix.Close(e.fd)
	}
	e.shut = true
}

// retry repeats a call that a signal interrupted. Go's own preemption signal interrupts system calls too.
func retry(call func() error) {
	for call() == unix.EINTR {
	}
}

// EventFD returns a descriptor that polls readable while Next has a batch, an end or an error.
// The Loader owns it: the caller must not read or close it, and Close closes it.
func (l *Loader) EventFD() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.event.open()
}
