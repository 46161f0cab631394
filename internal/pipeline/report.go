package pipeline

import (
	"cmp"
	"slices"
)

// Replacement is a line of the report: a sample that a substitute replaced, or one with decoder warnings that was kept
// (Substitute is -1, Err is nil).
type Replacement struct {
	Epoch, Step, Place int64 // of the batch, and the row in it
	Index              int64
	Key                string
	Substitute         int64
	Warnings           uint32
	Err                *SampleError
}

// These limit the lists; the counts go on. A missing shard of 256 MB has some 2,500 photographs, so one epoch over a
// dataset that lacks a few shards is listed in full. With about 300 bytes for a line the list stays within a few
// megabytes. Warnings come again in every epoch and cost no sample.
const (
	replacedLines = 10_000
	warnedLines   = 1000
)

// report lists what was done to samples of delivered batches; the Loader's lock protects it. Replacements have their
// own list, so that warnings cannot crowd them out.
type report struct {
	replaced, warned           []Replacement
	replacedInAll, warnedInAll int64
}

// note keeps a line until its batch is delivered.
func (l *Loader) note(d *draft, r Replacement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d.notes = append(d.notes, r)
}

// add takes over the lines of a batch that is being delivered, in the order of its samples, and returns how many
// samples were replaced.
func (r *report) add(d *draft) (replaced int32) {
	slices.SortFunc(d.notes, func(a, b Replacement) int { return cmp.Compare(a.Place, b.Place) })
	for _, line := range d.notes {
		list, count, most := &r.warned, &r.warnedInAll, warnedLines
		if line.Err != nil {
			list, count, most = &r.replaced, &r.replacedInAll, replacedLines
			replaced++
		}
		*count++
		if len(*list) < most {
			*list = append(*list, line)
		}
	}
	return replaced
}

// Report lists the first replacements and the first warnings of the delivered batches; Stats counts all.
func (l *Loader) Report() []Replacement {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Concat(l.report.replaced, l.report.warned)
}
