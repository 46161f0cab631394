// Package formats reads the containers that datasets of images come in, each kind in its own files: image folders,
// tars, zips, TFRecords, RecordIO, betons, MDS, LMDB, LitData, Arrow and Parquet.
//
// It walks a container and yields its records: names, and the places of bytes (offset and length in the file, or in a
// compressed block of it). It also writes tars, the only container that Headrace itself makes. It does not know pixels,
// loaders, indexes or batches, nor which column is an image (package scan).
package formats

import (
	"errors"
	"strings"

	"github.com/headrace/headrace/internal/fault"
)

// These are the ways in which a container can be wrong. Errors of this package wrap one of them, or an *fs.PathError if
// the operating system refused.
var (
	ErrEmpty       = fault.New(fault.KindEmpty, "empty")             // the container is fine and holds no sample
	ErrBad         = fault.New(fault.KindBadFile, "bad")             // the bytes are not what the format asks for
	ErrTruncated   = fault.New(fault.KindTruncated, "truncated")     // the bytes end before the format says they do
	ErrUnsupported = fault.New(fault.KindUnsupported, "unsupported") // valid, but not read here; the text names the kind
	ErrLimit       = fault.New(fault.KindLimit, "limit")             // a limit was met; the text names it and both numbers
)

// Reason returns the text of an error of this package without its place, which a WalkError has as a number, and without
// the word of the wrapped sentinel, which the caller's own kind expresses.
func Reason(err error) string {
	var walk *WalkError
	if errors.As(err, &walk) {
		err = walk.Err
	}
	text := err.Error()
	for _, sentinel := range []error{ErrEmpty, ErrBad, ErrTruncated, ErrUnsupported, ErrLimit} {
		if errors.Is(err, sentinel) {
			text = strings.TrimPrefix(text, sentinel.Error()+": ")
		}
	}
	return text
}
