package pack

import (
	"context"
	"fmt"
	"sync"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/internal/processors"
	"github.com/headrace/headrace/native"
)

// budgetBytes is how much encoded data may be in memory between reader and writer. The record that is written next may
// exceed it, because otherwise a file above the budget could never pass.
const budgetBytes = 256 << 20

// flow reads and inspects samples on all threads and passes them on in order.
// It has three stages: the source under a lock, workers that read and inspect, and the caller's goroutine, which takes
// records in order. Tickets limit the number of records, and the budget their bytes.
type flow struct {
	source  source
	threads int
	limits  native.Limits
	recode  RecodeOptions
	further []int // numbers of the fields that are further images
	seek    bool  // note seek points
	blocks  *blocks.Cache

	track *Tracker

	pull   sync.Mutex // guards source and pulled
	pulled int64
	ended  bool

	ring   []chan *record // sample i arrives in ring[i % len]; at most len are under way
	ticket chan struct{}
	room   *budget
	free   chan []byte // buffers of written records
}

// newFlow sets the sizes: the length of every queue is limited here.
// From here on only the flow uses the source.
func newFlow(s source, o Options, seek bool, t *Tracker) *flow {
	// A few records for each thread even out the different sizes of files.
	threads := o.threads()
	// The ring also limits how far ahead is read if files are so small that the budget of bytes has no effect.
	n := 8*threads + 8
	f := &flow{source: s, threads: threads, limits: o.Limits.Native(), seek: seek, blocks: blocks.NewCache(o.Limits.Blocks()), track: t, ring: make([]chan *record, n),
		ticket: make(chan struct{}, n), free: make(chan []byte, n), room: newBudget(budgetBytes)}
	for i := range f.ring {
		f.ring[i] = make(chan *record, 1)
	}
	if in, ok := s.(*containers); ok {
		in.keep(f.blocks)
	}
	return f
}

// run calls emit for every sample in order, on the calling goroutine, until the source ends, ctx is cancelled or
// something fails. The bytes of a record are valid only during its emit.
func (f *flow) run(ctx context.Context, emit func(*record) error) error {
	// This context is the flow's own, so that an error ends the workers, too.
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	// This is deferred before cancel, so that it runs after it.
	defer workers.Wait()
	// Workers that wait for room are woken however the flow ends, because after an error nobody releases any.
	defer f.room.close()
	defer cancel()
	stop := context.AfterFunc(ctx, f.room.close)
	defer stop()
	// In addition there are two threads: the one that writes, and the one that sends a shard to the disk.
	const writers = 2
	got, short := processors.Take(f.threads+writers, 1+writers)
	if got == 0 {
		return short
	}
	f.track.fewer(got-writers, f.threads, short)
	defer processors.Return(got)
	for range got - writers {
		workers.Go(func() { f.work(ctx) })
	}
	// The order is that of sequence numbers: record n is awaited even if n+1 is there.
	for next := int64(0); ; next++ {
		var r *record
		select {
		case r = <-f.ring[next%int64(len(f.ring))]:
		case <-ctx.Done():
			return ctx.Err()
		}
		if r == nil {
			return nil
		}
		if r.err != nil {
			return r.err
		}
		// A record that is ready at the moment of the cancel must not be written.
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := headroom.Spent(); err != nil {
			return err
		}
		if err := emit(r); err != nil {
			return err
		}
		f.recycle(r)
		f.room.release(next)
		// This comes last: a record counts as under way until it is written and its buffer is free.
		<-f.ticket
	}
}

// recycle keeps a buffer for the next file. Otherwise each image would be a new allocation of its size, and the garbage
// collector would run because of bytes that are only passed on.
// As many buffers are kept as the channel holds; the garbage collector frees the others.
func (f *flow) recycle(r *record) {
	const keep = 8 << 20 // a larger buffer is not kept, because one huge file needed it
	space := r.data
	if cap(r.space) > cap(space) {
		space = r.space
	}
	// Without a path the bytes are the caller's copy, with no room to spare.
	if r.path != "" && cap(space) > 0 && cap(space) <= keep {
		select {
		case f.free <- space[:0]:
		default:
		}
	}
}

