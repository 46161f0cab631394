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

// families say who has to act. What was asked for, and what the system refused, has none.
var families = map[ErrorKind]fault.Family{
	KindInternal: fault.Internal,
	KindBadFile:  fault.Bad, KindTruncated: fault.Bad, KindChecksum: fault.Bad, KindDuplicateKey: fault.Bad, KindBadImage: fault.Bad,
	KindUnsupported: fault.Unsupported, KindLimit: fault.Unsupported,
}

// Family is what a sentence about an error of this kind begins with.
func (k ErrorKind) Family() fault.Family { return families[k] }

// Error says what is wrong, where, and what was expected and found.
type Error struct {
	Kind   ErrorKind
	File   string // empty where no file is concerned
	Record int64  // sample number, -1 where none is concerned
	Key    string // of the sample, empty where unknown
	Offset int64  // byte offset in File, -1 where unknown
	Text   string // one clause without the file's name, no final period
	Err    error  // what the operating system said, or nil
}

// Error is the sentence; package fault says its form.
func (e *Error) Error() string {
	return fault.Sentence(fault.Place{File: e.File, Record: e.Record, Key: e.Key, Offset: e.Offset}, e.Kind.Family(), e.Clause())
}

// Clause is the sentence without its place and family.
func (e *Error) Clause() string {
	if e.Err == nil {
		return e.Text
	}
	return e.Text + ": " + Reason(e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Reason is what an error says without operation and path, which the error around it has.
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
func NewError(kind ErrorKind, file, format string, a ...any) *Error {
	return &Error{Kind: kind, File: file, Record: -1, Offset: -1, Text: fmt.Sprintf(format, a...)}
}

// IOError wraps what the operating system said about a file.
func IOError(file, doing string, err error) *Error {
	return &Error{Kind: KindIO, File: file, Record: -1, Offset: -1, Text: doing, Err: err}
}

// sizeError is for a file that has not the size the manifest states. Its offset is where a shorter one
// ends, and where a longer one ought to.
func sizeError(file, what string, expected, found int64) error {
	e := &Error{Kind: KindTruncated, File: file, Record: -1, Offset: min(expected, found)}
	text := what + " is truncated, it ends here"
	if found > expected {
		e.Kind, text = KindBadFile, what+" is longer than the manifest says"
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
	var scarce *headroom.Error
	if errors.As(err, &scarce) {
		return scarce // not about the file
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
	e := NewError(kind, file, "%v", formats.Reason(err))
	var walk *formats.WalkError
	if errors.As(err, &walk) {
		e.Offset = walk.Offset
	}
	return e
}
