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

// budgetBytes is how much encoded data may be in memory between reader and writer. The record
// that is next to be written is let in beyond it, or a file over the budget could never pass.
const budgetBytes = 256 << 20

// flow reads and inspects samples on all threads and hands them on in order.
// Three stages: the source under a lock, workers that read and inspect, and the caller's goroutine, which takes records
// in order. Tickets bound the records, and the budget their bytes.
type flow struct {
	source  source
	threads int
	limits  native.Limits
	recode  RecodeOptions
	further []int // fields that are further images
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

// newFlow settles the sizes: everything that can wait somewhere is bounded here.
// The source is used by the flow alone from here on.
func newFlow(s source, o Options, seek bool, t *Tracker) *flow {
	// A few records a thread smooth out files of different size.
	threads := o.threads()
	// The ring is also the bound of what is read ahead where files are small and the budget of bytes says nothing.
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

// run calls emit for every sample in order, on the calling goroutine, until the source ends, ctx
// is cancelled or something fails. The bytes of a record are valid during its emit only.
func (f *flow) run(ctx context.Context, emit func(*record) error) error {
	// The flow's own, so that an error ends the workers, too.
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	// Deferred before cancel, so that it runs behind it.
	defer workers.Wait()
	// Workers that wait for room are woken whatever ends the flow: where it is an error, nobody releases any.
	defer f.room.close()
	defer cancel()
	stop := context.AfterFunc(ctx, f.room.close)
	defer stop()
	// Beside them the one that writes, and the one that sends a shard to the disk.
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
	// The order is that of sequence numbers: record n is waited for though n+1 may be there.
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
		// A record may be ready at the moment of the cancel, and is not to be written.
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
		// Last: a record counts among those under way until it is written, and its buffer is free.
		<-f.ticket
	}
}

// recycle keeps a buffer for the next file. Without it each image would be a new allocation of its
// size, and the collector would run for the sake of bytes that were only passed on.
// As many are kept as the channel holds; the garbage collector has the others.
func (f *flow) recycle(r *record) {
	const keep = 8 << 20 // a buffer that one huge file needed is not kept for the small ones
	space := r.data
	if cap(r.space) > cap(space) {
		space = r.space
	}
	// Without a path the bytes are the caller's copy, and have no room to spare.
	if r.path != "" && cap(space) > 0 && cap(space) <= keep {
		select {
		case f.free <- space[:0]:
		default:
		}
	}
}

// work is one thread: a ticket first, so that at most len(ring) samples are between source and
// writer, then the next sample in order, then its place in the ring. The send never blocks, for
// samples under way have different places.
// Where no inspector could be made, the first sample that the thread takes fails with that error, so that run meets it in order.
func (f *flow) work(ctx context.Context) {
	// One for each thread, for it has a decoder's memory.
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

// take pulls the next sample. At the end it leaves a nil in the ring, once, for run to find.
// The lock is held while the source reads its list; that is little beside the reading of an image.
func (f *flow) take(ctx context.Context) *record {
	f.pull.Lock()
	defer f.pull.Unlock()
	if f.ended || ctx.Err() != nil {
		return nil
	}
	r := &record{}
	// The source is asked under the lock: it is what gives samples their order.
	more, err := f.next(&r.item)
	r.seq = f.pulled
	if err != nil {
		r.err = err
		// Behind an error nothing more is taken: the other workers end, and run meets the error in its turn.
		f.ended = true
	} else if !more {
		f.ended = true
		f.ring[f.pulled%int64(len(f.ring))] <- nil
		return nil
	}
	f.pulled++
	return r
}

// next asks the source. It runs on a thread of the flow's own, where a panic would end the process.
func (f *flow) next(it *item) (more bool, err error) {
	defer fault.Recover(&err)
	return f.source.next(it)
}

// process reads and inspects one file. A panic would end the whole process that loaded this
// library, a trainer's, so even a bug of ours becomes this sample's error.
func (f *flow) process(in *inspector, r *record) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = recordError(r, fault.KindInternal, fmt.Sprintf("panic: %v", p), nil)
		}
	}()
	// A record's buffer, used again; it grows to what the largest image needs.
	buffer := []byte{} // never nil: an image of no bytes has bytes, too
	select {
	case buffer = <-f.free:
	default:
	}
	if _, err := in.read(r, buffer, func(n int64) { f.room.take(r.seq, n) }); err != nil {
		return err
	}
	// In this order: Pillow is asked for what the engine refuses, and what is written anew is what either made.
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
	// Can only be a mistake of ours; without the error it would be written as a record of no bytes.
	if r.data == nil && r.path != "" && r.verdict != catalog.Limit {
		return recordError(r, fault.KindInternal, "no bytes and no verdict", nil)
	}
	return nil
}

// budget bounds the bytes held by records that were read and not yet written.
// taken has what each record holds, because release is told the record's number alone.
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

// take waits until n bytes may be held for record seq. It cannot deadlock: whoever is next to be
// written never waits, and its release wakes the others.
func (b *budget) take(seq, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// A closed budget lets everybody through: the job has ended, and each finds that out by its context.
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
	// Broadcast and not Signal: the one that is next now may be any of those that wait.
	b.next = seq + 1
	b.freed.Broadcast()
}

// close wakes everybody who waits; from then on take waits no more.
func (b *budget) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.freed.Broadcast()
}
