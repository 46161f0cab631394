package mmap

import (
	"fmt"

	"github.com/headrace/headrace/internal/fault"
)

// What can be wrong with a file. Each of these comes wrapped in an *Error that says where.
var (
	// ErrBounds: the range was never inside the file, so the code that asked for it is wrong.
	ErrBounds = fault.New(fault.KindBadFile, "range outside the file")
	// ErrTruncated: the range was inside the file when it was opened and no longer is.
	ErrTruncated = fault.New(fault.KindTruncated, "file is truncated")
	// ErrLost: the range existed and could not be read when it was accessed: it was cut off and is there again, or its
	// page failed.
	ErrLost = fault.New(fault.KindIO, "the file was truncated while it was read")
	// ErrStale: the file is not the one that was recorded (size or modification time).
	ErrStale = fault.New(fault.KindBadFile, "file changed since it was recorded")
	// ErrNotRegular: a directory, FIFO, socket or device, which could block or never end.
	ErrNotRegular = fault.New(fault.KindBadFile, "not a regular file")
	// ErrTooLarge: the file exceeds the caller's limit or this machine's address space.
	ErrTooLarge = fault.New(fault.KindLimit, "file exceeds the limit")
	// ErrMemory: the system refused memory; Expected is how many bytes were asked for.
	ErrMemory = fault.New(fault.KindMemory, "not enough memory")
	// ErrClosed: the File was closed before this read began.
	ErrClosed = fault.New(fault.KindClosed, "file is closed")
	// ErrNoPopulate: the mapped backend was asked for, but the kernel cannot populate pages.
	ErrNoPopulate = fault.New(fault.KindUnsupported, "this kernel has no MADV_POPULATE_READ (Linux 5.14), use pread")
	// ErrHardware: the kernel has marked a page of the file as damaged memory.
	ErrHardware = fault.New(fault.KindIO, "hardware memory error")
)

// none stands in Offset, Expected and Found if there is nothing to say.
const none = -1

// Error says which operation failed on which file, and where. Offset is where the range begins. Expected and Found are
// sizes of the file in bytes, -1 if unknown. For ErrStale because of the time they are nanoseconds, and Op is opTime.
// For ErrMemory, Expected is the size asked for.
type Error struct {
	Op, Path                string
	Offset, Expected, Found int64
	Err                     error
}

// Error returns the sentence; package fault defines its form.
func (e *Error) Error() string {
	return fault.Sentence(e.FaultPlace(), e.FaultKind().Family(), "cannot "+e.Op+" it: "+e.Reason())
}

// FaultKind and FaultPlace are for package fault. An error that is not of this package comes from the system.
func (e *Error) FaultKind() fault.Kind {
	if kind := fault.KindOf(e.Err); kind != fault.KindInternal {
		return kind
	}
	return fault.KindIO
}

func (e *Error) FaultPlace() fault.Place {
	return fault.Place{File: e.Path, Record: none, Offset: e.Offset}
}

// Reason returns the text without operation, path and offset.
func (e *Error) Reason() string {
	unit := "bytes"
	if e.Op == opTime {
		unit = "ns"
	}
	switch {
	case e.Expected >= 0 && e.Found >= 0:
		return fmt.Sprintf("%v (expected %d %s, found %d)", e.Err, e.Expected, unit, e.Found)
	case e.Expected >= 0:
		return fmt.Sprintf("%v (%d %s)", e.Err, e.Expected, unit)
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Operations as they appear in Error.Op.
const (
	opOpen  = "open"
	opRead  = "read"
	opTime  = "use" // for a file whose time has changed
	opAlloc = "allocate memory for"
)
