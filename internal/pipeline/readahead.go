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

// record has the encoded bytes of one sample, read before a worker asked for them.
type record struct {
	draft  *draft
	i      int64
	sample catalog.Sample
	want   fetch.Want    // for a record in a store of objects
	next   uint64        // the use after this one, if fetched records are kept
	key    parts.Key     // of its bytes in the cache on disk, if known
	kept   bool          // it was in the cache when it was planned, so the worker reads it
	took   time.Duration // time to read it from the cache
	view   mmap.View
	seek   points
	err    error
	buffer mmap.Buffer
	points mmap.Buffer
	budget int64 // bytes with which it is counted
}

const (
	// aheadBytes limits what was read and is not decoded yet; one record may always be read.
	aheadBytes = 256 << 20
	// keepBytes is the largest buffer that is kept for the next record.
	keepBytes = 1 << 20
	// typicalBytes is counted for a record until its length is known (listed folders).
	typicalBytes = 256 << 10
)

// readAhead has the readers and the records between them and the workers. The Loader's lock protects all fields that
// are not atomic.
type readAhead struct {
	loader *Loader
	// entrance admits one reader at a time, so that bytes are granted in the order of samples:
	// a reader that waits for bytes waits only for earlier samples, which no later one can block.
	entrance sync.Mutex
	door     sync.Cond // the one reader in the entrance sleeps here

	begun   bool
	free    []*record
	all     []*record
	queue   []*record // records that were read or are in the cache, and wait for a worker; their drafts are open
	head    int       // start of the queue; the entries before it were taken
	queued  atomic.Int64
	reading int   // number of records that readers hold
	bytes   int64 // size of all records that are in use
	most    int64 // limit of bytes, unless there is only one record

	fetcher *fetch.Fetcher // replaces the readers if the dataset lies in a store of objects, otherwise nil
	kept    int            // number of records that are planned and in the cache
	lacks   bool           // the planner waits until records become free
	hits    pace           // pace of reads from the cache
}

// init makes no readers yet, because a Loader whose reads are fast never needs one.
func (a *readAhead) init(l *Loader) {
	a.loader = l
	a.door.L = &l.mu
	a.most = aheadBytes
}

// start makes the readers when reads turn out to be slow for the first time, and lets them read.
func (a *readAhead) start() {
	l := a.loader
	l.mu.Lock()
	defer l.mu.Unlock()
	if !a.begun && !l.closing {
		a.begun = true
		l.mu.Unlock()
		// Room for one reader was taken when the Loader was opened.
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

// wake tells the reader in the entrance that something has changed; the caller holds the lock.
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
		// The length is known for certain now; for listed folders it was not known before.
		l.readers.read(r.view.Length, took)
		a.charge(r, r.view.Length)
		a.arrived(r)
		if l.pace.readerRead() {
			l.work.Broadcast()
		}
		l.mu.Unlock()
	}
}

// readRecord reads the bytes and the seek points of a record.
func (l *Loader) readRecord(ctx context.Context, r *record) {
	defer fault.Recover(&r.err)
	r.view, r.seek, r.err = l.readBoth(ctx, r.sample, &r.buffer, &r.points, nil)
}

// findRecord finds where the bytes of a record are.
func (l *Loader) findRecord(r *record, index int64) {
	defer fault.Recover(&r.err)
	r.sample, r.err = l.config.Dataset.Sample(index)
}

// arrived takes a record that was read; the caller holds the lock.
func (a *readAhead) arrived(r *record) {
	a.reading--
	switch {
	case r.draft.stream.cancelled.Load() || r.draft.refused:
		d := r.draft
		a.recycle(r)
		a.loader.finish(d, 1)
	// Workers get only records that they can decode at once, so that none of them ever holds a record while it waits for a
	// slot.
	case r.draft.open.Load():
		a.hand(r)
	default:
		r.draft.early = append(r.draft.early, r)
	}
}

// admit waits until a sample may be read ahead and claims it; it returns nil when the Loader closes.
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
	// This is outside the lock, because the first access to a part of the index validates it.
	l.mu.Unlock()
	index, _ := r.draft.sample(r.i)
	l.willNeed(r.draft, r.i)
	l.findRecord(r, index)
	length := r.sample.Length
	if length == catalog.UnknownLength {
		length = typicalBytes
	}
	l.mu.Lock()
	// Only earlier samples are counted. Those of the batch that the consumer waits for are among them or come next, so
	// waiting here cannot block what it waits for.
	for a.bytes > 0 && a.bytes+length > a.most && !r.draft.stream.cancelled.Load() {
		a.door.Wait()
	}
	a.charge(r, length)
	return r
}

// claim takes the next sample of the stream, if readers have to read and there is room.
func (a *readAhead) claim() *record {
	l := a.loader
	s := l.stream
	// Workers that are still finishing their last own read claim from the same counter.
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
		// Batches may be smaller than the read-ahead, so reading goes ahead of the window.
		if !s.advance(a.drafts(s)) {
			return nil
		}
		if l.idle > 0 && s.unopened(l.config.window()) != nil {
			l.work.Signal() // this draft needs a slot before its bytes can be decoded
		}
	}
	return nil
}

// drafts is how many drafts may be under way. The next epoch may never be asked for. So from a store of objects only
// those of its batches are requested that are opened.
func (a *readAhead) drafts(s *stream) int {
	if a.fetcher != nil && !s.submitted && s.planEpoch > s.epoch {
		return a.loader.config.window()
	}
	return a.loader.config.window() + a.loader.config.ReadAhead
}

// charge counts a record with that many bytes; the caller holds the lock.
func (a *readAhead) charge(r *record, bytes int64) {
	a.bytes += bytes - r.budget
	r.budget = bytes
}

// hand queues a record for the workers; the caller holds the lock.
func (a *readAhead) hand(r *record) {
	a.queue = append(a.queue, r)
	a.queued.Add(1)
	if a.loader.idle > 0 {
		a.loader.work.Signal()
	}
}

// pop takes a record from the queue; the caller holds the lock.
func (a *readAhead) pop() *record {
	if a.head == len(a.queue) {
		return nil
	}
	r := a.queue[a.head]
	if a.head++; 2*a.head >= len(a.queue) { // so that the array is used again for ever
		a.queue, a.head = a.queue[:copy(a.queue, a.queue[a.head:])], 0
	}
	a.queued.Add(-1)
	return r
}

// done takes a record back from a worker.
func (a *readAhead) done(r *record) {
	// A large photograph now and then must not leave a large buffer in every record.
	if r.view.Length > keepBytes {
		r.buffer.Free()
		r.points.Free()
	}
	a.loader.mu.Lock()
	a.recycle(r)
	a.loader.mu.Unlock()
}

// recycle frees a record for the next sample; the caller holds the lock.
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

// drop empties the queue of a cancelled stream; the caller holds the lock.
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

// release frees the memory of all records, when no goroutine is left.
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
