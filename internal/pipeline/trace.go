package pipeline

import (
	"time"

	"github.com/headrace/headrace/internal/trace"
	"github.com/headrace/headrace/native"
)

// Trace writes everything from here on to a file, until EndTrace or Close. It returns the file's name: path, or path
// with a number. A trace that is under way ends.
func (l *Loader) Trace(path string) (string, error) {
	return l.BeginTrace(path, len(l.workers), l.counts, func() error {
		select {
		case <-l.closed:
			return ErrClosed
		default:
			return nil
		}
	})
}

// counts returns what a trace shows ten times a second.
func (l *Loader) counts() trace.Counts {
	s := l.Stats()
	return trace.Counts{Ready: s.Ready, Open: s.Open, Queued: s.QueuedRecords, Bytes: s.BytesRead}
}

// traced returns the trace that samples are noted in, or nil. It is read once for each sample. While there is a trace,
// the worker's native calls measure their times.
func (w *worker) traced() *trace.Trace {
	t := w.loader.Traced()
	if on := t != nil; on != w.timed {
		w.context.NoteTimes(on)
		w.timed = on
	}
	return t
}

// part has what a trace records about a sample, except its end.
type part struct {
	began      time.Time
	read       time.Duration // by the worker
	native     time.Duration // the one native call
	times      native.Times  // parts of that call; labels that are images make their own calls
	bytes      int64
	row, index int64
}

// note adds a sample to a trace.
func (w *worker) note(t *trace.Trace, d *draft, p *part, failed bool) {
	times := &p.times
	t.Worker(w.number).Note(trace.Event{
		Kind: trace.Sample, Failed: failed, Epoch: d.epoch, Step: d.step, Row: p.row, Index: p.index, Bytes: p.bytes,
		Begin: t.At(p.began), Took: time.Since(p.began), Read: p.read, Checksum: times.Checksum, Decode: times.Decode,
		Ops: max(0, p.native-times.Checksum-times.Decode-times.Write), Write: times.Write,
	})
}

// noteRun adds a run of images of an array to a trace.
func (w *worker) noteRun(t *trace.Trace, d *draft, first, count int64, began time.Time) {
	t.Worker(w.number).Note(trace.Event{Kind: trace.Run, Epoch: d.epoch, Step: d.step, Row: first, Count: count,
		Begin: t.At(began), Took: time.Since(began)})
}

// noteRead adds a record that was read ahead to a trace.
func (l *Loader) noteRead(reader int, r *record, began time.Time, took time.Duration) {
	if t := l.Traced(); t != nil {
		t.Reader(reader).Note(trace.Event{Kind: trace.Read, Epoch: r.draft.epoch, Step: r.draft.step, Row: r.i,
			Bytes: r.view.Length, Begin: t.At(began), Took: took})
	}
}
