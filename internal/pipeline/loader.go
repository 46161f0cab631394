package pipeline

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/internal/learned"
	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/internal/parts"
	"github.com/headrace/headrace/internal/processors"
	"github.com/headrace/headrace/internal/store"
	"github.com/headrace/headrace/internal/trace"
	"github.com/headrace/headrace/native"
)

var (
	// ErrEnd means that the epoch has no more batches; the next call goes on with the next epoch.
	ErrEnd = errors.New("the epoch has ended")
	// ErrTimeout means that nothing was ready in time.
	ErrTimeout = errors.New("no batch was ready in time")
	// ErrClosed means that the loader was closed.
	ErrClosed = fault.New(fault.KindClosed, "the loader is closed")
)

// Loader is an endless stream of batches. Its methods may be called from any goroutine.
type Loader struct {
	config  Config
	room          // for batches up to the usual size
	long    *room // for longer ones that were submitted, nil before the first; protected by the lock
	order   *order.Order
	store   *store.Store
	learned *learned.Index
	kept    *parts.User // the cache on disk for what is fetched; nil without one
	uses    uses
	chosen  *chosen     // instead of uses, if batches are submitted and fetched records are kept
	points  *pointsAway // nil if there are none
	begun   time.Time

	runs    bool // workers make images in runs, each run in one C call
	pace    pace
	taken   int // number of processors taken from package processors
	warning string
	workers []*worker
	readers counters // of all readers; protected by the lock
	ahead   readAhead

	mu        sync.Mutex
	work      sync.Cond // workers sleep here
	idle      int       // number of workers that sleep
	stream    *stream
	current   atomic.Pointer[stream] // the same, for workers that do not take the lock
	closing   bool
	reserved  bool // the memory of the window is being made, or was
	event     event
	report    report
	stretches stretches
	stalls    stalls

	trace.Current // workers read it once for each sample

	ready  chan struct{} // holds one token when a waiting Next should look again
	closed chan struct{} // closed by Close
	group  sync.WaitGroup
	gone   chan struct{} // closed when every goroutine has ended and everything was released
}

// Open starts to work at once, so that the first batch is being made before it is asked for.
func Open(c Config) (*Loader, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	usual, err := newRoom(&c, c.Order.Config().BatchSize)
	if errors.Is(err, errSizes) {
		return nil, c.explainSizes()
	}
	if err != nil {
		return nil, err
	}
	// A batch that is impossible is refused now, and not by the first Next.
	if err := usual.pool.Check(); err != nil {
		return nil, err
	}
	costs, err := c.shuffledBlocks()
	if err != nil {
		return nil, err
	}
	// In addition to the workers there is a reader, and a goroutine that makes the memory of the window.
	taken, short := processors.Take(c.Threads+beside, 1+beside)
	if taken == 0 {
		return nil, short
	}
	warning := ""
	if threads := taken - beside; threads < c.Threads {
		warning = headroom.Fewer(threads, c.Threads, short)
		c.Threads = threads
	}
	l := &Loader{config: c, room: *usual, order: c.Order, begun: time.Now(), taken: taken, warning: warning,
		ready: make(chan struct{}, 1), closed: make(chan struct{}), gone: make(chan struct{})}
	l.runs = c.inRuns()
	l.work.L = &l.mu
	l.ahead.init(l)
	// Contexts are made here and not by the threads that use them, so that a shortage of memory is an error of Open and
	// not of some batch.
	for range c.Threads {
		context, err := native.NewContext(c.Limits)
		if err != nil {
			l.undo()
			return nil, err
		}
		l.workers = append(l.workers, &worker{loader: l, context: context, number: len(l.workers)})
	}
	var wrong string
	l.learned, wrong = learned.Open()
	l.store, err = store.Open(c.Dataset, store.Options{
		Options: c.Store, MaxRecordBytes: int64(c.Limits.MaxRecordBytes), Blocks: c.Blocks,
		Unverified: !c.VerifyCRC, Salvage: c.OnError == Replace})
	if err != nil {
		l.learned.Close()
		l.undo()
		return nil, err
	}
	if c.Dataset.Away() {
		l.pace.ahead.Store(true) // this stays so: a decode thread must not wait for a network
		l.ahead.fetch()
		l.points = l.newPointsAway()
	}
	l.warning = lines(warning, wrong, costs)
	// From here on nothing fails. The Loader now owns the plans and a reference to the dataset.
	c.Dataset.Retain()
	l.move(c.Epoch, c.Position)
	if c.Trace != "" {
		// The trace begins before the first sample. If it cannot be written, training can still go on.
		_, _ = l.Trace(c.Trace)
	}
	for _, w := range l.workers {
		l.group.Go(w.run)
	}
	if l.ahead.fetcher != nil {
		l.group.Go(l.ahead.plan)
	}
	if l.points != nil {
		l.group.Go(func() { l.bring(l.points) })
	}
	go l.reap()
	return l, nil
}

