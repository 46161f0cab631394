package pack

import (
	"sync/atomic"

	"github.com/headrace/headrace/internal/headroom"
)

// Progress says how far a job is.
// Faults are counted when they are found, even those that are not listed.
type Progress struct {
	Done   int64 `json:"done"`   // samples finished
	Total  int64 `json:"total"`  // -1 if unknown
	Bytes  int64 `json:"bytes"`  // encoded bytes handled
	Faults int64 `json:"faults"` // samples or places with faults
}

// Tracker passes progress from a job to an observer. A nil Tracker can be used too.
// A job may be called without one, and then counts nowhere. Numbers and texts are atomic, because the job writes them
// while another thread reads.
type Tracker struct {
	done, total, bytes, faults atomic.Int64
	warning, left              atomic.Pointer[string]
}

// NewTracker starts with an unknown total.
func NewTracker() *Tracker {
	t := new(Tracker)
	t.total.Store(-1)
	return t
}

// Progress may be called at any time from any goroutine.
// The four numbers are read one after the other, and may be of different moments.
func (t *Tracker) Progress() Progress {
	return Progress{t.done.Load(), t.total.Load(), t.bytes.Load(), t.faults.Load()}
}

// setTotal, like the methods below, may be called on nil: then nobody observes.
func (t *Tracker) setTotal(n int64) {
	if t != nil {
		t.total.Store(n)
	}
}

func (t *Tracker) add(samples, bytes, faults int64) {
	if t != nil {
		t.done.Add(samples)
		t.bytes.Add(bytes)
		t.faults.Add(faults)
	}
}

// fewer notes that fewer threads are at work than were wanted.
// Only the last reason is kept, because a job starts its threads once.
func (t *Tracker) fewer(got, wanted int, short error) {
	if t != nil && got < wanted {
		text := headroom.Fewer(got, wanted, short)
		t.warning.Store(&text)
	}
}

// leaves notes what could not be removed of a job's work.
// The clause is for a job whose error the caller does not see, such as one that was ended.
func (t *Tracker) leaves(clause string) {
	if t != nil && clause != "" {
		t.left.Store(&clause)
	}
}

// Left returns a clause about what could not be removed of an unfinished job; empty if all was removed.
func (t *Tracker) Left() string {
	if text := t.left.Load(); text != nil {
		return *text
	}
	return ""
}

// Warning says that fewer threads are at work than wanted; empty if all are.
func (t *Tracker) Warning() string {
	if text := t.warning.Load(); text != nil {
		return *text
	}
	return ""
}
