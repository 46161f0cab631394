// Package trace writes what the threads of a loader did and when, in the form that Chrome (about:tracing) and Perfetto
// read: a JSON array of events, one a line.
//
// Threads note events in their own tracks of bounded length. One goroutine writes them to the file, whose size is
// bounded. Nothing waits for the file: an event that finds its track full is left out and counted, and the trace says
// so. A trace that was closed is complete. If the process was killed, the array has no end, which both programs accept.
package trace

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// MaxBytes is the size of a file after which events are left out: some 100 s at 3,000 images/s, and about what a
	// browser opens without trouble.
	MaxBytes = 256 << 20
	// tail is kept free for what has to be said at the end of the file.
	tail = 4 << 10
	// trackEvents is how many events of a thread may wait for the file. They are fetched every drainEvery, so this is
	// enough for 50,000 images/s of one thread.
	trackEvents = 1024
	drainEvery  = 20 * time.Millisecond
	// The counters are read once in countersEvery such intervals.
	countersEvery = 5
	// maxThreads is how many of the program's own threads have a track.
	maxThreads = 256
)

// Counts are the values of a trace's counters.
type Counts struct {
	Ready, Open, Queued int   // complete batches, batches in work or complete, records read ahead
	Bytes               int64 // read since the loader was opened
}

// Trace is one file. Its methods may be called from any goroutine, even after Close.
type Trace struct {
	path   string
	writer writer
	counts func() Counts
	start  time.Time     // its beginning, and
	clock  time.Duration // CLOCK_MONOTONIC at that time

	tracks  []*Track // of decode threads
	mu      sync.Mutex
	readers []*Track
	threads map[int]*Track // of the program, by their number in the system
	closed  bool

	lost   atomic.Int64 // events that found no room
	end    chan struct{}
	ended  chan struct{}
	failed error // valid once ended is closed
}

// Open begins a trace of so many decode threads. If another process is writing to path, or this process did, it uses
// path with a number. counts is called every 100 ms until Close.
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

// Path returns the file's path.
func (t *Trace) Path() string { return t.path }

// Worker returns the track of a decode thread.
func (t *Trace) Worker(i int) *Track { return t.tracks[i] }

// Reader returns the track of the i-th reader; it is made when it is first asked for.
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

// At converts a time to the form of events: what CLOCK_MONOTONIC said then.
func (t *Trace) At(when time.Time) time.Duration { return t.clock + when.Sub(t.start) }

func (t *Trace) track(id int, name string, number int) *Track {
	return &Track{trace: t, id: id, name: name, number: number}
}

// Close writes what is left and ends the file. It returns the first error of writing. Closing twice is harmless.
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
