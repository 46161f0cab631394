package decoder

import (
	"sync/atomic"
	"time"
)

// counters belong to one thread and are added up when they are asked for.
type counters struct {
	_       [64]byte // two threads' counters never share a cache line
	images  atomic.Int64
	points  atomic.Int64 // the images that were decoded with seek points
	bytes   atomic.Int64 // encoded bytes: read from files, or the program's own
	reading atomic.Int64 // ns in reads
	decode  atomic.Int64 // ns in everything else that is work
	idle    atomic.Int64 // ns asleep because nothing was submitted
	_       [64]byte
}

// Stats are totals since Open, summed over the threads, and what is waiting now.
type Stats struct {
	Threads    int
	Images     int64 // made
	WithPoints int64 // Images whose seek points had been learned or lay beside the file
	BytesRead  int64 // encoded bytes: read from files, or the program's own
	Reading    time.Duration
	Decoding   time.Duration
	Idle       time.Duration // without anything to do
	Works      int           // works that are not finished
	Tasks      int           // their tasks
	Finished   int           // works that are finished and not closed
}

// Stats adds up the counters.
func (d *Decoder) Stats() Stats {
	s := Stats{Threads: d.taken}
	// Totals of running threads are never from one moment, but each is right by itself.
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
