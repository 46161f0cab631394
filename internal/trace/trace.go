// Package trace writes what the threads of a loader did when, as Chrome (about:tracing) and Perfetto
// read it: a JSON array of events, one a line.
//
// Threads note events in tracks of their own, of bounded length; one goroutine writes them to the file,
// of bounded size. Nothing waits for the file: what finds its track full is left out and counted, and
// the trace says so. A trace that was closed is complete; of one whose process was killed the array has
// no end, which both programs accept.
package trace

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// MaxBytes of a file, after which events are left out: some 100 s at 3,000 images/s, and about what
	// a browser opens without complaint.
	MaxBytes = 256 << 20
	// tail of the file is kept for what has to be said at the end.
	tail = 4 << 10
	// trackEvents is how many events of a thread may wait for the file. They are fetched every
	// drainEvery, so this is enough for 50,000 images/s of one thread.
	trackEvents = 1024
	drainEvery  = 20 * time.Millisecond
	// countersEvery so many of those the counters are read.
	countersEvery = 5
	// maxThreads of the program's own that have a track.
	maxThreads = 256
)

// Counts are what the counters of a trace show.
type Counts struct {
	Ready, Open, Queued int   // batches complete, batches in work or complete, records read ahead
	Bytes               int64 // read since the loader was opened
}

// Trace is one file. Its methods may be called from any goroutine, also after Close.
type Trace struct {
	path   string
	writer writer
	counts func() Counts
	start  time.Time     // and
	clock  time.Duration // what CLOCK_MONOTONIC said then

	tracks  []*Track // of decode threads
	mu      sync.Mutex
	readers []*Track
	threads map[int]*Track // of the program, by their number in the system
	closed  bool

	lost   atomic.Int64 // events that found no room
	end    chan struct{}
	ended  chan struct{}
	failed error // with ended closed
}

// Open begins a trace of so many decode threads. Where another process writes to path, or this one did,
// it takes path with a number. counts is called every 100 ms until Close.
func Open(path string, workers int, counts func() Counts) (*Trace, error) {
	return open(path, workers, counts, MaxBytes)
}

func open(path string, workers int, counts func() Counts, most int64) (*Trace, error) {
	var clock unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &clock); err != nil {
		return nil, err
	}
	file, name, err := create(path)
	if err != nil {
		return nil, err
	}
	t := &Trace{path: name, counts: counts, start: time.Now(), clock: time.Duration(clock.Nano()),
		threads: map[int]*Track{}, end: make(chan struct{}), ended: make(chan struct{})}
	t.writer = writer{file: file, pid: os.Getpid(), most: most}
	t.writer.process()
	for i := range workers {
		t.tracks = append(t.tracks, t.track(firstWorker+i, "decode", i))
	}
	go t.run()
	return t, nil
}

// Path is the file's.
func (t *Trace) Path() string { return t.path }

// Worker is the track of a decode thread.
func (t *Trace) Worker(i int) *Track { return t.tracks[i] }

// Reader is the track of the i-th reader, made when it is asked for first.
func (t *Trace) Reader(i int) *Track {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.readers) <= i {
		t.readers = append(t.readers, t.track(firstReader+len(t.readers), "reader", len(t.readers)))
	}
	return t.readers[i]
}

// Span notes what a thread of the program did with a batch, between two times of CLOCK_MONOTONIC.
func (t *Trace) Span(thread int, e Event) {
	t.mu.Lock()
	track := t.threads[thread]
	if track == nil && len(t.threads) < maxThreads {
		track = t.track(firstThread+len(t.threads), "thread", thread)
		t.threads[thread] = track
	}
	t.mu.Unlock()
	if track == nil {
		t.lost.Add(1)
		return
	}
	track.Note(e)
}

// At is a time as events have it: what CLOCK_MONOTONIC said then.
func (t *Trace) At(when time.Time) time.Duration { return t.clock + when.Sub(t.start) }

func (t *Trace) track(id int, name string, number int) *Track {
	return &Track{trace: t, id: id, name: name, number: number}
}

// Close writes what is left and ends the file. The error is the first that writing met; again is harmless.
func (t *Trace) Close() error {
	t.mu.Lock()
	if !t.closed {
		t.closed = true
		close(t.end)
	}
	t.mu.Unlock()
	<-t.ended
	return t.failed
}

// run is the goroutine that writes.
func (t *Trace) run() {
	ticker := time.NewTicker(drainEvery)
	defer ticker.Stop()
	for tick := 0; ; tick++ {
		if tick%countersEvery == 0 {
			t.writer.counters(t.At(time.Now()), t.counts())
		}
		t.drain()
		select {
		case <-ticker.C:
			continue
		case <-t.end:
		}
		t.writer.counters(t.At(time.Now()), t.counts())
		t.drain()
		t.failed = t.writer.close(t.At(time.Now()), t.lost.Load())
		close(t.ended)
		return
	}
}

func (t *Trace) drain() {
	for _, track := range t.tracks {
		t.writer.track(track)
	}
	t.mu.Lock()
	others := append([]*Track(nil), t.readers...)
	for _, track := range t.threads {
		others = append(others, track)
	}
	t.mu.Unlock()
	for _, track := range others {
		t.writer.track(track)
	}
	t.writer.flush()
}
