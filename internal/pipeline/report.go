package pipeline

import (
	"cmp"
	"slices"
)

// Replacement is a line of the report: a sample that a substitute stands for, or one that drew
// warnings and was kept (Substitute is -1, Err is nil).
type Replacement struct {
	Epoch, Step, Place int64 // of the batch, and in it
	Index              int64
	Key                string
	Substitute         int64
	Warnings           uint32
	Err                *SampleError
}

// What bounds the lists; the counts go on. A missing shard of 256 MB takes some 2,500 photographs
// along, so one epoch over a set that lacks a few of them is listed whole; at about 300 bytes a line
// the list stays at a few megabytes. Warnings come with every epoch anew and cost nobody a sample.
const (
	replacedLines = 10_000
	warnedLines   = 1000
)

// report lists what was done to delivered batches, with the Loader's lock held. Replacements
// have a list of their own, so that warnings cannot crowd them out.
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

// add takes over the lines of a batch that is delivered now, in the order of its samples, and
// returns how many were replaced.
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

// Report lists the first replacements and the first warnings of the batches delivered; Stats counts
// all.
func (l *Loader) Report() []Replacement {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Concat(l.report.replaced, l.report.warned)
}
