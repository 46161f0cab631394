package native

/*
#include "native.h"
*/
import "C"

import (
	"bytes"
	"fmt"
	"unsafe"

	"github.com/headrace/headrace/internal/fault"
)

// Code says what kind of failure an Error is: some of the kinds of package fault, by the same numbers.
type Code = fault.Kind

// The codes of enum hrn_code: the bytes are wrong (Bad, Truncated, Checksum), they may be right but
// we do not read them (Unsupported, Limit), an op leaves no pixels (NoPixels), memory is short (Memory),
// the caller of this package is wrong (Argument), this package is wrong (Internal).
const (
	Bad         = fault.KindBadImage
	Truncated   = fault.KindTruncated
	Checksum    = fault.KindChecksum
	Unsupported = fault.KindUnsupported
	Limit       = fault.KindLimit
	NoPixels    = fault.KindNoPixels
	Memory      = fault.KindMemory
	Argument    = fault.KindArgument
	Internal    = fault.KindInternal
)

// The header must have the same numbers. A difference would be an index out of range, which does
// not compile.
var _ = [...][1]struct{}{
	{C.HRN_BAD - Bad: {}}, {C.HRN_TRUNCATED - Truncated: {}}, {C.HRN_CHECKSUM - Checksum: {}},
	{C.HRN_UNSUPPORTED - Unsupported: {}}, {C.HRN_LIMIT - Limit: {}}, {C.HRN_NO_PIXELS - NoPixels: {}},
	{C.HRN_MEMORY - Memory: {}}, {C.HRN_ARGUMENT - Argument: {}}, {C.HRN_INTERNAL - Internal: {}},
}

// Error says why a record gave no pixels, or why a plan is impossible.
type Error struct {
	Code   Code
	Offset int64 // inside the record, -1 if unknown
	Text   string
	Op     int      // the op of the plan that it is about, counted from 1; 0 for none
	View   int      // the view that has that plan, counted from 0
	Sides  [4]int32 // for a crop that does not fit: its height and width, and the most of each; else 0
}

// Error returns the sentence. Package fault defines its form.
func (e *Error) Error() string {
	text := e.Text
	if e.Op > 0 {
		text = fmt.Sprintf("op %d: %s", e.Op-1, text)
	}
	return fault.Sentence(e.FaultPlace(), e.Code.Family(), text)
}

// FaultKind and FaultPlace serve package fault.
func (e *Error) FaultKind() fault.Kind { return e.Code }

func (e *Error) FaultPlace() fault.Place { return fault.Place{Record: fault.None, Offset: e.Offset} }

// failure copies a status that is not OK out of C memory; nil if it is OK. It does not use
// C.GoString, which would move every caller's status to the heap.
func failure(status *C.hrn_status) error {
	if status.code == C.HRN_OK {
		return nil
	}
	text := (*[len(status.text)]byte)(unsafe.Pointer(&status.text))[:]
	if end := bytes.IndexByte(text, 0); end >= 0 {
		text = text[:end]
	}
	e := &Error{Code: Code(status.code), Offset: int64(status.offset), Text: string(text), Op: int(status.op) + 1, View: int(status.view)}
	if status.sides[0] > 0 {
		for i, side := range status.sides {
			e.Sides[i] = int32(side)
		}
	}
	return e
}
