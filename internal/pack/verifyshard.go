package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// checkShard compares a shard's members with the index: one image for each row, in order, with the name that its key
// gives, and the label beside it.
// For a shard in a store the records are checked on the way, while their bytes are in memory.
func (v *verifier) checkShard(ctx context.Context, r *reader, n int) {
	shard := v.dataset.Shards()[n]
	path := v.dataset.ShardPath(n)
	at := func(record, offset int64, expected, found any, text string) {
		v.findings.add(Finding{File: path, Record: record, Key: v.keyOf(record), Offset: offset,
			Expected: fmt.Sprint(expected), Found: fmt.Sprint(found), Text: text})
	}
	next, end := v.ends[n]-shard.Rows, v.ends[n]
	f, size, err := v.openShard(ctx, r, n)
	if err != nil {
		v.note(err)
		return
	}
	away := v.dataset.Shard(n) != nil
	if away {
		defer func() { v.checkRowsOf(ctx, r, n, next, end) }() // checks the rows that the walk did not reach
	} else {
		defer f.Close()
	}
	if size != shard.Size {
		at(-1, size, shard.Size, size, "the shard's size in bytes")
	}
	// The container's own checksums come last, because they read all of it a second time.
	if v.dataset.Kind() == catalog.Contained {
		// Other contents of foreign containers are not checked; their rows are compared with the container's bytes.
		if ends, err := v.endsOf(ctx, f, n, size); err != nil {
			v.note(catalog.IOError(path, "cannot read the container", err))
		} else if found := fmt.Sprintf("%08x", ends); found != shard.Ends {
			at(-1, -1, shard.Ends, found, "the checksum of the container's first and last bytes")
		}
		v.checkOwn(ctx, f, n, size, at)
		return
	}
	// Rows are in the order of members, so one walk and one counter compare all of them.
	w := formats.NewTarWalker(f, size)
	due := int64(-1) // row of the last image, as long as its label may follow; otherwise -1
	for ctx.Err() == nil {
		m, err := w.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			v.walkError(path, next, err)
			return
		}
		if strings.HasSuffix(m.Name, ".cls") {
			v.checkLabel(f, path, due, m, at)
			due = -1
			continue
		}
		v.checkUnlabelled(due, at)
		// This comes before the comparison, which would use a row of the next shard.
		if next == end {
			at(-1, m.Header, "the end of the archive", m.Name, "a member that no row knows")
			return
		}
		v.checkMember(n, next, m, at)
		if away {
			v.checkRecords(ctx, r, next, next+1)
		}
		due, next = next, next+1
	}
	if ctx.Err() != nil {
		return
	}
	v.checkUnlabelled(due, at)
	if next != end {
		at(next, -1, fmt.Sprint(shard.Rows, " images"), shard.Rows-(end-next), "the archive ends early")
	}
	if offset, marked := w.End(); !marked {
		at(-1, offset, "two blocks of zeros", "the end of the file", "the archive's end is not marked")
	}
}

// openShard opens a shard, wherever it is, and returns its length. A shard in a store belongs to r.
// The size is the present one; the caller compares it with the manifest's.
func (v *verifier) openShard(ctx context.Context, r *reader, n int) (readable, int64, error) {
	if away := v.dataset.Shard(n); away != nil {
		if err := r.open(ctx, v.dataset.ShardPath(n), away); err != nil {
			return nil, 0, err
		}
		// If the length differs from the manifest's, the first read gives an error.
		_, err := r.file.ReadAt(make([]byte, min(1, away.Size())), 0)
		return r.file, away.Size(), err
	}
	path := v.dataset.ShardPath(n)
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, catalog.IOError(path, "cannot open the shard", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, catalog.IOError(path, "cannot stat the shard", err)
	}
	return f, info.Size(), nil
}

