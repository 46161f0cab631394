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
	// ErrEnd: the epoch has no more batches; the next call goes on with the next epoch.
	ErrEnd = errors.New("the epoch has ended")
	// ErrTimeout: nothing was ready in time.
	ErrTimeout = errors.New("no batch was ready in time")
	// ErrClosed: the loader was closed.
	ErrClosed = fault.New(fault.KindClosed, "the loader is closed")
)

// Loader is an endless stream of batches. Its methods may be called from any goroutine.
type Loader struct {
	config  Config
	room          // of batches up to the usual size
	long    *room // of longer ones that were submitted, nil before the first; with the lock held
	order   *order.Order
	store   *store.Store
	learned *learned.Index
	kept    *parts.User // what was fetched, on disk; nil without a cache
	uses    uses
	chosen  *chosen     // in the place of uses, where batches are submitted and what is fetched is kept
	points  *pointsAway // nil without those
	begun   time.Time

	runs    bool // workers make images in runs, each in one C call
	pace    pace
	taken   int // of package processors
	warning string
	workers []*worker
	readers counters // of all readers, with the lock held
	ahead   readAhead

	mu        sync.Mutex
	work      sync.Cond // workers sleep here
	idle      int       // so many of them
	stream    *stream
	current   atomic.Pointer[stream] // the same, for workers on their way past the lock
	closing   bool
	reserved  bool // the memory of the window is being made, or was
	event     event
	report    report
	stretches stretches
	stalls    stalls

	trace.Current // workers look at it once a sample

	ready  chan struct{} // holds one token when a waiting Next should look again
	closed chan struct{} // closed by Close
	group  sync.WaitGroup
	gone   chan struct{} // closed when every goroutine has ended and everything is given back
}

// Open begins to work at once, so that the first batch is under way before it is asked for.
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
	// A batch that can never be is refused now, and not by the first Next.
	if err := usual.pool.Check(); err != nil {
		return nil, err
	}
	costs, err := c.shuffledBlocks()
	if err != nil {
		return nil, err
	}
	// Beside the workers a reader, and what makes the memory of the window.
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
	// Contexts are made here and not by the threads that use them, so that a shortage is an error
	// of Open and not of some batch.
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
		l.pace.ahead.Store(true) // for good: nobody waits for a network in a decode thread
		l.ahead.fetch()
		l.points = l.newPointsAway()
	}
	l.warning = lines(warning, wrong, costs)
	// From here on nothing fails, and the plans and a reference on the dataset are the Loader's.
	c.Dataset.Retain()
	l.move(c.Epoch, c.Position)
	if c.Trace != "" {
		// Before the first sample. What keeps it from being written is no reason not to train.
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

// undo gives back what a failing Open has made; workers that run close their own contexts.
func (l *Loader) undo() {
	for _, w := range l.workers {
		w.context.Close()
	}
	processors.Return(l.taken)
}

// beside the workers that many goroutines of a Loader may be in the kernel.
const beside = 2

// Warning says that there are fewer decode threads than should be, or that the cache of what was learned
// cannot be as the environment says; empty where nothing is to be said.
func (l *Loader) Warning() string { return l.warning }

// lines joins the texts that are not empty.
func lines(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), "\n")
}

// Prefetch is how many batches are made ahead.
func (l *Loader) Prefetch() int { return l.config.Prefetch }

// Layout says where the fields of a batch of the first phase lie; a longer one that was submitted
// has its own.
func (l *Loader) Layout() Layout { return l.layouts[0] }

// Steps is the number of batches in an epoch, -1 where the caller submits them.
func (l *Loader) Steps() int64 {
	if l.config.Submitted {
		return -1
	}
	return l.order.Steps()
}

// Lend gives memory for one batch; see pinned.Pool.Lend.
func (l *Loader) Lend(memory unsafe.Pointer, bytes, tag int64) error {
	return l.pool.Lend(memory, bytes, tag)
}

// closeGrace is how long Close waits for goroutines. Decoding ends within an image, which is waited for
// where memory or functions of the program's are in use; a read from storage that no longer answers takes longer, and
// nothing can interrupt it.
const closeGrace = 500 * time.Millisecond

// Close ends the stream: a Next that waits returns ErrClosed, workers stop after the image they
// are at. Batches that are held stay valid until they are released. Closing twice is harmless.
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
	// Behind the last sample; without those of a read that hangs. Whoever wants to know what writing met
	// ends the trace before.
	_ = l.EndTrace()
}

// reap gives everything back when the last goroutine has ended, which for a stuck read may be
// after Close has returned.
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
