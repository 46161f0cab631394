package decoder

import (
	"sync/atomic"
	"time"
)

// counters are a thread's own, added up when somebody asks.
type counters struct {
	_       [64]byte // two threads' counters never share a cache line
	images  atomic.Int64
	points  atomic.Int64 // of the images, those decoded with seek points
	bytes   atomic.Int64 // encoded: read of files, or the program's own
	reading atomic.Int64 // ns in reads
	decode  atomic.Int64 // ns in everything else that is work
	idle    atomic.Int64 // ns asleep, for nothing was submitted
	_       [64]byte
}

// Stats are totals since Open, summed over the threads, and what waits now.
type Stats struct {
	Threads    int
	Images     int64 // made
	WithPoints int64 // of Images, those whose seek points had been learned or lay beside the file
	BytesRead  int64 // encoded: read of files, or the program's own
	Reading    time.Duration
	Decoding   time.Duration
	Idle       time.Duration // without anything to do
	Works      int           // not finished
	Tasks      int           // of them
	Finished   int           // works that are, and that nobody has closed
}

// Stats adds the counters up.
func (d *Decoder) Stats() Stats {
	s := Stats{Threads: d.taken}
	// Totals of running threads are never of one moment; each is right by itself.
	for _, w := range d.workers {
		s.Images += w.counters.images.Load()
		s.WithPoints += w.counters.points.Load()
		s.BytesRead += w.counters.bytes.Load()
		s.Reading += time.Duration(w.counters.reading.Load())
		s.Decoding += time.Duration(w.counters.decode.Load())
		s.Idle += time.Duration(w.counters.idle.Load())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s.Works, s.Tasks, s.Finished = len(d.works), d.waiting, d.finished
	return s
}