// work is one thread. It first takes a ticket, so that at most len(ring) samples are between source and writer, then
// the next sample in order, and then puts it into its place in the ring. The send never blocks, because samples under
// way have different places.
// If no inspector can be made, the first sample that the thread takes fails with that error, so that run meets it in
// order.
func (f *flow) work(ctx context.Context) {
	// Each thread has its own, because it has a decoder's memory.
	in, err := newInspector(f.limits, f.seek)
	if err == nil {
		in.blocks = f.blocks
		if len(f.recode.Pillow) > 0 {
			in.pillow = &pillow{ctx: ctx, argv: f.recode.Pillow}
		}
		defer in.close()
	}
	for {
		select {
		case f.ticket <- struct{}{}:
		case <-ctx.Done():
			return
		}
		r := f.take(ctx)
		if r == nil {
			return
		}
		if r.err == nil {
			r.err = err
		}
		if r.err == nil {
			r.err = f.process(in, r)
		}
		f.ring[r.seq%int64(len(f.ring))] <- r
	}
}

// take pulls the next sample. At the end of the source it puts a nil into the ring, once, for run to find.
// The lock is held while the source reads its list, which is short compared with reading an image.
func (f *flow) take(ctx context.Context) *record {
	f.pull.Lock()
	defer f.pull.Unlock()
	if f.ended || ctx.Err() != nil {
		return nil
	}
	r := &record{}
	// The source is asked under the lock, because that gives the samples their order.
	more, err := f.next(&r.item)
	r.seq = f.pulled
	if err != nil {
		r.err = err
		// After an error nothing more is taken: the other workers end, and run meets the error in order.
		f.ended = true
	} else if !more {
		f.ended = true
		f.ring[f.pulled%int64(len(f.ring))] <- nil
		return nil
	}
	f.pulled++
	return r
}

// next asks the source. A panic on a thread of the flow would end the process, so it becomes an error.
func (f *flow) next(it *item) (more bool, err error) {
	defer fault.Recover(&err)
	return f.source.next(it)
}

// process reads and inspects one file. A panic would end the whole process that loaded this library, which may be a
// trainer, so even a bug of ours becomes this sample's error.
func (f *flow) process(in *inspector, r *record) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = recordError(r, fault.KindInternal, fmt.Sprintf("panic: %v", p), nil)
		}
	}()
	// This is the buffer of an earlier record; it grows to the size of the largest image.
	buffer := []byte{} // never nil, because the bytes of an empty image are not nil either
	select {
	case buffer = <-f.free:
	default:
	}
	if _, err := in.read(r, buffer, func(n int64) { f.room.take(r.seq, n) }); err != nil {
		return err
	}
	// The order matters: Pillow gets what the engine refuses, and what either decoded is re-encoded.
	if err := in.inspect(r); err != nil {
		return err
	}
	if err := in.throughPillow(r); err != nil {
		return err
	}
	if err := in.furtherThroughPillow(r, f.further); err != nil {
		return err
	}
	if err := in.recode(r, &f.recode); err != nil {
		return err
	}
	// This can only be a bug of ours. Without the error a record without bytes would be written.
	if r.data == nil && r.path != "" && r.verdict != catalog.Limit {
		return recordError(r, fault.KindInternal, "no bytes and no verdict", nil)
	}
	return nil
}

// budget limits the bytes of records that were read and not yet written.
// taken has the bytes of each record, because release gets only the record's number.
type budget struct {
	mu     sync.Mutex
	freed  sync.Cond
	held   int64
	most   int64
	next   int64 // sequence number of the record to be written next
	closed bool
	taken  map[int64]int64
}

func newBudget(most int64) *budget {
	b := &budget{most: most, taken: make(map[int64]int64)}
	b.freed.L = &b.mu
	return b
}

// take waits until n bytes may be held for record seq. It cannot deadlock, because the record that is written next
// never waits, and its release wakes the others.
func (b *budget) take(seq, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// A closed budget lets everybody through: the job has ended, and each caller sees that by its context.
	for !b.closed && seq != b.next && b.held+n > b.most {
		b.freed.Wait()
	}
	b.held += n
	b.taken[seq] = n
}

// release says that record seq was written.
func (b *budget) release(seq int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= b.taken[seq]
	delete(b.taken, seq)
	// It needs Broadcast and not Signal, because any of those that wait may be next now.
	b.next = seq + 1
	b.freed.Broadcast()
}

// close wakes everybody who waits; from then on take does not wait.
func (b *budget) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.freed.Broadcast()
}
