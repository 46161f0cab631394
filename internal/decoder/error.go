package decoder

import (
	"errors"
	"fmt"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
)

var (
	// ErrTimeout: a work or a task is not finished yet.
	ErrTimeout = errors.New("not all images are decoded yet")
	// ErrClosed: the work or the decoder was closed before.
	ErrClosed = fault.New(fault.KindClosed, "closed before the image was decoded")
	// ErrFull: as many tasks as may wait have been submitted.
	ErrFull = fault.New(fault.KindLimit, "too many images were submitted ahead")
)

// Error is an error of a task whose file has a name.
type Error struct {
	Code   fault.Kind
	File   string
	Offset int64 // in File, -1 if unknown
	Text   string
	Err    error // the error of the stage that failed
}

// Error returns the sentence; package fault defines its form.
func (e *Error) Error() string { return fault.Sentence(e.FaultPlace(), e.Code.Family(), e.Text) }

func (e *Error) Unwrap() error { return e.Err }

// FaultKind and FaultPlace are for package fault.
func (e *Error) FaultKind() fault.Kind { return e.Code }

func (e *Error) FaultPlace() fault.Place {
	return fault.Place{File: e.File, Record: fault.None, Offset: e.Offset}
}

// named adds the file's name to an error of the decoder, which knows only bytes.
func named(err error, file string) error {
	if err == nil || file == "" || fault.PlaceOf(err).File != "" {
		return err
	}
	e := &Error{Code: fault.KindOf(err), File: file, Offset: fault.PlaceOf(err).Offset, Text: err.Error(), Err: err}
	var pixels *native.Error
	if errors.As(err, &pixels) {
		e.Text = pixels.Text // the sentence already has family and offset
	}
	return e
}

// oversized says of a file what package native says of bytes in memory.
func oversized(err error, file string, limit int64) error {
	var found *mmap.Error
	if !errors.Is(err, mmap.ErrTooLarge) || !errors.As(err, &found) {
		return err
	}
	return &Error{Code: fault.KindLimit, File: file, Offset: fault.None, Err: err,
		Text: fmt.Sprintf("the record has %d bytes, max_record_bytes is %d", found.Found, limit)}
}
