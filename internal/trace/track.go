package trace

import (
	"sync"
	"time"
)

// Kind says what an event is of.
type Kind uint8

const (
	Sample Kind = iota // one, read perhaps and made
	Run                // of images of an array, made in one call
	Read               // a record, ahead
	Wait               // of the program for a batch
	Copy               // of a batch, to a device or into pinned memory
	Next               // the whole call that hands out a batch
	Kinds
)

// Event is what a thread did from Begin on, for Took. Times are those of CLOCK_MONOTONIC.
type Event struct {
	Kind        Kind
	Failed      bool
	Epoch, Step int64
	Row, Count  int64 // of the batch: the row, or the first of so many of a run
	Index       int64 // of the sample in the dataset
	Bytes       int64 // encoded
	Begin, Took time.Duration

	// Parts of a sample. They take turns; each is what its turns took together.
	Read, Checksum, Decode, Ops, Write time.Duration
}

// Numbers of tracks in the file.
const (
	firstWorker = 1
	firstReader = 1001
	firstThread = 2001
)

// Track is the events of one thread that are not in the file yet.
type Track struct {
	trace  *Trace
	id     int
	name   string
	number int

	mu      sync.Mutex // between the thread and the one that writes, which holds it for some ns
	events  []Event
	other   []Event // the writer's, which it gives back empty
	written bool    // its name is in the file; of the writer
}

// Note keeps an event until it is written, where there is room.
func (k *Track) Note(e Event) {
	k.mu.Lock()
	full := len(k.events) == trackEvents
	if !full {
		if k.events == nil {
			k.events = make([]Event, 0, trackEvents)
		}
		k.events = append(k.events, e)
	}
	k.mu.Unlock()
	if full {
		k.trace.lost.Add(1)
	}
}

// fetch hands out the events so far; they are the caller's until it fetches again.
func (k *Track) fetch() []Event {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events, k.other = k.other[:0], k.events
	return k.other
}
