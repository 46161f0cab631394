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
	buffer    mmap.Buffer // for bytes that it reads itself
	seek      mmap.Buffer // for seek points that it reads itself
	beside    mmap.Buffer // for a label or further image that has its own file
	views     []native.View
	picked    []picked      // samples of a run of images of an array
	rows      []native.Row  // the same samples, for the call that makes them
	claimed   run           // the run that it has claimed, as far as it is left
	number    int           // of the Loader's workers
	timed     bool          // the context measures times, for a trace
	blockTime time.Duration // time for reading the block of the last sample in a compressed block
	touches   atomic.Bool   // it is between touch and untouch
	counters
}

// touch must be called before memory is accessed that the program has lent or that its array lies in, and before the
// program's functions are called. It returns false if the batch is not wanted any more; all that may then be gone.
// Between touch and untouch nothing may wait for a read.
func (w *worker) touch(d *draft) bool {
	// This order matters: rest reads the two in the opposite order.
	w.touches.Store(true)
	if d.stream.cancelled.Load() {
		w.untouch()
		return false
	}
	return true
}

func (w *worker) untouch() { w.touches.Store(false) }

// rest waits until no worker of a cancelled stream uses what belongs to the program. That takes one image for each
// worker at most.
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

// run has samples of a draft that one worker has claimed: from first to before end.
type run struct {
	draft            *draft
	first, next, end int64
}

// claim hands out the first of the next samples of a draft, and keeps the others for the next calls.
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

// run works until the Loader closes. The goroutine ends without unlocking its thread, so the thread ends too, and the
// runtime does not reuse a thread that a decoder may have changed.
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
		// The record comes first: its reader can go on while this batch is perhaps completed.
		if task.record != nil {
			w.loader.ahead.done(task.record)
		}
		w.loader.finished(task.draft)
	}
}

// task is one sample of a draft: number i in it. If there is a record, it was read already.
type task struct {
	draft  *draft
	i      int64
	record *record
}

// take finds the next sample to decode; ok is false when the Loader closes.
func (w *worker) take() (task, bool) {
	l := w.loader
	// Samples that this worker has claimed come first, because nobody else can finish them.
	if r := &w.claimed; r.next < r.end {
		r.next++
		return task{draft: r.draft, i: r.next - 1}, true
	}
	if l.ahead.queued.Load() == 0 && !l.pace.slow() {
		// This is the common path: it takes a few atomic loads and one addition.
		if d := l.current.Load().claiming.Load(); d != nil && d.open.Load() {
			if t, ok := w.claim(d); ok {
				return t, true
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closing {
		// Records that were read come first, then samples that can be read, then memory to read into.
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

// claimNext finds a sample that a worker reads itself; the caller holds the lock.
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
		// Workers plan only as far as the window, because they need the slot at once.
		if !l.stream.advance(l.config.window()) {
			break
		}
	}
	return task{}, false
}

// sleep waits for work and notes what for: for bytes if readers have samples, otherwise for the consumer to take a
// batch.
// The caller holds the lock.
func (w *worker) sleep() {
	l := w.loader
	// If the window is full, or nothing more was submitted, and readers hold nothing, only the consumer can help.
	waited := &w.slotWait
	reading := l.ahead.reading > 0
	if l.ahead.fetcher != nil { // a fetcher holds more than the consumer will want soon
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
