package pipeline

import (
	"slices"
	"time"
	"unsafe"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/native"
)

// tiny is the size up to which images of arrays in files are copied, many for one call into C. Larger ones cost so much
// more than a call that they are read where they are mapped.
const tiny = 16 << 10

// inRuns is true if workers make images in runs, each run in one C call. Images of an array in memory need no read, and
// for tiny ones a call each would cost more than the work. Mixed images, and those with several views or labels that
// move, are made singly.
func (c *Config) inRuns() bool {
	if !runnable(c.Dataset) || len(c.Labels) > 0 {
		return false
	}
	for _, phase := range c.Recipe.Phases {
		if len(phase.Views) != 1 || phase.Views[0].Mix() != nil {
			return false
		}
	}
	return true
}

func runnable(d *catalog.Dataset) bool {
	switch d.Kind() {
	case catalog.InMemory:
		return true
	case catalog.Arrays:
		sample, err := d.Sample(0)
		return err == nil && sample.Length <= tiny
	}
	for _, part := range d.Parts() {
		if !runnable(part) {
			return false
		}
	}
	return len(d.Parts()) > 0
}

// fillRun writes the rows of a run that the worker has claimed: the one that take has just returned, and the remaining
// ones.
func (w *worker) fillRun() {
	r := &w.claimed
	first, end, d := r.next-1, r.end, r.draft
	r.next = end
	for i := first; i < end && !d.stream.cancelled.Load(); {
		i += w.makeRun(d, i, end)
		if i < end {
			// The sample that failed gets its error, or its substitute, like any other sample.
			w.fill(task{draft: d, i: i})
			i++
		}
	}
	w.loader.finishedRun(d, end-first)
}

// makeRun makes samples from `first` on and returns how many it made before one that failed or that is of another
// array.
func (w *worker) makeRun(d *draft, first, end int64) int64 {
	defer func() {
		// The panic belongs to a sample; `fill` meets it again there.
		_ = recover()
	}()
	l := w.loader
	tracing, entered := w.traced(), time.Now()
	field, plan := &d.layout.Fields[0], l.config.Recipe.Phases[d.phase].Views[0]
	labels, indices := int64s(d.base, d.layout.labelsOffset(), d.count), int64s(d.base, d.layout.indicesOffset(), d.count)
	w.rows, w.picked = w.rows[:0], w.picked[:0]
	// All are drawn first, so that one draw is computed while another waits for its product.
	for i, epoch := first, l.order.Epoch(d.epoch); i < end; i++ {
		index, draw := d.sampleOf(&epoch, i)
		w.picked = append(w.picked, picked{index: index, draw: draw})
	}
	var pixels *catalog.Pixels
	var length int64
	var room []byte
	for i := first; i < end; i++ {
		index, draw := w.picked[i-first].index, w.picked[i-first].draw
		sample, err := l.config.Dataset.Sample(index)
		if err != nil || pixels != nil && (*sample.Pixels != *pixels || sample.Length != length) {
			break
		}
		pixels, length = sample.Pixels, sample.Length
		at, held := l.config.Dataset.Bytes(sample)
		if !held {
			l.willNeed(d, i)
			if at, err = w.copied(sample, &room, end-i); err != nil {
				break
			}
		}
		to, err := d.place(field, i)
		if err != nil {
			break
		}
		w.rows = append(w.rows, native.Row{Bytes: at, Sample: uint64(index), Draw: draw, To: to})
		w.picked[i-first].label = sample.Label
	}
	// This comes after all reads, because any of them may have hung.
	if len(w.rows) == 0 || !w.touch(d) {
		return 0
	}
	defer w.untouch()
	for i := range w.rows {
		labels[first+int64(i)], indices[first+int64(i)] = w.picked[i].label, w.picked[i].index
	}
	began := time.Now()
	key := native.Key{Seed: l.order.Config().Seed, Epoch: uint64(d.epoch)}
	done, _ := w.context.Samples(plan, rawOf(pixels), length, uint64(field.SampleBytes), key, w.rows)
	w.decode.Add(int64(time.Since(began)))
	w.images.Add(int64(done))
	if tracing != nil && done > 0 {
		w.noteRun(tracing, d, first, int64(done), entered)
	}
	return int64(done)
}

// inMemory says whether images are in the program's memory.
func inMemory(d *catalog.Dataset) bool {
	return d.Kind() == catalog.InMemory || slices.ContainsFunc(d.Parts(), inMemory)
}

// picked is a sample of a run.
type picked struct {
	index int64
	draw  uint64
	label int64
}

// copied reads an image of an array in files into the rest of the room for a run. The first image makes the room.
func (w *worker) copied(sample catalog.Sample, room *[]byte, images int64) (unsafe.Pointer, error) {
	if int64(len(*room)) < sample.Length {
		whole, err := w.buffer.Reserve(images * sample.Length)
		if err != nil {
			return nil, err
		}
		*room = whole
	}
	began := time.Now()
	to := (*room)[:sample.Length]
	if err := w.loader.store.ReadInto(to, sample); err != nil {
		return nil, err
	}
	*room = (*room)[sample.Length:]
	took := time.Since(began)
	if w.read(sample.Length, took); w.loader.pace.workerRead(took) {
		w.loader.ahead.start()
	}
	return unsafe.Pointer(&to[0]), nil
}
