package decoder

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/learned"
	"github.com/headrace/headrace/internal/threads"
	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
)

// worker is one decode thread.
type worker struct {
	decoder  *Decoder
	number   int
	counters counters
	context  *native.Context
	limits   native.Limits // the limits of the context
	timed    bool          // whether the context notes times
	called   time.Duration // what its last call took, if times are noted
	buffer   mmap.Buffer
	points   mmap.Buffer // for seek points
	unit     unit
}

// unit is the tasks of one image, and what a thread knows of the image.
type unit struct {
	work    *Work
	first   int // of its tasks in the work
	tasks   []task
	results []Result
	recipes []*Recipe // nil for a finished task: it has failed, or only its size was asked for
	views   []native.View
	facts   native.Facts // of the image, under the limits
	limits  native.Limits
	known   bool       // whether facts are known
	stamp   mmap.Stamp // of the image's file
	points  points
}

// points are what the learned index knows about a unit's image.
type points struct {
	seek     native.Seek
	name     learned.Name
	looked   bool
	crc      uint32
	inMemory bool // the program may change the bytes at any time; crc is that of the former bytes
}

// run works until the Decoder closes. The goroutine ends without unlocking, so its thread ends, too: the runtime does
// not get back a thread that a decoder may have changed.
func (w *worker) run() {
	runtime.LockOSThread()
	defer threads.Name()()
	defer w.buffer.Free()
	defer w.points.Free()
	defer func() { w.context.Close() }() // the context may be another one by then
	for {
		work, first, end, ok := w.decoder.take(&w.counters.idle)
		if !ok {
			return
		}
		w.unit.begin(work, first, end)
		w.do()
		work.finish(first, w.unit.results)
		w.unit.drop()
	}
}

func (u *unit) begin(work *Work, first, end int) {
	u.work, u.first, u.tasks, u.known, u.points = work, first, work.tasks[first:end], false, points{}
	u.results, u.recipes = u.results[:0], u.recipes[:0]
	for range u.tasks {
		u.results, u.recipes = append(u.results, Result{}), append(u.recipes, nil)
	}
}

// drop lets go of what belongs to the program.
func (u *unit) drop() {
	clear(u.results)
	clear(u.recipes)
	clear(u.views)
	u.work, u.tasks, u.views = nil, nil, u.views[:0]
}

// fail makes an error the result of every task that is not finished.
func (u *unit) fail(err error) {
	for i := range u.tasks {
		if u.recipes[i] != nil {
			u.finish(i, err)
		}
	}
}

// finish ends a task; without an error its image was made.
func (u *unit) finish(i int, err error) {
	u.results[i].Err, u.recipes[i] = named(err, u.tasks[0].source.Name()), nil
}

// do makes the images of a unit.
func (w *worker) do() {
	u := &w.unit
	defer func() {
		// A fault of Headrace ends this image, and never the process.
		if p := recover(); p != nil {
			text := fmt.Sprintf("panic: %v; please report this with: %s", p, debug.Stack())
			err := &Error{Code: fault.KindInternal, Offset: fault.None, Text: text}
			for i := range u.results {
				u.results[i].Err = err
			}
		}
	}()
	limit, wanted := int64(0), false
	for i := range u.tasks {
		recipe, err := u.tasks[i].recipe.get(w.decoder.config.Compile)
		if err != nil {
			u.finish(i, err)
			continue
		}
		u.recipes[i], wanted = recipe, true
		limit = max(limit, int64(min(recipe.Limits.MaxRecordBytes, 1<<62)))
	}
	if !wanted {
		return
	}
	t, began := w.traced(), time.Now()
	view, err := w.read(limit)
	read := time.Since(began)
	w.counters.reading.Add(int64(read))
	if err != nil {
		u.fail(err)
		if t != nil {
			w.called = 0
			w.note(t, 0, began, read, 0)
		}
		return
	}
	w.counters.bytes.Add(view.Length)
	worked := time.Now()
	for i := range u.tasks {
		if u.recipes[i] == nil {
			continue
		}
		w.called = 0
		w.make(i, view)
		if t != nil {
			w.note(t, i, began, read, view.Length)
			began, read = time.Now(), 0
		}
	}
	w.counters.decode.Add(int64(time.Since(worked)))
}

// look finds the image's seek points. If the image is in the program's memory, that memory is held meanwhile.
func (w *worker) look(data mmap.View) {
	u, x := &w.unit, w.decoder.learned
	if u.points.looked || !learned.Worth(data) {
		return
	}
	u.points.looked = true
	if u.points.inMemory = u.tasks[0].inMemory; u.points.inMemory {
		if !x.Learns() {
			return
		}
		u.points.crc = native.CRC32C(0, data.Bytes())
		u.points.name = x.Bytes(data.Bytes(), u.points.crc)
	} else {
		u.points.name = x.File(u.tasks[0].source.Name(), u.stamp)
	}
	u.points.seek = x.Find(u.points.name, &w.points)
}

