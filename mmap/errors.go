package mmap

import (
	"fmt"

	"github.com/headrace/headrace/internal/fault"
)

// What can be wrong with a file. Each comes wrapped in an *Error that says where.
var (
	// ErrBounds: the range asked for was never inside the file, so whoever named it is wrong.
	ErrBounds = fault.New(fault.KindBadFile, "range outside the file")
	// ErrTruncated: the range was inside the file when it was opened and no longer is.
	ErrTruncated = fault.New(fault.KindTruncated, "file is truncated")
	// ErrLost: the range was there, and could not be read when it was looked at: it was cut off and is
	// there again, or its page failed.
	ErrLost = fault.New(fault.KindIO, "the file was truncated while it was read")
	// ErrStale: the file is not the one that was recorded (size or modification time).
	ErrStale = fault.New(fault.KindBadFile, "file changed since it was recorded")
	// ErrNotRegular: a directory, FIFO, socket or device, which could block or never end.
	ErrNotRegular = fault.New(fault.KindBadFile, "not a regular file")
	// ErrTooLarge: the file exceeds the caller's limit or this machine's address space.
	ErrTooLarge = fault.New(fault.KindLimit, "file exceeds the limit")
	// ErrMemory: the system refused memory; Expected says how many bytes were asked for.
	ErrMemory = fault.New(fault.KindMemory, "not enough memory")
	// ErrClosed: the File was closed before this read began.
	ErrClosed = fault.New(fault.KindClosed, "file is closed")
	// ErrNoPopulate: the mapped backend was asked for where the kernel cannot vouch for pages.
	ErrNoPopulate = fault.New(fault.KindUnsupported, "this kernel has no MADV_POPULATE_READ (Linux 5.14), use pread")
	// ErrHardware: the kernel has marked a page of the file as damaged memory.
	ErrHardware = fault.New(fault.KindIO, "hardware memory error")
)

// none stands in Offset, Expected and Found where there is nothing to say.
const none = -1

// Error says which operation failed on which file, and where. Offset is where the range begins.
// Expected and Found are sizes of the file in bytes (for ErrStale by time: nanoseconds, and Op
// is opTime; for ErrMemory: Expected is the size asked for), -1 where unknown.
type Error struct {
	Op, Path                string
	Offset, Expected, Found int64
	Err                     error
}

// Error is the sentence; package fault says its form.
func (e *Error) Error() string {
	return fault.Sentence(e.FaultPlace(), e.FaultKind().Family(), "cannot "+e.Op+" it: "+e.Reason())
}

// FaultKind and FaultPlace are for package fault. What is no error of this package is the system's.
func (e *Error) FaultKind() fault.Kind {
	if kind := fault.KindOf(e.Err); kind != fault.KindInternal {
		return kind
	}
	return fault.KindIO
}

func (e *Error) FaultPlace() fault.Place {
	return fault.Place{File: e.Path, Record: none, Offset: e.Offset}
}

// Reason is the text without operation, path and offset.
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
	opTime  = "use" // of a file whose time is another
	opAlloc = "allocate memory for"
)
