package pipeline

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/internal/threads"
	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
)

// worker is one decode thread.
type worker struct {
	loader    *Loader
	context   *native.Context
	buffer    mmap.Buffer // for what it reads itself
	seek      mmap.Buffer // for the seek points of that
	beside    mmap.Buffer // for a label of its own file, or an image that is one
	views     []native.View
	picked    []picked      // of a run of images of an array
	rows      []native.Row  // the same, for the call that makes them
	claimed   run           // what is left of it
	number    int           // of the Loader's workers
	timed     bool          // the context notes times, for a trace
	blockTime time.Duration // of the last sample in a compressed block: what reading blocks took
	touches   atomic.Bool   // it is between touch and untouch
	counters
}

// touch begins what looks at or writes to memory that the program has lent, or that its array lies in, or calls
// its functions; not ok where the batch is wanted no more, and all of that perhaps gone. What may wait for a read
// is not done meanwhile. untouch ends it.
func (w *worker) touch(d *draft) bool {
	// In this order: rest looks at them in the other one.
	w.touches.Store(true)
	if d.stream.cancelled.Load() {
		w.untouch()
		return false
	}
	return true
}

func (w *worker) untouch() { w.touches.Store(false) }

// rest waits until no worker of a cancelled stream has to do with what is the program's: an image of each at
// most.
func (l *Loader) rest() {
	if !l.pool.Lent() && !inMemory(l.config.Dataset) && !l.config.Recipe.usesProgram() {
		return
	}
	for _, w := range l.workers {
		for w.touches.Load() {
			time.Sleep(time.Millisecond)
		}
	}
}

// run is samples of a draft that one worker has claimed: from first to before end.
type run struct {
	draft            *draft
	first, next, end int64
}

// claim hands out the first of the next samples of a draft, and keeps the others for later.
func (w *worker) claim(d *draft) (task, bool) {
	n := int64(1)
	switch {
	case d.mixture != nil:
		n = d.mixture.run(w.loader.config.Threads)
	case w.loader.runs:
		n = max(1, min(longestRun, d.count/(2*int64(w.loader.config.Threads))))
	}
	first, end, ok := d.claim(n)
	w.claimed = run{d, first, first + 1, end}
	return task{draft: d, i: first}, ok
}

// run works until the Loader closes. The goroutine ends without unlocking, and the thread with
// it: it is not left to the runtime with whatever a decoder did to it.
func (w *worker) run() {
	runtime.LockOSThread()
	defer threads.Name()()
	threads.Lower(w.loader.config.Nice)
	defer w.buffer.Free()
	defer w.seek.Free()
	defer w.beside.Free()
	defer w.context.Close()
	for {
		task, ok := w.take()
		if !ok {
			return
		}
		if w.loader.runs && w.claimed.draft == task.draft && task.record == nil {
			w.fillRun()
			continue
		}
		if r := task.record; r != nil && r.kept && !w.readHit(r) {
			w.loader.ahead.fetchAfterAll(r)
			continue
		}
		w.fill(task)
		// The record first: its reader can go on while this batch is perhaps completed.
		if task.record != nil {
			w.loader.ahead.done(task.record)
		}
		w.loader.finished(task.draft)
	}
}

// task is one sample of a draft: number i in it, read already if there is a record.
type task struct {
	draft  *draft
	i      int64
	record *record
}

// take finds the next sample to decode; not ok when the Loader closes.
func (w *worker) take() (task, bool) {
	l := w.loader
	// Those first, and to the end: nobody else can finish them.
	if r := &w.claimed; r.next < r.end {
		r.next++
		return task{draft: r.draft, i: r.next - 1}, true
	}
	if l.ahead.queued.Load() == 0 && !l.pace.slow() {
		// The one path that counts: a few atomic loads and one addition.
		if d := l.current.Load().claiming.Load(); d != nil && d.open.Load() {
			if t, ok := w.claim(d); ok {
				return t, true
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closing {
		// What is read comes first, then what can be read, then memory to read for.
		if r := l.ahead.pop(); r != nil {
			return task{r.draft, r.i, r}, true
		}
		if t, ok := w.claimNext(); ok {
			return t, true
		}
		if d := l.stream.unopened(l.config.window()); d != nil {
			l.open(d)
			continue
		}
		w.sleep()
	}
	return task{}, false
}

// claimNext finds a sample for a worker to read itself, with the lock held.
func (w *worker) claimNext() (task, bool) {
	l := w.loader
	for !l.pace.slow() {
		d := l.stream.claiming.Load()
		if d == nil {
			break
		}
		if d.open.Load() {
			if t, ok := w.claim(d); ok {
				return t, true
			}
		}
		// Workers plan no further than the window, for they need the slot right away.
		if !l.stream.advance(l.config.window()) {
			break
		}
	}
	return task{}, false
}

// sleep waits for work, with the lock held, and counts what for: bytes when samples were handed
// out to readers, else for the consumer to take a batch.
func (w *worker) sleep() {
	l := w.loader
	// With the window full, or nothing more submitted, and nothing in the readers' hands only the
	// consumer can help.
	waited := &w.slotWait
	reading := l.ahead.reading > 0
	if l.ahead.fetcher != nil { // which has more in its hands than the consumer will soon want
		reading = l.stream.incomplete()
	}
	if (l.stream.opened < l.config.window() && !l.stream.wanting()) || reading {
		waited = &w.readWait
	}
	began := time.Now()
	l.idle++
	l.work.Wait()
	l.idle--
	waited.Add(int64(time.Since(began)))
}
