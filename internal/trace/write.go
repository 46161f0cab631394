package trace

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// writer writes the file: the JSON array of the Trace Event Format. Only one goroutine uses it.
type writer struct {
	file   *os.File
	pid    int
	most   int64 // bytes of the file
	size   int64 // bytes that were handed to the file
	buffer []byte
	line   int // where the event that is being made begins
	begun  bool
	full   bool
	left   int64 // events left out since it is full
	failed error

	last  time.Duration // when the counters were last read
	bytes int64         // the bytes that they said
}

// flushBytes is how much is written at once.
const flushBytes = 64 << 10

// process begins the array.
func (w *writer) process() {
	w.begin("M", "process_name", 0)
	w.buffer = append(w.buffer, `,"args":{"name":`...)
	w.buffer = strconv.AppendQuoteToASCII(w.buffer, fmt.Sprintf("headrace %d", w.pid))
	w.done()
}

// room says whether there is room for events of a thread. If not, the file says so once.
func (w *writer) room(events int64) bool {
	if w.failed == nil && !w.full && w.size+int64(len(w.buffer)) > w.most-tail {
		w.full = true
	}
	if w.full || w.failed != nil {
		w.left += events
		return false
	}
	return true
}

// begin writes the beginning of every event.
func (w *writer) begin(phase, name string, track int) {
	separator := ",\n"
	if !w.begun {
		separator, w.begun = "[\n", true
	}
	w.line = len(w.buffer)
	w.buffer = append(w.buffer, separator...)
	w.buffer = append(w.buffer, `{"ph":"`...)
	w.buffer = append(w.buffer, phase...)
	w.buffer = append(w.buffer, `","name":"`...)
	w.buffer = append(w.buffer, name...)
	w.buffer = append(w.buffer, `","pid":`...)
	w.buffer = strconv.AppendInt(w.buffer, int64(w.pid), 10)
	w.buffer = append(w.buffer, `,"tid":`...)
	w.buffer = strconv.AppendInt(w.buffer, int64(track), 10)
}

