package pack

import (
	"sync/atomic"

	"github.com/headrace/headrace/internal/headroom"
)

// Progress is how far a job is.
// Faults are counted as they are found, listed or not.
type Progress struct {
	Done   int64 `json:"done"`   // samples finished
	Total  int64 `json:"total"`  // -1 while unknown
	Bytes  int64 `json:"bytes"`  // encoded bytes handled
	Faults int64 `json:"faults"` // samples or places found faulty
}

// Tracker carries progress from a job to whoever watches it. A nil Tracker is of use too.
// A job may be called without one, and then counts nowhere. Numbers and texts are atomic: the job writes, another
// thread reads.
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

// setTotal, like the methods below, may be called on nil: nobody watches then.
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

// fewer notes that not all threads that were wanted are at work.
// The last reason stands: one job starts its threads once.
func (t *Tracker) fewer(got, wanted int, short error) {
	if t != nil && got < wanted {
		text := headroom.Fewer(got, wanted, short)
		t.warning.Store(&text)
	}
}

// leaves notes what of a job's work could not be removed.
// The clause is for a job whose error the caller does not see, such as one that was ended.
func (t *Tracker) leaves(clause string) {
	if t != nil && clause != "" {
		t.left.Store(&clause)
	}
}

// Left is a clause about what could not be removed of a job that did not come to its end; empty where all was.
func (t *Tracker) Left() string {
	if text := t.left.Load(); text != nil {
		return *text
	}
	return ""
}

// Warning says that fewer threads are at work than should be; empty where that is not so.
func (t *Tracker) Warning() string {
	if text := t.warning.Load(); text != nil {
		return *text
	}
	return ""
}
