package pack

import (
	"context"

	"github.com/headrace/headrace/internal/catalog"
)

// fileAway is a single object of a folder in a store that is compared with its row of the index.
// It takes the place of the open file of datasets on disk: reader.checksum and load need only an io.ReaderAt.
type fileAway struct {
	*ahead
	sample  catalog.Sample
	finding Finding
}

// Close implements io.Closer; an object has nothing open.
func (f *fileAway) Close() error { return nil }

// checkFilesAway is checkRecords for single objects in a store. They are requested ahead, because a request mostly
// waits.
// The order is that of rows, and errors become findings about their rows.
func (v *verifier) checkFilesAway(ctx context.Context, r *reader, first, end int64) {
	ctx, cancel := context.WithCancel(ctx)
	var queue []*fileAway
	defer func() {
		cancel()
		for _, f := range queue {
			f.wait()
		}
	}()
	threads := v.config.threads()
	// All threads do this at once, so each has its part of what may be requested ahead.
	files, most, held := max(1, filesAhead/threads), bytesAhead/int64(threads), int64(0)
	for next := first; (next < end || len(queue) > 0) && ctx.Err() == nil; {
		for ; next < end && len(queue) < files && (len(queue) == 0 || held < most); next++ {
			if f := v.ask(ctx, next); f != nil {
				queue, held = append(queue, f), held+int64(len(f.data))
			}
		}
		if len(queue) == 0 {
			return // the rest of the index is damaged, which checkRows reports
		}
		f := queue[0]
		queue, held = queue[1:], held-int64(len(f.data))
		v.checkFileAway(r, f)
	}
}

// ask requests the object of row i, which must have the length of the index; nil if its batch of the index is damaged.
// The goroutine that sends the request opens the object.
func (v *verifier) ask(ctx context.Context, i int64) *fileAway {
	s, key, ok := v.sample(i)
	if !ok {
		return nil
	}
	path, err := v.dataset.Path(i)
	if err != nil {
		return nil
	}
	asked := askFor(ctx, s.Length, func(to []byte, offset int64) error {
		object, err := v.dataset.FileAway(s)
		if err != nil {
			return err
		}
		return object.ReadAt(ctx, to, offset)
	})
	return &fileAway{ahead: asked, sample: s, finding: Finding{File: path, Record: i, Key: key, Offset: s.Offset}}
}

// checkFileAway compares an object that was requested.
// A cancelled context gives no finding, because the job ends.
func (v *verifier) checkFileAway(r *reader, f *fileAway) {
	if f.wait(); f.ctx.Err() != nil {
		return
	}
	if f.err != nil {
		f.finding.Expected, f.finding.Found, f.finding.Text = "the file that was indexed", catalog.Reason(f.err), "the file cannot be read"
		v.findings.add(f.finding)
		return
	}
	seek := v.seekRecord(r, f.sample, f.finding.Key)
	r.file, r.path, r.size = f, f.finding.File, f.sample.Length
	v.checkRecord(r, f.sample, f.finding, seek)
	// This file is released, so that the next record opens its own.
	r.file, r.path = nil, ""
	v.findings.track.add(1, f.sample.Length, 0)
	v.bytes.Add(f.sample.Length)
}