// microseconds writes a time with the nanoseconds behind the point. Times of CLOCK_MONOTONIC are positive.
func (w *writer) microseconds(name string, d time.Duration) {
	w.number(name, int64(d)/1000)
	rest := int64(d) % 1000
	w.buffer = append(w.buffer, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
}

func (w *writer) number(name string, value int64) {
	w.buffer = append(w.buffer, ',', '"')
	w.buffer = append(w.buffer, name...)
	w.buffer = append(w.buffer, '"', ':')
	w.buffer = strconv.AppendInt(w.buffer, value, 10)
}

// span writes a complete event of a batch except for its end, so that arguments can follow.
func (w *writer) span(track int, name string, e *Event, from, took time.Duration) {
	w.begin("X", name, track)
	w.microseconds("ts", from)
	w.microseconds("dur", max(took, 0))
	w.buffer = append(w.buffer, `,"args":{"epoch":`...)
	w.buffer = strconv.AppendInt(w.buffer, e.Epoch, 10)
	w.number("batch", e.Step)
}

func (w *writer) done() { w.end("}}") }

// page is what the kernel writes as a whole, even for a process that is killed meanwhile.
const page = 4096

// end completes an event. No event lies across two pages, so the file of a process that was killed ends after a whole
// event.
func (w *writer) end(text string) {
	w.buffer = append(w.buffer, text...)
	first, last := w.size+int64(w.line), w.size+int64(len(w.buffer))-1
	if first/page != last/page {
		w.buffer = slices.Insert(w.buffer, w.line, spaces[:page-first%page]...)
	}
}

var spaces = bytes.Repeat([]byte{' '}, page)

// track writes the events of a track.
func (w *writer) track(k *Track) {
	events := k.fetch()
	if len(events) > 0 && !k.written && w.room(0) {
		k.written = true
		w.begin("M", "thread_name", k.id)
		w.buffer = append(w.buffer, `,"args":{"name":"`...)
		w.buffer = append(w.buffer, k.name...)
		w.buffer = append(w.buffer, ' ')
		w.buffer = strconv.AppendInt(w.buffer, int64(k.number), 10)
		w.end(`"}}`)
	}
	for i := range events {
		if !w.room(1) {
			w.left += int64(len(events) - i - 1)
			return
		}
		w.event(k.id, &events[i])
		if len(w.buffer) >= flushBytes {
			w.flush()
		}
	}
}

var names = [Kinds]string{Sample: "sample", Run: "run", Read: "read", Wait: "wait", Copy: "copy", Next: "next"}

func (w *writer) event(track int, e *Event) {
	w.span(track, names[e.Kind], e, e.Begin, e.Took)
	switch e.Kind {
	case Sample:
		w.number("row", e.Row)
		w.number("index", e.Index)
		w.number("bytes", e.Bytes)
		if e.Failed {
			w.number("failed", 1)
		}
		w.done()
		w.parts(track, e)
	case Run:
		w.number("row", e.Row)
		w.number("images", e.Count)
		w.done()
		w.rows(track, e)
	case Read:
		w.number("row", e.Row)
		w.number("bytes", e.Bytes)
		w.done()
	default:
		w.done()
	}
}

// parts writes the parts of a sample one after the other, each as long as its turns took together. The clocks of C and
// Go are read at different moments, so the last part is cut where the sample ends.
func (w *writer) parts(track int, e *Event) {
	at, end := e.Begin, e.Begin+e.Took
	for _, part := range [...]struct {
		name   string
		took   time.Duration
		always bool
	}{{"read", e.Read, false}, {"checksum", e.Checksum, false}, {"decode", e.Decode, !e.Failed}, {"ops", e.Ops, false}, {"write", e.Write, false}} {
		took := min(part.took, end-at)
		if took <= 0 && !part.always {
			continue
		}
		w.span(track, part.name, e, at, took)
		w.done()
		at += max(took, 0)
	}
}

// rows writes the rows of a run, which were made in one call: each has an equal part of the time.
func (w *writer) rows(track int, e *Event) {
	for i := range e.Count {
		if !w.room(1) {
			w.left += e.Count - i - 1
			return
		}
		from, to := e.Took*time.Duration(i)/time.Duration(e.Count), e.Took*time.Duration(i+1)/time.Duration(e.Count)
		w.span(track, "decode", e, e.Begin+from, to-from)
		w.number("row", e.Row+i)
		w.done()
	}
}

// counters writes how full the queues are and how fast bytes come.
func (w *writer) counters(at time.Duration, c Counts) {
	if !w.room(0) {
		return
	}
	w.counter(at, "batches ready", int64(c.Ready))
	w.counter(at, "batches open", int64(c.Open))
	w.counter(at, "records queued", int64(c.Queued))
	w.counter(at, "bytes read", c.Bytes)
	if since := at - w.last; w.last > 0 && since > 0 {
		w.counter(at, "bytes a second", int64(float64(c.Bytes-w.bytes)/since.Seconds()))
	}
	w.last, w.bytes = at, c.Bytes
}

func (w *writer) counter(at time.Duration, name string, value int64) {
	w.begin("C", name, 0)
	w.microseconds("ts", at)
	w.buffer = append(w.buffer, `,"args":{"value":`...)
	w.buffer = strconv.AppendInt(w.buffer, value, 10)
	w.done()
}

// say writes a mark across all tracks.
func (w *writer) say(at time.Duration, text string) {
	w.begin("i", text, 0)
	w.microseconds("ts", at)
	w.end(`,"s":"g"}`)
}

// flush hands the buffer to the file. The first failure ends the trace, because what follows would not be valid JSON.
func (w *writer) flush() {
	for left := w.buffer; w.failed == nil && len(left) > 0; {
		n, err := w.file.Write(left[:min(int64(len(left)), page-w.size%page)])
		w.size += int64(n)
		w.failed, left = err, left[n:]
	}
	w.buffer = w.buffer[:0]
}

// close says what was left out, and ends the array.
func (w *writer) close(at time.Duration, lost int64) error {
	if w.full {
		w.say(at, fmt.Sprintf("full at %d bytes: %d events left out", w.most, w.left))
	}
	if lost > 0 {
		w.say(at, fmt.Sprintf("%d events left out: more at once than the trace has room for", lost))
	}
	w.buffer = append(w.buffer, "\n]\n"...)
	w.flush()
	if w.failed != nil {
		w.cut(at)
	}
	if err := w.file.Close(); w.failed == nil {
		w.failed = err
	}
	return w.failed
}

// cut ends the array at the end of a whole page, in a file that could not be written further. What is cut off makes
// room for the end on a full disk; if its blocks are larger than a page, somewhat more is cut.
func (w *writer) cut(at time.Duration) {
	whole := w.size / page * page
	for _, pages := range [...]int64{0, 1, 64} {
		from := max(whole-pages*page, 0)
		w.size, w.buffer, w.begun = from, w.buffer[:0], from > 0
		w.say(at, "what follows is missing: "+reason(w.failed))
		w.buffer = append(w.buffer, "\n]\n"...)
		if w.file.Truncate(from) != nil {
			return
		}
		if _, err := w.file.WriteAt(w.buffer, from); err == nil {
			return
		}
		_ = w.file.Truncate(from) // a part of the end is not valid JSON
	}
}

// reason returns an error without the file's name, because a name may contain a quotation mark.
func reason(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return "it could not be written"
}
