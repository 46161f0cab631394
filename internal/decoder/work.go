package decoder

import (
	"fmt"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
)

// Task is one image to make. Submit copies Path, Config and Identity. The memory behind Bytes and To belongs to the
// Work until the Work is finished or closed, and is not Go's.
type Task struct {
	InMemory   bool           // Bytes are the encoded image; else a file is read
	Bytes      unsafe.Pointer // nil if Length is 0
	Length     int64
	Path       []byte         // of the file; for an image in memory only its name in errors
	Descriptor int            // an open file that is read instead of Path; negative for none
	Identity   *mmap.Identity // that the file must have; nil for any
	SameImage  bool           // the image of the task before: the fields above are ignored

	Config   []byte
	Key      native.Key
	To       unsafe.Pointer
	Capacity int64 // of To; 0: only the result's size is found out from the header
}

// Result is the outcome of a task. The size is 0 if it did not become known.
type Result struct {
	Width, Height uint32
	Bytes         uint64
	Err           error
}

// task is a Task of a Work, without the caller's memory that only Submit may read.
type task struct {
	inMemory bool
	bytes    mmap.View
	source   mmap.Source
	same     bool
	recipe   *recipe
	key      native.Key
	to       unsafe.Pointer
	capacity int64
}

// Work is a list of tasks that were submitted together. Its methods may be called from any goroutine.
type Work struct {
	decoder *Decoder
	tasks   []task
	number  int64 // its number among the submitted works

	// These fields are used with the decoder's lock held.
	results  []Result
	finished []bool
	next     int // the first task that no thread has taken
	left     int // tasks that are not finished
	failed   int
	touching int       // threads that read or write the program's memory for this work
	quiet    sync.Cond // signalled when there are none
	closed   bool

	done chan struct{} // closed when all tasks are finished
	gone chan struct{} // closed by Close
}

func newWork(d *Decoder, list []Task) (*Work, error) {
	w := &Work{decoder: d, tasks: make([]task, len(list)), results: make([]Result, len(list)),
		finished: make([]bool, len(list)), left: len(list), done: make(chan struct{}), gone: make(chan struct{})}
	w.quiet.L = &d.mu
	for i := range list {
		if err := list[i].check(i); err != nil {
			return nil, err
		}
	}
	d.recipes.mu.Lock()
	defer d.recipes.mu.Unlock()
	for i := range list {
		from := &list[i]
		source := mmap.Source{Path: string(from.Path), Descriptor: from.Descriptor, Identity: from.Identity}
		if from.InMemory || from.SameImage {
			source = mmap.Source{Path: string(from.Path), Descriptor: -1}
		}
		w.tasks[i] = task{inMemory: from.InMemory, bytes: mmap.View{Pointer: from.Bytes, Length: from.Length}, source: source, same: from.SameImage,
			recipe: d.recipes.hold(from.Config, from.Key.Epoch), key: from.Key, to: from.To, capacity: from.Capacity}
	}
	if len(list) == 0 {
		close(w.done)
	}
	return w, nil
}

// check refuses a task that is incomplete; the error gives its place in the list.
func (t *Task) check(i int) error {
	text := ""
	switch {
	case t.SameImage && i == 0:
		text = "same_image is 1 (expected 0, for there is no task before it)"
	case !t.SameImage && !t.InMemory && len(t.Path) == 0 && t.Descriptor < 0:
		text = "it has no image (expected bytes, a path or a descriptor)"
	}
	if text == "" {
		return nil
	}
	return fault.New(fault.KindArgument, fmt.Sprintf("task %d: %s", i, text))
}

// claim takes the next unit: a task, and the tasks after it that use the same image. The decoder's lock is held.
func (w *Work) claim() (first, end int) {
	first, end = w.next, w.next+1
	for end < len(w.tasks) && w.tasks[end].same {
		end++
	}
	w.next = end
	return first, end
}

// begin says whether the program's memory may be touched. If so, end must be called afterwards.
func (w *Work) begin() bool {
	w.decoder.mu.Lock()
	defer w.decoder.mu.Unlock()
	if w.closed {
		return false
	}
	w.touching++
	return true
}

func (w *Work) isClosed() bool {
	w.decoder.mu.Lock()
	defer w.decoder.mu.Unlock()
	return w.closed
}

func (w *Work) end() {
	w.decoder.mu.Lock()
	defer w.decoder.mu.Unlock()
	if w.touching--; w.touching == 0 {
		w.quiet.Broadcast()
	}
}

// finish stores the results of a unit.
func (w *Work) finish(first int, results []Result) {
	for i := range results {
		w.tasks[first+i].recipe.release()
	}
	d := w.decoder
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.closed {
		return
	}
	for i, result := range results {
		w.results[first+i], w.finished[first+i] = result, true
		if result.Err != nil {
			w.failed++
		}
	}
	w.left -= len(results)
	d.waiting -= len(results)
	if w.left == 0 {
		d.forget(w)
		d.finished++
		close(w.done)
	}
}

// Wait waits until all tasks are finished, and returns how many have failed.
func (w *Work) Wait(timeout time.Duration) (failed int, err error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-w.done:
	case <-w.gone:
	case <-timer.C:
	}
	w.decoder.mu.Lock()
	defer w.decoder.mu.Unlock()
	switch {
	case w.left == 0:
		return w.failed, nil
	case w.closed:
		return 0, ErrClosed
	}
	return 0, ErrTimeout
}

// Result returns the result of task i. Its error is about the question: there is no such task, or it is not finished.
// An error of the task itself is in the Result.
func (w *Work) Result(i uint64) (Result, error) {
	w.decoder.mu.Lock()
	defer w.decoder.mu.Unlock()
	switch {
	case i >= uint64(len(w.tasks)):
		return Result{}, fault.New(fault.KindArgument, fault.Argument("index", i, fmt.Sprintf("less than %d, the tasks of the work", len(w.tasks))))
	case w.finished[i]:
		return w.results[i], nil
	case w.closed:
		return Result{}, ErrClosed
	}
	return Result{}, ErrTimeout
}

// Close cancels tasks that no thread has begun to decode and waits for the others, which are at most one image for each
// thread. Afterwards no thread touches the program's memory for this work. Closing twice is harmless.
func (w *Work) Close() {
	d := w.decoder
	d.mu.Lock()
	defer d.mu.Unlock()
	w.cancel()
	w.rest()
}

// rest waits until no thread touches the program's memory. The lock is held.
func (w *Work) rest() {
	for w.touching > 0 {
		w.quiet.Wait()
	}
}

// cancel does what Close does, without waiting. The lock is held.
func (w *Work) cancel() {
	if w.closed {
		return
	}
	w.closed = true
	close(w.gone)
	d := w.decoder
	switch {
	case w.left > 0:
		d.waiting -= w.left
		d.forget(w)
	case len(w.tasks) > 0:
		d.finished--
	}
	w.release()
	d.queue = slices.DeleteFunc(d.queue, func(other *Work) bool { return other == w })
}

// release drops the recipes of all tasks that no thread has taken, and these tasks.
func (w *Work) release() {
	for i := range w.tasks[w.next:] {
		w.tasks[w.next+i].recipe.release()
	}
	w.next = len(w.tasks)
}