// endsOf returns the checksum of a container's ends. In a store they are fetched separately, because the pieces in
// which the rest is read would be several megabytes more.
// The index has this checksum without a walk of the container. If another file of the same length replaced it, the ends
// mostly differ.
func (v *verifier) endsOf(ctx context.Context, f io.ReaderAt, n int, size int64) (uint32, error) {
	if away := v.dataset.Shard(n); away != nil {
		f = readerAt(func(to []byte, offset int64) error { return away.ReadAt(ctx, to, offset) })
	}
	return catalog.EndsOf(f, size)
}

// readerAt makes an io.ReaderAt of a function that reads a whole range.
type readerAt func(to []byte, offset int64) error

// ReadAt reads all or returns an error, so callers need not check the count.
func (read readerAt) ReadAt(to []byte, offset int64) (int, error) {
	if err := read(to, offset); err != nil {
		return 0, err
	}
	return len(to), nil
}

// keyOf returns the key of a record. It is empty without a record, or if the index is damaged, which checkRows reports.
// The key is for people; an empty one means that there is none.
func (v *verifier) keyOf(record int64) string {
	if record < 0 {
		return ""
	}
	key, _ := v.dataset.Key(record)
	return key
}

// walkError reports where the archive cannot be walked any further.
// Later rows are checked by their places, which do not depend on headers.
func (v *verifier) walkError(path string, record int64, err error) {
	p := Finding{File: path, Record: record, Key: v.keyOf(min(record, v.dataset.Len()-1)), Offset: -1, Expected: "a tar header", Text: "the archive cannot be walked from here on"}
	var w *formats.WalkError
	if errors.As(err, &w) {
		p.Offset, p.Found = w.Offset, formats.Reason(w)
	}
	v.findings.add(p)
}

// checkMember compares one image's header with its row. Several things may be wrong at once, and each is reported.
// The expected name is made of the key; only the length of the extension affects it (formats.MemberName).
func (v *verifier) checkMember(shard int, record int64, m formats.TarMember, at func(record, offset int64, expected, found any, text string)) {
	s, key, ok := v.sample(record)
	if !ok {
		return
	}
	if int(s.Shard) != shard {
		at(record, m.Header, fmt.Sprint("shard ", s.Shard), fmt.Sprint("shard ", shard), "the record is in another shard than the index says")
	}
	if s.Offset != m.Offset {
		at(record, m.Header, s.Offset, m.Offset, "the offset of the record")
	}
	if s.Length != m.Size {
		at(record, m.Header, s.Length, m.Size, "the record's length in bytes")
	}
	dot := strings.LastIndexByte(m.Name, '.')
	if want := formats.MemberName(key, max(3, len(m.Name)-dot-1)); dot < 0 || m.Name[:dot] != want {
		at(record, m.Header, want, m.Name, "the member's name is not that of the key")
	}
}

// checkUnlabelled reports an image without a label after it if its row has one. A row without a label is not checked:
// its shard may have the label -1 or none (record.hasCls).
func (v *verifier) checkUnlabelled(record int64, at func(record, offset int64, expected, found any, text string)) {
	if record < 0 {
		return
	}
	if s, _, ok := v.sample(record); ok && s.Label != catalog.NoLabel {
		at(record, -1, s.Label, "none", "the label of the record is missing in the shard")
	}
}

// checkLabel compares a .cls member with the row before it. The label is in the shard and in the index, and a wrong one
// would be the worst kind of fault.
// Readers of WebDataset take the label from the shard; Headrace takes it from the index.
func (v *verifier) checkLabel(f io.ReaderAt, path string, record int64, m formats.TarMember, at func(record, offset int64, expected, found any, text string)) {
	if record < 0 {
		at(-1, m.Header, "an image", m.Name, "a label without an image before it")
		return
	}
	s, _, ok := v.sample(record)
	if !ok {
		return
	}
	// No label is that long, but a hostile member may be.
	text := make([]byte, min(m.Size, 32))
	if _, err := f.ReadAt(text, m.Offset); err != nil {
		v.note(catalog.IOError(path, "cannot read a label", err))
		return
	}
	if want := strconv.FormatInt(s.Label, 10); string(text) != want || m.Size > 32 {
		at(record, m.Offset, want, string(text), "the label in the shard is not that of the index")
	}
}
