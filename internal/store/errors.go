package store

import (
	"errors"
	"fmt"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/mmap"
)

// explain adds file and record to an error of package mmap.
func explain(err error, path string, record int64) *catalog.Error {
	e := &catalog.Error{Kind: fault.KindIO, File: path, Record: record, Offset: -1, Text: "cannot read it", Err: err}
	// If a reader is closed, we closed it, and the file is not at fault.
	if kind := fault.KindOf(err); kind != fault.KindInternal && kind != fault.KindClosed {
		e.Kind = kind
	}
	var found *mmap.Error
	if errors.As(err, &found) {
		e.Offset = found.Offset
		// If the file is truncated, its end is the place to look at, and not the beginning of the record.
		if e.Kind == fault.KindTruncated && found.Found >= 0 {
			e.Offset = found.Found
		}
	}
	return e
}

// changed makes the error of a file that is not the one that was indexed.
func changed(kind fault.Kind, path string, record int64, what string) error {
	return &catalog.Error{Kind: kind, File: path, Record: record, Offset: -1, Text: what + catalog.IndexAgain}
}

// refuse makes an error that does not come from the file system.
func (s *Store) refuse(sample catalog.Sample, kind fault.Kind, format string, a ...any) error {
	path, err := s.dataset.Path(sample.Index)
	if err != nil || (s.kind(sample).InShards() && int(sample.Shard) >= len(s.shards.list)) {
		path = s.dataset.Holder(sample.Index).Root()
	}
	return &catalog.Error{Kind: kind, File: path, Record: sample.Index, Offset: sample.Offset, Text: fmt.Sprintf(format, a...)}
}

func isClosed(err error) bool { return errors.Is(err, mmap.ErrClosed) }

// sizes makes the clause about a file with a wrong size.
func sizes(what string, expected, found int64) string {
	return fault.Differs(what, fmt.Sprintf("%d bytes", expected), found)
}
