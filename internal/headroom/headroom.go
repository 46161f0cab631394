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

// Others is how many threads the runtime may want beside those that run goroutines, or are with one
// in C or in the kernel.
const Others = C.HRH_OTHERS

// Error says what is short, with how much is needed and how much is allowed.
type Error struct {
	Space bool // of addresses; else threads
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

// Go is started by now: what was held for that is let go.
func init() { C.hrh_hold(C.HRH_KEPT_BYTES) }

// allowed is how many threads may still be made, by what can be read below a root, whether limits may be
// hidden from us, and which of those found is the closest.
func allowed(root string) (threads int64, hidden bool, by string) {
	text := append([]byte(root), 0)
	found := C.hrh_allowed_threads((*C.char)(unsafe.Pointer(&text[0])))
	return int64(found.threads), bool(found.hidden), C.GoString(&found.by[0])
}

// Scarce says whether threads have to be kept for somebody who needs so many in all: a limit is near,
// or may be where it cannot be read.
func Scarce(threads int) bool { return bool(C.hrh_scarce(C.int64_t(threads))) }

// Keep makes threads until there are so many, those at work included, and lets those that wait in
// excess of it end. It says how many there are: fewer where the system refuses more.
func Keep(threads int) int { return int(C.hrh_keep(C.int64_t(threads))) }

// Threads is the error of so many that are needed, of which only some can be.
func Threads(needed, allowed int) error {
	var text [C.HRH_TEXT]C.char
	short := C.hrh_say_threads(&text[0], C.HRH_TEXT, C.int64_t(needed), C.int64_t(allowed))
	return &Error{short == C.HRH_SPACE, C.GoString(&text[0])}
}

// arena is what Go's heap grows by.
const arena = 64 << 20

// Memory refuses what is so large that Go would end the process where the address space has not got it.
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

// Hold takes anew what Go was given of the address space.
func Hold() error {
	if C.hrh_hold(C.HRH_KEPT_BYTES) {
		return nil
	}
	var text [C.HRH_TEXT]C.char
	C.hrh_say_space(&text[0], C.HRH_TEXT, C.HRH_KEPT_BYTES)
	return &Error{true, C.GoString(&text[0])}
}

// Spent is an error from when Go was given of what is held of the address space until there is enough
// again to hold anew: a long work stops for it.
func Spent() error {
	var text [C.HRH_TEXT]C.char
	if !C.hrh_spent(&text[0], C.HRH_TEXT) {
		return nil
	}
	return &Error{true, C.GoString(&text[0])}
}

// Fewer warns that work goes on with fewer threads than were wanted.
func Fewer(got, wanted int, short error) string {
	return fmt.Sprintf("%d threads work where %d were to: for all of them %v", got, wanted, short)
}

// SetAside holds so much of a limited address space, or half of what is left, until it is let go again:
// the work of threads that are made meanwhile will need it.
func SetAside(bytes int64) (release func()) {
	C.hrh_set_aside(C.int64_t(bytes))
	return func() { C.hrh_set_aside(0) }
}

// Room ends the sentence of something that was refused memory; it is empty where the address space has
// no limit.
func Room() string {
	left := C.hrh_allowed_space()
	if left == math.MaxInt64 {
		return ""
	}
	return fmt.Sprintf(" (%d bytes of address space are allowed)", int64(left))
}