// undo releases what a failing Open has made; running workers close their own contexts.
func (l *Loader) undo() {
	for _, w := range l.workers {
		w.context.Close()
	}
	processors.Return(l.taken)
}

// beside is how many goroutines of a Loader, besides the workers, may be in the kernel.
const beside = 2

// Warning says that there are fewer decode threads than wanted, or that the environment's settings for the cache of
// what was learned are wrong; empty if there is nothing to say.
func (l *Loader) Warning() string { return l.warning }

// lines joins the texts that are not empty.
func lines(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), "\n")
}

// Prefetch is how many batches are made ahead.
func (l *Loader) Prefetch() int { return l.config.Prefetch }

// Layout returns the layout of batches of the first phase. A longer batch that was submitted has its own.
func (l *Loader) Layout() Layout { return l.layouts[0] }

// Steps is the number of batches in an epoch, -1 if the caller submits them.
func (l *Loader) Steps() int64 {
	if l.config.Submitted {
		return -1
	}
	return l.order.Steps()
}

// Lend lends memory for one batch; see pinned.Pool.Lend.
func (l *Loader) Lend(memory unsafe.Pointer, bytes, tag int64) error {
	return l.pool.Lend(memory, bytes, tag)
}

// closeGrace is how long Close waits for goroutines. Decoding ends within one image; Close waits for that in any case
// if memory or functions of the program are in use. A read from storage that no longer answers takes longer, and
// nothing can interrupt it.
const closeGrace = 500 * time.Millisecond

// Close ends the stream. A Next that waits returns ErrClosed, and workers stop after their present image.
// Batches that are held stay valid until they are released. Closing twice is harmless.
func (l *Loader) Close() {
	l.mu.Lock()
	if !l.closing {
		l.closing = true
		l.cancel(l.stream)
		l.work.Broadcast()
		l.ahead.door.Broadcast()
		l.store.Stop()
		if l.ahead.fetcher != nil {
			l.ahead.fetcher.Stop()
		}
		if l.points != nil {
			l.points.stop()
		}
		l.notify()
		close(l.closed)
		l.event.close()
	}
	long := l.long
	l.mu.Unlock()
	l.close()
	if long != nil {
		long.close()
	}
	select {
	case <-l.gone:
	case <-time.After(closeGrace):
		l.rest()
	}
	// The trace ends after the last sample, without those of a read that hangs. To learn of write errors, the caller must
	// end the trace before.
	_ = l.EndTrace()
}

// reap releases everything when the last goroutine has ended. If a read hangs, that may be after Close has returned.
func (l *Loader) reap() {
	l.group.Wait()
	processors.Return(l.taken)
	l.ahead.release()
	l.store.Close()
	l.learned.Close()
	l.config.Recipe.Close()
	l.config.Dataset.Release()
	close(l.gone)
}
