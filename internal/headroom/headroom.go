// Package headroom checks that enough threads and address space are left before work begins that needs
// them. Go's runtime ends the whole process if the system refuses it either; this check returns an
// error instead. headroom.h says how it works.
package headroom

/*
#cgo CFLAGS: -O2 -std=c11 -D_GNU_SOURCE -Wall -Wextra -fvisibility=hidden
#include "headroom.h"
*/
import "C"

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/headrace/headrace/internal/fault"
)

// Others is how many threads the runtime may need in addition to those that run goroutines, or that are in C or in the
// kernel with one.
const Others = C.HRH_OTHERS

// Error says what is short, how much is needed and how much is allowed.
type Error struct {
	Space bool // addresses are short; otherwise threads
	Text  string
}

func (e *Error) Error() string { return e.Text }

// FaultKind is for package fault.
func (e *Error) FaultKind() fault.Kind {
	if e.Space {
		return fault.KindMemory
	}
	return fault.KindLimit
}

// Go has started by now, so the memory that was held for its start is released.
func init() { C.hrh_hold(C.HRH_KEPT_BYTES) }

// allowed returns how many threads may still be made, by what can be read below a root. It also returns whether limits
// may be hidden from us, and which of the limits found is the closest.
func allowed(root string) (threads int64, hidden bool, by string) {
	text := append([]byte(root), 0)
	found := C.hrh_allowed_threads((*C.char)(unsafe.Pointer(&text[0])))
	return int64(found.threads), bool(found.hidden), C.GoString(&found.by[0])
}

// Scarce says whether threads have to be kept for a caller that needs so many in all: a limit is near, or may be near
// but cannot be read.
func Scarce(threads int) bool { return bool(C.hrh_scarce(C.int64_t(threads))) }

// Keep makes threads until there are so many, including those at work, and lets waiting ones beyond that number end. It
// returns how many there are; fewer if the system refuses more.
func Keep(threads int) int { return int(C.hrh_keep(C.int64_t(threads))) }

// Threads returns the error that so many threads are needed and only some are possible.
func Threads(needed, allowed int) error {
	var text [C.HRH_TEXT]C.char
	short := C.hrh_say_threads(&text[0], C.HRH_TEXT, C.int64_t(needed), C.int64_t(allowed))
	return &Error{short == C.HRH_SPACE, C.GoString(&text[0])}
}

// arena is the step by which Go's heap grows.
const arena = 64 << 20

// Memory refuses a size so large that Go would end the process if the address space does not have it.
func Memory(bytes int64) error {
	if bytes < arena/8 || C.hrh_allowed_space() == math.MaxInt64 {
		return nil
	}
	needed := C.int64_t(bytes) + arena
	if C.hrh_allowed_space() >= needed {
		return nil
	}
	var text [C.HRH_TEXT]C.char
	C.hrh_say_space(&text[0], C.HRH_TEXT, needed)
	return &Error{true, C.GoString(&text[0])}
}

// Hold again holds the address space that was given to Go.
func Hold() error {
	if C.hrh_hold(C.HRH_KEPT_BYTES) {
		return nil
	}
	var text [C.HRH_TEXT]C.char
	C.hrh_say_space(&text[0], C.HRH_TEXT, C.HRH_KEPT_BYTES)
	return &Error{true, C.GoString(&text[0])}
}

// Spent returns an error from the moment when Go took some of the held address space until there is enough to hold it
// again. A long work stops because of it.
func Spent() error {
	var text [C.HRH_TEXT]C.char
	if !C.hrh_spent(&text[0], C.HRH_TEXT) {
		return nil
	}
	return &Error{true, C.GoString(&text[0])}
}

// Fewer warns that work continues with fewer threads than were wanted.
func Fewer(got, wanted int, short error) string {
	return fmt.Sprintf("%d threads work where %d were to: for all of them %v", got, wanted, short)
}

// SetAside holds so much of a limited address space, or half of what is left, until it is released: the work of threads
// that are made meanwhile will need it.
func SetAside(bytes int64) (release func()) {
	C.hrh_set_aside(C.int64_t(bytes))
	return func() { C.hrh_set_aside(0) }
}

// Room returns the end of a sentence about refused memory; "" if the address space has no limit.
func Room() string {
	left := C.hrh_allowed_space()
	if left == math.MaxInt64 {
		return ""
	}
	return fmt.Sprintf(" (%d bytes of address space are allowed)", int64(left))
}
