package trace

import (
	"sync"
	"time"
)

// Kind says what kind of work an event describes.
type Kind uint8

const (
	Sample Kind = iota // one sample, made and perhaps read
	Run                // images of an array, made in one call
	Read               // a record read ahead
	Wait               // the program waits for a batch
	Copy               // a batch is copied to a device or into pinned memory
	Next               // the whole call that hands out a batch
	Kinds
)

// Event is what a thread did from Begin on, for the time Took. Times are those of CLOCK_MONOTONIC.
type Event struct {
	Kind        Kind
	Failed      bool
	Epoch, Step int64
	Row, Count  int64 // the row in the batch, or the first of Count rows of a run
	Index       int64 // of the sample in the dataset
	Bytes       int64 // encoded bytes
	Begin, Took time.Duration

	// The parts of a sample's work. They alternate; each value is the sum of a part's turns.
	Read, Checksum, Decode, Ops, Write time.Duration
}

// Numbers of tracks in the file.
const (
	firstWorker = 1
	firstReader = 1001
	firstThread = 2001
)

// Track holds the events of one thread that are not in the file yet.
type Track struct {
	trace  *Trace
	id     int
	name   string
	number int

	mu      sync.Mutex // shared by the thread and the writer, which holds it for some ns
	events  []Event
	other   []Event // the writer's, which gives it back empty
	written bool    // whether its name is in the file; used by the writer
}

// Note keeps an event until it is written, if there is room.
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

// fetch returns the events so far; they belong to the caller until it fetches again.
func (k *Track) fetch() []Event {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events, k.other = k.other[:0], k.events
	return k.other
}
