package pipeline

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/fetch"
	"github.com/headrace/headrace/internal/parts"
	"github.com/headrace/headrace/internal/processors"
	"github.com/headrace/headrace/mmap"
)

// record is the encoded bytes of one sample, read before a worker asked for them.
type record struct {
	draft  *draft
	i      int64
	sample catalog.Sample
	want   fetch.Want    // of what lies in a store of objects
	next   uint64        // the use behind this one, where what is fetched is kept
	key    parts.Key     // of its bytes in the cache on disk, where that is known
	kept   bool          // it was there when it was planned: the worker reads it
	took   time.Duration // to read it there
	view   mmap.View
	seek   points
	err    error
	buffer mmap.Buffer
	points mmap.Buffer
	budget int64 // bytes it is counted with
}

const (
	// aheadBytes bounds what stands read and undecoded; one record may always be read.
	aheadBytes = 256 << 20
	// keepBytes is the largest buffer that is kept for the next record.
	keepBytes = 1 << 20
	// typicalBytes is what a record counts with until its length is known (listed folders).
	typicalBytes = 256 << 10
)

// readAhead is the readers and the records between them and the workers. Fields that are not
// atomic belong to the Loader's lock.
type readAhead struct {
	loader *Loader
	// entrance lets in one reader at a time, so that bytes are granted in the order of samples:
	// whoever waits for bytes waits only for earlier samples, which no later one can block.
	entrance sync.Mutex
	door     sync.Cond // the one reader in the entrance sleeps here

	begun   bool
	free    []*record
	all     []*record
	queue   []*record // read, or in the cache, and waiting for a worker; their drafts are open
	head    int       // of the queue: those before it were taken
	queued  atomic.Int64
	reading int   // records in the hands of readers
	bytes   int64 // of all records that are in use
	most    int64 // what bytes may be, unless it is one record

	fetcher *fetch.Fetcher // in the readers' place where the dataset lies in a store of objects, else nil
	kept    int            // records that are planned and in the cache
	lacks   bool           // the planner waits for records to become free
	hits    pace           // of reads from the cache
}

// init makes nothing yet: a Loader whose reads are fast never has a reader.
func (a *readAhead) init(l *Loader) {
	a.loader = l
	a.door.L = &l.mu
	a.most = aheadBytes
}

// start makes the readers, the first time that reads turn out to be slow, and lets them read.
func (a *readAhead) start() {
	l := a.loader
	l.mu.Lock()
	defer l.mu.Unlock()
	if !a.begun && !l.closing {
		a.begun = true
		l.mu.Unlock()
		// Room for one of them was taken when the Loader was opened.
		more, _ := processors.Take(min(l.config.ReadAhead, readersAtMost)-1, 0)
		l.mu.Lock()
		l.taken += more
		records := make([]record, l.config.ReadAhead)
		for i := range records {
			a.free = append(a.free, &records[i])
			a.all = append(a.all, &records[i])
		}
		for number := range 1 + more {
			l.group.Go(func() { a.read(number) })
		}
	}
	a.door.Signal()
}

// wake tells the reader in the entrance that something has changed, with the lock held.
func (a *readAhead) wake() { a.door.Signal() }

// read is one reader.
func (a *readAhead) read(number int) {
	l := a.loader
	for {
		r := a.admit()
		if r == nil {
			return
		}
		began := time.Now()
		if r.err == nil {
			l.readRecord(l.store.Waits(), r)
		}
		took := time.Since(began)
		l.noteRead(number, r, began, took)
		l.mu.Lock()
		// The length is known for certain now, of listed folders for the first time.
		l.readers.read(r.view.Length, took)
		a.charge(r, r.view.Length)
		a.arrived(r)
		if l.pace.readerRead() {
			l.work.Broadcast()
		}
		l.mu.Unlock()
	}
}

// readRecord reads the bytes and the points of a record.
func (l *Loader) readRecord(ctx context.Context, r *record) {
	defer fault.Recover(&r.err)
	r.view, r.seek, r.err = l.readBoth(ctx, r.sample, &r.buffer, &r.points, nil)
}

// findRecord finds where the bytes of a record lie.
func (l *Loader) findRecord(r *record, index int64) {
	defer fault.Recover(&r.err)
	r.sample, r.err = l.config.Dataset.Sample(index)
}

// arrived takes what was read, with the lock held.
func (a *readAhead) arrived(r *record) {
	a.reading--
	switch {
	case r.draft.stream.cancelled.Load() || r.draft.refused:
		d := r.draft
		a.recycle(r)
		a.loader.finish(d, 1)
	// Workers get only what they can decode at once, so that none of them ever holds a record
	// and waits for a slot.
	case r.draft.open.Load():
		a.hand(r)
	default:
		r.draft.early = append(r.draft.early, r)
	}
}

