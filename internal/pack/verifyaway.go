package pack

import (
	"context"

	"github.com/headrace/headrace/internal/catalog"
)

// fileAway is a single object of a folder in a store that is compared with its row of the index.
// It stands where an open file stands for datasets on disk: reader.checksum and load go by io.ReaderAt.
type fileAway struct {
	*ahead
	sample  catalog.Sample
	finding Finding
}

// Close is io.Closer's: nothing is open of an object.
func (f *fileAway) Close() error { return nil }

// checkFilesAway is checkRecords of single objects in a store, which are asked for ahead: a request waits most of
// the time.
// The order is that of rows, and errors are findings of their rows.
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
	// All threads do this at once, so that each has its part of what may be under way.
	files, most, held := max(1, filesAhead/threads), bytesAhead/int64(threads), int64(0)
	for next := first; (next < end || len(queue) > 0) && ctx.Err() == nil; {
		for ; next < end && len(queue) < files && (len(queue) == 0 || held < most); next++ {
			if f := v.ask(ctx, next); f != nil {
				queue, held = append(queue, f), held+int64(len(f.data))
			}
		}
		if len(queue) == 0 {
			return // the index is wrong from here on, which checkRows says
		}
		f := queue[0]
		queue, held = queue[1:], held-int64(len(f.data))
		v.checkFileAway(r, f)
	}
}

// ask sends the request for the object of row i, which has to be as long as the index says; nil where its batch of the
// index is wrong.
// The object is opened when its request is sent, in the goroutine of that.
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

// checkFileAway compares an object that was asked for.
// A cancelled context is no finding: the job ends.
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
	// Let go of, so that the next record opens its own.
	r.file, r.path = nil, ""
	v.findings.track.add(1, f.sample.Length, 0)
	v.bytes.Add(f.sample.Length)
}