// learn keeps what was learned of the image, and makes it available to other images at once.
func (w *worker) learn() {
	u, x := &w.unit, w.decoder.learned
	if !u.points.seek.Learn {
		return
	}
	var kept bool
	if u.points.inMemory {
		kept = x.LearnBytes(u.points.name, w.context, u.points.crc)
	} else {
		kept = x.Learn(u.points.name, w.context)
	}
	if kept && len(u.tasks) > 1 {
		u.points.seek = x.Find(u.points.name, &w.points)
	}
}

// read makes the encoded bytes readable: the program's own, or those of a file in the thread's buffer. The file is not
// opened for a work that was closed.
func (w *worker) read(limit int64) (mmap.View, error) {
	t := &w.unit.tasks[0]
	if t.inMemory {
		return t.bytes, nil
	}
	if w.unit.work.isClosed() {
		return mmap.View{}, ErrClosed
	}
	view, stamp, err := mmap.ReadSource(t.source, &w.buffer, limit, w.decoder.config.Store)
	w.unit.stamp = stamp
	return view, oversized(err, t.source.Name(), limit)
}

// make makes the image of task i, and of the tasks after it that are views of the same image.
func (w *worker) make(i int, data mmap.View) {
	u := &w.unit
	if !u.work.begin() {
		u.fail(ErrClosed)
		return
	}
	defer u.work.end()
	if err := w.limit(u.recipes[i].Limits); err != nil {
		u.finish(i, err)
		return
	}
	count := 0
	for k := i; k < len(u.tasks) && count < native.MaxViews && u.follows(i, k); k++ {
		if ready, err := w.measure(k, data); !ready {
			u.finish(k, err)
			break
		}
		count++
	}
	if count == 0 {
		return
	}
	if err := w.sample(i, count, data); err == nil || count == 1 {
		for k := i; k < i+count; k++ {
			u.finish(k, err)
		}
		return
	}
	// The error does not say which view caused it. Each view alone gets its own answer.
	for k := i; k < i+count; k++ {
		u.finish(k, w.sample(k, 1, data))
	}
}

// follows says whether task k is made together with i: as the next view with the same draws.
func (u *unit) follows(i, k int) bool {
	if u.recipes[k] == nil {
		return false
	}
	key := u.tasks[i].key
	if uint64(key.View)+uint64(k-i) > 1<<32-1 {
		return false
	}
	key.View += uint32(k - i)
	return u.tasks[k].key == key && u.recipes[k].Limits == u.recipes[i].Limits
}

// measure finds out how large the result is. ready is false if that finishes the task: it has failed, or asked only for
// the size.
func (w *worker) measure(k int, data mmap.View) (ready bool, err error) {
	u := &w.unit
	t, recipe := &u.tasks[k], u.recipes[k]
	// If the size does not depend on the image, the decoder's own look at the header is enough.
	size, fixed := recipe.Plan.FixedSize()
	if !fixed || uint64(t.capacity) < size.Bytes {
		if !u.known || u.limits != recipe.Limits {
			if u.facts, _, err = w.context.Inspect(data.Pointer, data.Length, false); err != nil {
				return false, err
			}
			u.known, u.limits = true, recipe.Limits
		}
		if size, err = recipe.Plan.DrawnSize(t.key, u.facts.Width, u.facts.Height); err != nil {
			return false, recipe.Explain(err)
		}
	}
	result := &u.results[k]
	result.Width, result.Height, result.Bytes = size.Width, size.Height, size.Bytes
	if t.capacity == 0 {
		return false, nil
	}
	if uint64(t.capacity) < size.Bytes {
		return false, fault.New(fault.KindArgument, fault.Argument("capacity", t.capacity, fmt.Sprintf("at least %d, the bytes of the result", size.Bytes)))
	}
	return true, nil
}

// sample makes so many views.
func (w *worker) sample(i, count int, data mmap.View) error {
	u := &w.unit
	u.views = u.views[:0]
	for k := i; k < i+count; k++ {
		u.views = append(u.views, native.View{Plan: u.recipes[k].Plan, To: u.tasks[k].to, Capacity: uint64(u.tasks[k].capacity)})
	}
	w.look(data)
	var called time.Time
	if w.timed {
		called = time.Now()
	}
	_, err := w.context.Sample(data.Pointer, data.Length, u.points.seek, u.tasks[i].key, nil, u.views...)
	if w.timed {
		w.called = time.Since(called)
	}
	if err != nil {
		return u.recipes[i].Explain(err)
	}
	w.counters.images.Add(int64(count))
	if u.points.seek.Length > 0 {
		w.counters.points.Add(int64(count))
	}
	w.learn()
	return nil
}

// limit gives the thread a context with these limits; a program uses the same limits for all its images.
func (w *worker) limit(limits native.Limits) error {
	if w.limits == limits {
		return nil
	}
	context, err := native.NewContext(limits)
	if err != nil {
		return err
	}
	if w.timed {
		context.NoteTimes(true)
	}
	w.context.Close()
	w.context, w.limits = context, limits
	return nil
}
