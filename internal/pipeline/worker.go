package pipeline

import (
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
)

// threadName is what ps, top and a debugger show for a decode thread, NUL at the end: 15 bytes are
// all that the kernel keeps (prctl(2), PR_SET_NAME).
var threadName = [16]byte([]byte("headrace-decode\x00"))

// nameThread names the locked thread and returns what takes the name off again: the process's first
// thread cannot end, the runtime parks it for ever instead (runtime.mexit).
func nameThread() func() {
	var before [16]byte
	// These cannot fail with memory that is there; and a thread without a name works as well.
	_ = unix.Prctl(unix.PR_GET_NAME, uintptr(unsafe.Pointer(&before)), 0, 0, 0)
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&threadName)), 0, 0, 0)
	return func() { _ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&before)), 0, 0, 0) }
}

// worker is one decode thread.
type worker struct {
	loader  *Loader
	context *native.Context
	buffer  mmap.Buffer // for what it reads itself
	seek    mmap.Buffer // for the seek points of that
	views   []native.View
	counters
}

// run works until the Loader closes. The goroutine ends without unlocking, and the thread with
// it: it is not left to the runtime with whatever a decoder did to it.
func (w *worker) run() {
	runtime.LockOSThread()
	defer nameThread()()
	defer w.buffer.Free()
	defer w.seek.Free()
	defer w.context.Close()
	for {
		task, ok := w.take()
		if !ok {
			return
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
	if l.ahead.queued.Load() == 0 && !l.pace.slow() {
		// The one path that counts: a few atomic loads and one addition.
		if d := l.current.Load().claiming.Load(); d != nil && d.open.Load() {
			if i, ok := d.claim(); ok {
				return task{draft: d, i: i}, true
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
		if t, ok := l.claim(); ok {
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

// claim hands out a sample for a worker to read itself, with the lock held.
func (l *Loader) claim() (task, bool) {
	for !l.pace.slow() {
		d := l.stream.claiming.Load()
		if d == nil {
			break
		}
		if d.open.Load() {
			if i, ok := d.claim(); ok {
				return task{draft: d, i: i}, true
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
	if (l.stream.opened < l.config.window() && !l.stream.wanting()) || l.ahead.reading > 0 {
		waited = &w.readWait
	}
	began := time.Now()
	l.idle++
	l.work.Wait()
	l.idle--
	waited.Add(int64(time.Since(began)))
}
