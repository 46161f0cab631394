package decoder

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/internal/learned"
	"github.com/headrace/headrace/internal/processors"
	"github.com/headrace/headrace/internal/threads"
	"github.com/headrace/headrace/internal/trace"
	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
)

// Config configures a Decoder.
type Config struct {
	Threads int // decode threads; 0: threads.Default
	Compile Compile
	Store   mmap.Options // how files are read; they are never mapped
}

const (
	// At most maxWorks works and MaxTasks tasks may wait unfinished, so that a caller that submits and never waits does
	// not fill the memory.
	maxWorks = 4096
	MaxTasks = 1 << 20
	// closeGrace is how long Close waits for reads, because nothing can interrupt them.
	closeGrace = 500 * time.Millisecond
)

// Decoder holds decode threads that do Works. Its methods may be called from any goroutine.
type Decoder struct {
	config  Config
	recipes recipes
	taken   int // threads from package processors
	warning string
	learned *learned.Index
	workers []*worker

	mu      sync.Mutex
	wake    sync.Cond // threads sleep here
	queue   []*Work   // works with tasks that no thread has taken, in order
	works   map[*Work]struct{}
	waiting int // tasks of all works that are not finished
	closing bool
	// Submitted works: how many there were, and how many are finished and not closed.
	submitted int64
	finished  int

	trace.Current

	group sync.WaitGroup
	gone  chan struct{} // closed when all threads have ended and everything is given back
}

// Open starts the threads.
func Open(c Config) (*Decoder, error) {
	if c.Threads == 0 {
		c.Threads = threads.Default()
	}
	if c.Threads < 1 || c.Threads > threads.Most {
		return nil, fault.New(fault.KindArgument, fault.Argument("num_threads", c.Threads, fmt.Sprintf("1 to %d, or 0 for as many as the process may use", threads.Most)))
	}
	taken, short := processors.Take(c.Threads, 1)
	if taken == 0 {
		return nil, short
	}
	d := &Decoder{config: c, taken: taken, works: make(map[*Work]struct{}), gone: make(chan struct{})}
	if taken < c.Threads {
		d.warning = headroom.Fewer(taken, c.Threads, short)
	}
	d.wake.L = &d.mu
	d.recipes.compile, d.recipes.known = c.Compile, make(map[recipeKey]*recipe)
	// Contexts are made here and not by the threads that use them, so that a shortage is an error of Open and not of
	// some image.
	workers := make([]*worker, taken)
	for i := range workers {
		workers[i] = &worker{decoder: d, number: i, limits: native.DefaultLimits()}
		var err error
		if workers[i].context, err = native.NewContext(workers[i].limits); err != nil {
			for _, w := range workers[:i] {
				w.context.Close()
			}
			processors.Return(taken)
			return nil, err
		}
	}
	d.workers = workers
	var wrong string
	if d.learned, wrong = learned.Open(); d.warning == "" {
		d.warning = wrong
	}
	for _, w := range workers {
		d.group.Go(w.run)
	}
	go d.reap()
	return d, nil
}

// Warning says that there are fewer threads than there should be, or that the cache of what was learned cannot be as
// the environment says. It is "" if there is nothing to say.
func (d *Decoder) Warning() string { return d.warning }

// Submit hands a list of tasks to the threads. It returns an error if the list is impossible. Errors of an image or a
// configuration are in the task's Result.
func (d *Decoder) Submit(list []Task) (*Work, error) {
	w, err := newWork(d, list)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closing:
		err = ErrClosed
	case len(d.works) >= maxWorks:
		err = fmt.Errorf("%w: %d works wait, of at most %d", ErrFull, len(d.works), maxWorks)
	case d.waiting+len(list) > MaxTasks:
		err = fmt.Errorf("%w: %d tasks wait and %d more were submitted, of at most %d", ErrFull, d.waiting, len(list), MaxTasks)
	}
	if err != nil {
		w.release()
		return nil, err
	}
	if len(list) == 0 {
		return w, nil
	}
	w.number = d.submitted
	d.submitted++
	d.works[w] = struct{}{}
	d.waiting += len(list)
	d.queue = append(d.queue, w)
	d.wake.Broadcast()
	return w, nil
}

// forget removes a work from those that are not finished. The lock is held.
func (d *Decoder) forget(w *Work) { delete(d.works, w) }

// take waits for a unit to do, and adds the wait to idle in ns. ok is false when the Decoder closes.
func (d *Decoder) take(idle *atomic.Int64) (w *Work, first, end int, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for !d.closing && len(d.queue) == 0 {
		began := time.Now()
		d.wake.Wait()
		idle.Add(int64(time.Since(began)))
	}
	if d.closing {
		return nil, 0, 0, false
	}
	w = d.queue[0]
	first, end = w.claim()
	if w.next == len(w.tasks) {
		d.queue[0] = nil
		d.queue = d.queue[1:]
	}
	return w, first, end, true
}

// Close closes the works that are not finished, as their own Close does, and ends the threads. A thread whose read
// hangs ends when that read does. Closing twice is harmless.
func (d *Decoder) Close() {
	d.mu.Lock()
	d.closing = true
	d.wake.Broadcast()
	unfinished := slices.Collect(maps.Keys(d.works))
	for _, w := range unfinished {
		w.cancel()
	}
	for _, w := range unfinished {
		w.rest()
	}
	d.mu.Unlock()
	select {
	case <-d.gone:
	case <-time.After(closeGrace):
	}
	_ = d.EndTrace() // a caller that needs the error of writing ends the trace before
}

// reap gives everything back when the last thread has ended. If a read hangs, that may be after Close has returned.
func (d *Decoder) reap() {
	d.group.Wait()
	processors.Return(d.taken)
	d.learned.Close()
	d.recipes.clear()
	close(d.gone)
}
