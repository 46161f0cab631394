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

// Task is one image to make. Submit copies Path, Config and Identity; what Bytes and To point to
// belongs to the Work until it is finished or closed, and is not Go's memory.
type Task struct {
	InMemory   bool           // Bytes are the encoded image; else a file is read
	Bytes      unsafe.Pointer // nil where Length is 0
	Length     int64
	Path       []byte         // of the file; of an image in memory only what errors call it
	Descriptor int            // an open file that is read in the place of Path; negative for none
	Identity   *mmap.Identity // which the file must have; nil for any
	SameImage  bool           // the image of the task before: none of the above counts

	Config   []byte
	Key      native.Key
	To       unsafe.Pointer
	Capacity int64 // of To; 0: only the result's size is found out, from the image's header
}

// Result is what became of a task. The size is 0 where it did not come to be known.
type Result struct {
	Width, Height uint32
	Bytes         uint64
	Err           error
}

// task is a Task of a Work, without the memory of the caller's that only Submit may read.
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
	number  int64 // of those that were submitted

	// With the decoder's lock held.
	results  []Result
	finished []bool
	next     int // the first task that no thread has taken
	left     int // tasks that are not finished
	failed   int
	touching int       // threads that read or write the program's memory for it
	quiet    sync.Cond // told when they are none
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

// check refuses a task that says nothing, by its place in the list.
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

// claim takes the next unit, with the decoder's lock held: a task, and those behind it that are of the
// same image.
func (w *Work) claim() (first, end int) {
	first, end = w.next, w.next+1
	for end < len(w.tasks) && w.tasks[end].same {
		end++
	}
	w.next = end
	return first, end
}

// begin says whether the program's memory may be touched; end must follow where it may.
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

// finish takes the results of a unit.
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

// Wait waits until all tasks are finished, and says how many have failed.
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

// Result is that of task i. The error is about the question: there is no such task, or it is not
// finished. What is wrong with the task is in the Result.
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

// Close cancels what no thread has begun to decode and waits for the rest, which is an image of each
// thread at most. From then on nobody touches the program's memory for it. Closing twice is harmless.
func (w *Work) Close() {
	d := w.decoder
	d.mu.Lock()
	defer d.mu.Unlock()
	w.cancel()
	w.rest()
}

// rest waits until no thread touches the program's memory, with the lock held.
func (w *Work) rest() {
	for w.touching > 0 {
		w.quiet.Wait()
	}
}

// cancel is Close without the wait, with the lock held.
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

// release lets go of the recipes of all tasks that no thread has taken, and of those tasks.
func (w *Work) release() {
	for i := range w.tasks[w.next:] {
		w.tasks[w.next+i].recipe.release()
	}
	w.next = len(w.tasks)
}
