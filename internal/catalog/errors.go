package catalog

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/headrace/headrace/internal/formats"
)

// ErrorKind groups errors by what a caller would do about them.
type ErrorKind uint8

// Every error of this package, and of package pack, has one of these.
const (
	KindInternal     ErrorKind = iota
	KindArgument               // the caller asks for something impossible
	KindBadFile                // a file is not what it claims to be
	KindTruncated              // a file ends before it should
	KindChecksum               // stored and found CRC-32C differ
	KindUnsupported            // valid, but not read by this version
	KindLimit                  // a limit was met
	KindIO                     // the operating system refused
	KindEmpty                  // no sample was found
	KindDuplicateKey           // two samples of one key
	KindBadImage               // a record is no valid image (only where faults are refused)
	KindMemory                 // memory is short
)

// Error says what is wrong, where, and what was expected and found.
type Error struct {
	Kind   ErrorKind
	File   string // empty where no file is concerned
	Record int64  // sample number, -1 where none is concerned
	Offset int64  // byte offset in File, -1 where unknown
	Text   string // one clause without the file's name, no final period
	Err    error  // what the operating system said, or nil
}

func (e *Error) Error() string {
	s := e.Text
	if e.Err != nil {
		s = fmt.Sprintf("%s: %v", s, reason(e.Err))
	}
	if e.Offset >= 0 {
		s = fmt.Sprintf("at byte %d: %s", e.Offset, s)
	}
	if e.Record >= 0 {
		s = fmt.Sprintf("record %d: %s", e.Record, s)
	}
	if e.File != "" {
		s = fmt.Sprintf("%s: %s", e.File, s)
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// reason drops operation and path from an error of the operating system: File has them.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// NewError makes an Error that concerns no record and no offset.
func NewError(kind ErrorKind, file, format string, a ...any) *Error {
	return &Error{Kind: kind, File: file, Record: -1, Offset: -1, Text: fmt.Sprintf(format, a...)}
}

// IOError wraps what the operating system said about a file.
func IOError(file, doing string, err error) *Error {
	return &Error{Kind: KindIO, File: file, Record: -1, Offset: -1, Text: doing, Err: err}
}

// FormatError gives an error of package formats its kind.
func FormatError(file string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return IOError(p.Path, "cannot "+p.Op, p.Err)
	}
	kind := KindInternal
	for _, k := range []struct {
		is   error
		kind ErrorKind
	}{
		{formats.ErrEmpty, KindEmpty}, {formats.ErrBad, KindBadFile}, {formats.ErrTruncated, KindTruncated},
		{formats.ErrUnsupported, KindUnsupported}, {formats.ErrLimit, KindLimit},
	} {
		if errors.Is(err, k.is) {
			kind = k.kind
		}
	}
	return NewError(kind, file, "%v", err)
}
