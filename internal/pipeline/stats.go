package pipeline

import (
	"sync/atomic"
	"time"
)

// counters are a thread's own, added up when somebody asks.
type counters struct {
	_        [64]byte // two workers' counters never share a cache line
	images   atomic.Int64
	bytes    atomic.Int64
	reading  atomic.Int64 // ns in reads
	decode   atomic.Int64 // ns in everything else that is work
	readWait atomic.Int64 // ns asleep for want of bytes
	slotWait atomic.Int64 // ns asleep because the window was full
	_        [64]byte
}

// read counts one read. Atomic additions without contention cost a few nanoseconds.
func (c *counters) read(bytes int64, took time.Duration) {
	c.bytes.Add(bytes)
	c.reading.Add(int64(took))
}

// Stats are totals since Open. Waits are summed over the threads of their stage.
type Stats struct {
	Images          int64   // decoded, delivered or not
	Batches         int64   // delivered
	Samples         int64   // in them
	ImagesPerSecond float64 // delivered, since the first Next
	BytesRead       int64
	Reading         time.Duration // in reads, by workers and readers
	Decoding        time.Duration
	ReadWait        time.Duration // workers without bytes
	SlotWait        time.Duration // workers ahead of the consumer as far as prefetch allows
	ConsumerWait    time.Duration // Next without a batch
	StallP50        time.Duration // of one batch
	StallP99        time.Duration
	StallMax        time.Duration
	Ready           int  // complete batches that wait
	Open            int  // batches in work or complete
	QueuedRecords   int  // read ahead and not yet decoded
	ReadingAhead    bool // readers read, not the workers
	Threads         int
	Replaced        int64 // samples replaced in delivered batches
	Warned          int64 // samples with decoder warnings in them
}

// Stats adds the counters up.
func (l *Loader) Stats() Stats {
	s := Stats{Threads: len(l.workers), ReadingAhead: l.pace.slow()}
	add := func(c *counters) {
		s.Images += c.images.Load()
		s.BytesRead += c.bytes.Load()
		s.Reading += time.Duration(c.reading.Load())
		s.Decoding += time.Duration(c.decode.Load())
		s.ReadWait += time.Duration(c.readWait.Load())
		s.SlotWait += time.Duration(c.slotWait.Load())
	}
	for _, w := range l.workers {
		add(&w.counters)
	}
	// Totals of running threads are never of one moment; each is right by itself.
	add(&l.readers)
	l.mu.Lock()
	defer l.mu.Unlock()
	// Those that can be taken now: complete ones behind an incomplete one do not count.
	for _, d := range l.stream.drafts {
		if !d.done {
			break
		}
		s.Ready++
	}
	s.Open = l.stream.opened
	s.QueuedRecords = len(l.ahead.queue)
	s.Replaced, s.Warned = l.report.replacedInAll, l.report.warnedInAll
	l.stalls.fill(&s)
	return s
}
