package pipeline

import (
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/parts"
)

// counters belong to one thread, and are added up when somebody asks.
type counters struct {
	_        [64]byte // two workers' counters never share a cache line
	images   atomic.Int64
	points   atomic.Int64 // number of those images that were decoded with seek points
	bytes    atomic.Int64
	reading  atomic.Int64 // ns in reads
	decode   atomic.Int64 // ns in all other work
	readWait atomic.Int64 // ns asleep for lack of bytes
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
	Images          int64   // decoded, even if not delivered
	Blocks          int64   // compressed blocks of containers that were decoded
	Batches         int64   // delivered
	Samples         int64   // in the delivered batches
	ImagesPerSecond float64 // delivered, since the first Next
	WithPoints      int64   // number of Images whose seek points were in the index or had been learned
	BytesRead       int64
	BytesPerSecond  float64       // read, since the first Next
	Reading         time.Duration // in reads, by workers and readers
	Decoding        time.Duration
	ReadWait        time.Duration // of workers that had no bytes
	SlotWait        time.Duration // of workers that were as far ahead of the consumer as prefetch allows
	ConsumerWait    time.Duration // of Next without a batch
	StallP50        time.Duration // of one batch
	StallP99        time.Duration
	StallMax        time.Duration
	Ready           int  // complete batches that wait to be delivered
	Open            int  // batches in work or complete
	QueuedRecords   int  // read ahead and not yet decoded
	ReadingAhead    bool // readers read, instead of workers
	Threads         int
	Fetched         catalog.Fetched // from stores, by all loaders of the dataset
	Merged          int64           // records that were fetched with the request for another one
	AtOnce          int             // requests that may be in flight now
	Kept            parts.Stats     // about the cache of what was fetched
	KeptWarning     string          // why that cache is not used any more
	Replaced        int64           // samples replaced in delivered batches
	Warned          int64           // samples with decoder warnings in them
}

// bytesRead returns the bytes that were read since Open.
func (l *Loader) bytesRead() int64 {
	sum := l.readers.bytes.Load()
	for _, w := range l.workers {
		sum += w.counters.bytes.Load()
	}
	return sum
}

// Stats adds up the counters.
func (l *Loader) Stats() Stats {
	s := Stats{Threads: len(l.workers), ReadingAhead: l.pace.slow(), Blocks: l.store.BlocksDecoded(), BytesRead: l.bytesRead()}
	add := func(c *counters) {
		s.Images += c.images.Load()
		s.WithPoints += c.points.Load()
		s.Reading += time.Duration(c.reading.Load())
		s.Decoding += time.Duration(c.decode.Load())
		s.ReadWait += time.Duration(c.readWait.Load())
		s.SlotWait += time.Duration(c.slotWait.Load())
	}
	for _, w := range l.workers {
		add(&w.counters)
	}
	// Totals of running threads are not of one moment, but each is right by itself.
	add(&l.readers)
	if l.ahead.fetcher != nil {
		s.Fetched = l.config.Dataset.Fetched()
		_, s.Merged, s.AtOnce = l.ahead.fetcher.Counts()
		s.Kept, s.KeptWarning = l.kept.Stats(), l.kept.Warning()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// Only batches that can be taken now count, and not complete ones after an incomplete one.
	for _, d := range l.stream.drafts {
		if !d.done {
			break
		}
		s.Ready++
	}
	s.Open = l.stream.opened
	s.QueuedRecords = int(l.ahead.queued.Load())
	s.Replaced, s.Warned = l.report.replacedInAll, l.report.warnedInAll
	l.stalls.fill(&s)
	return s
}