// admit waits until a sample may be read ahead and claims it; nil when the Loader closes.
func (a *readAhead) admit() *record {
	l := a.loader
	a.entrance.Lock()
	defer a.entrance.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	var r *record
	for ; ; a.door.Wait() {
		if l.closing {
			return nil
		}
		if r = a.claim(); r != nil {
			break
		}
	}
	a.reading++
	// Outside the lock: the first touch of a part of the index validates it.
	l.mu.Unlock()
	index, _ := r.draft.sample(r.i)
	l.willNeed(r.draft, r.i)
	l.findRecord(r, index)
	length := r.sample.Length
	if length == catalog.UnknownLength {
		length = typicalBytes
	}
	l.mu.Lock()
	// Only earlier samples are in the count, and those of the batch that the consumer waits for
	// are among them or come next: waiting here cannot block what it waits for.
	for a.bytes > 0 && a.bytes+length > a.most && !r.draft.stream.cancelled.Load() {
		a.door.Wait()
	}
	a.charge(r, length)
	return r
}

// claim takes the next sample of the stream, if readers are to read and there is room.
func (a *readAhead) claim() *record {
	l := a.loader
	s := l.stream
	// Workers that are still on the way to their last own read claim from the same counter.
	for l.pace.slow() && len(a.free) > 0 {
		d := s.claiming.Load()
		if d == nil {
			return nil
		}
		if i, _, ok := d.claim(1); ok {
			r := a.free[len(a.free)-1]
			a.free = a.free[:len(a.free)-1]
			r.draft, r.i, r.view, r.seek, r.err = d, i, mmap.View{}, points{}, nil
			return r
		}
		// Batches may be smaller than the depth, so reading runs ahead of the window.
		if !s.advance(a.drafts(s)) {
			return nil
		}
		if l.idle > 0 && s.unopened(l.config.window()) != nil {
			l.work.Signal() // this draft needs a slot before its bytes can go anywhere
		}
	}
	return nil
}

// drafts is how many may be under way. Of the next epoch, which may never be asked for, a store of
// objects is asked for no more than the batches that are opened.
func (a *readAhead) drafts(s *stream) int {
	if a.fetcher != nil && !s.submitted && s.planEpoch > s.epoch {
		return a.loader.config.window()
	}
	return a.loader.config.window() + a.loader.config.ReadAhead
}

// charge counts a record with so many bytes, with the lock held.
func (a *readAhead) charge(r *record, bytes int64) {
	a.bytes += bytes - r.budget
	r.budget = bytes
}

// hand queues a record for the workers, with the lock held.
func (a *readAhead) hand(r *record) {
	a.queue = append(a.queue, r)
	a.queued.Add(1)
	if a.loader.idle > 0 {
		a.loader.work.Signal()
	}
}

// pop takes a record from the queue, with the lock held.
func (a *readAhead) pop() *record {
	if a.head == len(a.queue) {
		return nil
	}
	r := a.queue[a.head]
	if a.head++; 2*a.head >= len(a.queue) { // the array is reused for ever
		a.queue, a.head = a.queue[:copy(a.queue, a.queue[a.head:])], 0
	}
	a.queued.Add(-1)
	return r
}

// done takes a record back from a worker.
func (a *readAhead) done(r *record) {
	// One large photograph now and then must not leave a large buffer in every record.
	if r.view.Length > keepBytes {
		r.buffer.Free()
		r.points.Free()
	}
	a.loader.mu.Lock()
	a.recycle(r)
	a.loader.mu.Unlock()
}

// recycle makes a record free for the next sample, with the lock held.
func (a *readAhead) recycle(r *record) {
	a.charge(r, 0)
	if a.fetcher != nil {
		a.fetcher.Free(&r.want)
	}
	if r.kept {
		r.kept = false
		a.kept--
	}
	r.draft, r.view, r.seek, r.err = nil, mmap.View{}, points{}, nil
	a.free = append(a.free, r)
	if a.fetcher == nil || a.enough() {
		a.door.Signal()
	}
}

// drop empties the queue of a cancelled stream, with the lock held.
func (a *readAhead) drop(s *stream) {
	for r := a.pop(); r != nil; r = a.pop() {
		d := r.draft
		a.recycle(r)
		a.loader.finish(d, 1)
	}
	if a.fetcher != nil {
		a.dropFetched()
	}
}

// release gives the memory of all records back, when no goroutine is left.
func (a *readAhead) release() {
	if a.fetcher != nil {
		a.fetcher.Close()
		a.loader.leave()
	}
	for _, r := range a.all {
		r.buffer.Free()
		r.points.Free()
	}
}
