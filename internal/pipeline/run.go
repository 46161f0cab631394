package pipeline

import (
	"time"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/native"
)

// inRuns: images of an array in memory need no read, and tiny ones would drown in calls: workers make
// a run of them in one C call. Those that are mixed, have several views or labels that move go singly.
func (c *Config) inRuns() bool {
	if c.Dataset.Kind() != catalog.InMemory || len(c.Labels) > 0 {
		return false
	}
	for _, phase := range c.Recipe.Phases {
		if len(phase.Views) != 1 || phase.Views[0].Mix() != nil {
			return false
		}
	}
	return true
}

// fillRun writes the rows of a draft that the worker has claimed: the one that take has just handed
// out, and those that are left of its run.
func (w *worker) fillRun() {
	r := &w.claimed
	first, end, d := r.next-1, r.end, r.draft
	r.next = end
	for i := first; i < end && !d.stream.cancelled.Load(); {
		i += w.makeRun(d, i, end)
		if i < end {
			// The one that made none of it has its error, or its substitute, as any other sample.
			w.fill(task{draft: d, i: i})
			i++
		}
	}
	w.loader.finishedRun(d, end-first)
}

// makeRun makes samples from `first` on and says how many came about before one that did not.
func (w *worker) makeRun(d *draft, first, end int64) int64 {
	defer func() {
		// A panic is of the sample at which `fill` meets it again.
		_ = recover()
	}()
	began := time.Now()
	defer func() { w.decode.Add(int64(time.Since(began))) }()
	l := w.loader
	field, plan := &d.layout.Fields[0], l.config.Recipe.Phases[d.phase].Views[0]
	labels, indices := int64s(d.base, d.layout.labelsOffset(), d.count), int64s(d.base, d.layout.indicesOffset(), d.count)
	w.rows = w.rows[:0]
	var pixels *catalog.Pixels
	var length int64
	for i := first; i < end; i++ {
		index, draw := d.sample(i)
		sample, err := l.config.Dataset.Sample(index)
		if err != nil {
			break
		}
		at, _ := l.config.Dataset.Bytes(sample)
		to, err := d.place(field, i)
		if err != nil {
			break
		}
		w.rows = append(w.rows, native.Row{Bytes: at, Sample: uint64(index), Draw: draw, To: to})
		labels[i], indices[i] = sample.Label, index
		pixels, length = sample.Pixels, sample.Length
	}
	if len(w.rows) == 0 {
		return 0
	}
	key := native.Key{Seed: l.order.Config().Seed, Epoch: uint64(d.epoch)}
	done, _ := w.context.Samples(plan, rawOf(pixels), length, uint64(field.SampleBytes), key, w.rows)
	w.images.Add(int64(done))
	return int64(done)
}
