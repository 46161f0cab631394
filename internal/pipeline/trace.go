package pipeline

import (
	"time"

	"github.com/headrace/headrace/internal/trace"
	"github.com/headrace/headrace/native"
)

// Trace has everything from here on written to a file, until EndTrace or Close, and returns its name: path,
// or path with a number. A trace that was under way ends.
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

// counts are what a trace shows ten times a second.
func (l *Loader) counts() trace.Counts {
	s := l.Stats()
	return trace.Counts{Ready: s.Ready, Open: s.Open, Queued: s.QueuedRecords, Bytes: s.BytesRead}
}

// traced is the trace that a sample is noted in, or nil: one look for each. The native calls of the
// worker note their times while there is one.
func (w *worker) traced() *trace.Trace {
	t := w.loader.Traced()
	if on := t != nil; on != w.timed {
		w.context.NoteTimes(on)
		w.timed = on
	}
	return t
}

// part is what a trace says of a sample besides its time.
type part struct {
	began      time.Time
	read       time.Duration // by the worker
	native     time.Duration // in the one call, and
	times      native.Times  // what its parts took: labels that are images make calls of their own
	bytes      int64
	row, index int64
}

// note puts a sample into a trace.
func (w *worker) note(t *trace.Trace, d *draft, p *part, failed bool) {
	times := &p.times
	t.Worker(w.number).Note(trace.Event{
		Kind: trace.Sample, Failed: failed, Epoch: d.epoch, Step: d.step, Row: p.row, Index: p.index, Bytes: p.bytes,
		Begin: t.At(p.began), Took: time.Since(p.began), Read: p.read, Checksum: times.Checksum, Decode: times.Decode,
		Ops: max(0, p.native-times.Checksum-times.Decode-times.Write), Write: times.Write,
	})
}

// noteRun puts a run of images of an array into a trace.
func (w *worker) noteRun(t *trace.Trace, d *draft, first, count int64, began time.Time) {
	t.Worker(w.number).Note(trace.Event{Kind: trace.Run, Epoch: d.epoch, Step: d.step, Row: first, Count: count,
		Begin: t.At(began), Took: time.Since(began)})
}

// noteRead puts a record that was read ahead into a trace.
func (l *Loader) noteRead(reader int, r *record, began time.Time, took time.Duration) {
	if t := l.Traced(); t != nil {
		t.Reader(reader).Note(trace.Event{Kind: trace.Read, Epoch: r.draft.epoch, Step: r.draft.step, Row: r.i,
			Bytes: r.view.Length, Begin: t.At(began), Took: took})
	}
}
