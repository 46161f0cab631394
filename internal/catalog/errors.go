package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/mmap"
)

// Error says what is wrong, where, and what was expected and found.
type Error struct {
	Kind   fault.Kind
	File   string // "" if no file is concerned
	Record int64  // sample number, -1 if none is concerned
	Key    string // of the sample, "" if unknown
	Offset int64  // byte offset in File, -1 if unknown
	Text   string // one clause without the file's name, no final period
	Err    error  // what the operating system said, or nil
}

// Error returns the sentence; package fault defines its form.
func (e *Error) Error() string {
	return fault.Sentence(e.place(), e.Kind.Family(), e.Clause())
}

// Clause returns the sentence without place and family.
func (e *Error) Clause() string {
	if e.Err == nil {
		return e.Text
	}
	return e.Text + ": " + Reason(e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// FaultKind and FaultPlace are for package fault.
func (e *Error) FaultKind() fault.Kind { return e.Kind }

func (e *Error) FaultPlace() fault.Place { return e.place() }

func (e *Error) place() fault.Place {
	return fault.Place{File: e.File, Record: e.Record, Key: e.Key, Offset: e.Offset}
}

// Reason returns what an error says without operation and path, which the error around it already has.
func Reason(err error) string {
	var (
		system *fs.PathError
		link   *os.LinkError
		bytes  *mmap.Error
	)
	switch {
	case errors.As(err, &bytes):
		return bytes.Reason()
	case errors.As(err, &system):
		return system.Err.Error()
	case errors.As(err, &link):
		return link.Err.Error()
	}
	return err.Error()
}

// NewError makes an Error that concerns no record and no offset.
func NewError(kind fault.Kind, file, format string, a ...any) *Error {
	return &Error{Kind: kind, File: file, Record: -1, Offset: -1, Text: fmt.Sprintf(format, a...)}
}

// IOError wraps what the operating system said about a file. An error of an object in a store is already a sentence
// with its own kind.
func IOError(file, doing string, err error) *Error {
	if e := (*Error)(nil); errors.As(OutOfStore(err), &e) {
		own := *e
		return &own
	}
	return &Error{Kind: fault.KindIO, File: file, Record: -1, Offset: -1, Text: doing, Err: err}
}

// sizeError is for a file that does not have the size that the manifest states. Its offset is where a shorter file
// ends, and where a longer one should end.
func sizeError(file, what string, expected, found int64) error {
	e := &Error{Kind: fault.KindTruncated, File: file, Record: -1, Offset: min(expected, found)}
	text := what + " is truncated, it ends here"
	if found > expected {
		e.Kind, text = fault.KindBadFile, what+" is longer than the manifest says"
	}
	e.Text = fault.Differs(text, fmt.Sprintf("%d bytes", expected), found)
	return e
}

// FormatError gives an error of package formats its kind.
func FormatError(file string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return IOError(p.Path, "cannot "+p.Op, p.Err)
	}
	// A lack of this machine is reported as such, because the file is right.
	var scarce *headroom.Error
	if errors.As(err, &scarce) {
		return scarce // not about the file
	}
	e := NewError(fault.KindOf(err), file, "%v", formats.Reason(err))
	var walk *formats.WalkError
	if errors.As(err, &walk) {
		e.Offset = walk.Offset
	}
	return e
}
