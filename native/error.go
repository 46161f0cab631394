package native

/*
#include "native.h"
*/
import "C"

import (
	"bytes"
	"fmt"
	"unsafe"
)

// Code says what kind of failure an Error is.
type Code int32

// The codes of enum hrn_code, in three families: the bytes are wrong (Bad, Truncated, Checksum), the
// bytes may be right and we do not read them (Unsupported, Limit, Memory), we are wrong (Argument:
// the caller of this package; Internal: this package).
const (
	OK          Code = C.HRN_OK
	Bad         Code = C.HRN_BAD
	Truncated   Code = C.HRN_TRUNCATED
	Checksum    Code = C.HRN_CHECKSUM
	Unsupported Code = C.HRN_UNSUPPORTED
	Limit       Code = C.HRN_LIMIT
	Memory      Code = C.HRN_MEMORY
	Argument    Code = C.HRN_ARGUMENT
	Internal    Code = C.HRN_INTERNAL
)

// String is the code's name as messages and reports print it.
func (c Code) String() string {
	names := [...]string{"ok", "bad", "truncated", "checksum", "unsupported", "limit", "memory",
		"argument", "internal"}
	if c < 0 || int(c) >= len(names) {
		return fmt.Sprintf("code %d", int32(c))
	}
	return names[c]
}

// Error is a record that gave no pixels, or a plan that cannot be.
type Error struct {
	Code   Code
	Offset int64 // inside the record, -1 where unknown
	Text   string
}

func (e *Error) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("%s: %s", e.Code, e.Text)
	}
	return fmt.Sprintf("%s at byte %d: %s", e.Code, e.Offset, e.Text)
}

// failure copies a status that is not OK out of C memory; nil when it is OK. Not with C.GoString,
// which would move every caller's status to the heap.
func failure(status *C.hrn_status) error {
	if status.code == C.HRN_OK {
		return nil
	}
	text := (*[len(status.text)]byte)(unsafe.Pointer(&status.text))[:]
	if end := bytes.IndexByte(text, 0); end >= 0 {
		text = text[:end]
	}
	return &Error{Code: Code(status.code), Offset: int64(status.offset), Text: string(text)}
}
