package decoder

import (
	"time"

	"github.com/headrace/headrace/internal/trace"
)

// Trace writes everything from now on to a file, until EndTrace or Close. It returns the file's name: path, or path
// with a number. A trace that was under way ends. A work counts as a batch, numbered from 0.
func (d *Decoder) Trace(path string) (string, error) {
	return d.BeginTrace(path, len(d.workers), d.counts, func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.closing {
			return ErrClosed
		}
		return nil
	})
}

// counts are the values that a trace shows ten times a second.
func (d *Decoder) counts() trace.Counts {
	s := d.Stats()
	return trace.Counts{Ready: s.Finished, Open: s.Works + s.Finished, Queued: s.Tasks, Bytes: s.BytesRead}
}

// traced returns the trace in which an image is noted, or nil. The worker's native calls note their times while there
// is a trace.
func (w *worker) traced() *trace.Trace {
	t := w.decoder.Traced()
	if on := t != nil; on != w.timed {
		w.context.NoteTimes(on)
		w.timed = on
	}
	return t
}

// note adds an image of the unit to a trace: task i, and the tasks after it that were made with it.
func (w *worker) note(t *trace.Trace, i int, began time.Time, read time.Duration, bytes int64) {
	u := &w.unit
	e := trace.Event{Kind: trace.Sample, Failed: u.results[i].Err != nil, Step: u.work.number, Row: int64(u.first + i),
		Index: int64(u.tasks[i].key.Sample), Bytes: bytes, Begin: t.At(began), Took: time.Since(began), Read: read}
	if w.called > 0 {
		times := w.context.Times()
		e.Checksum, e.Decode, e.Write = times.Checksum, times.Decode, times.Write
		e.Ops = max(0, w.called-times.Checksum-times.Decode-times.Write)
	}
	t.Worker(w.number).Note(e)
}
