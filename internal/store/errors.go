package store

import (
	"errors"
	"fmt"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/mmap"
)

// explain says which record an error of package mmap concerns.
func explain(err error, path string, record int64) error {
	e := &catalog.Error{Kind: fault.KindIO, File: path, Record: record, Offset: -1, Text: "cannot read it", Err: err}
	// A reader that is closed is closed by us, and no fault of the file.
	if kind := fault.KindOf(err); kind != fault.KindInternal && kind != fault.KindClosed {
		e.Kind = kind
	}
	var found *mmap.Error
	if errors.As(err, &found) {
		e.Offset = found.Offset
		// Where the file ends is the place to look at, not where the record would have begun.
		if e.Kind == fault.KindTruncated && found.Found >= 0 {
			e.Offset = found.Found
		}
	}
	return e
}

// changed is the error of a file that is not the one that was indexed.
func changed(kind fault.Kind, path string, record int64, what string) error {
	return &catalog.Error{Kind: kind, File: path, Record: record, Offset: -1, Text: what + catalog.IndexAgain}
}

// refuse is an error that no file system said.
func (s *Store) refuse(sample catalog.Sample, kind fault.Kind, format string, a ...any) error {
	path, err := s.dataset.Path(sample.Index)
	if err != nil || (s.kind(sample).InShards() && int(sample.Shard) >= len(s.shards.list)) {
		path = s.dataset.Holder(sample.Index).Root()
	}
	return &catalog.Error{Kind: kind, File: path, Record: sample.Index, Offset: sample.Offset, Text: fmt.Sprintf(format, a...)}
}

func isClosed(err error) bool { return errors.Is(err, mmap.ErrClosed) }

// sizes is the clause of a file that has not the size it ought to have.
func sizes(what string, expected, found int64) string {
	return fault.Differs(what, fmt.Sprintf("%d bytes", expected), found)
}
