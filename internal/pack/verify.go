package pack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/internal/processors"
	"github.com/headrace/headrace/internal/remote"
	"github.com/headrace/headrace/internal/scan"
)

// verifier checks one dataset. What is wrong with the dataset is a Finding in the report; an error is something that
// prevents the check.
// It reads the dataset as a loader would, and trusts none of it: index and manifest are compared with each other, and
// both with the shards.
type verifier struct {
	config   VerifyConfig
	dataset  *catalog.Dataset
	findings findings
	bytes    atomic.Int64
	ends     []int64 // number of the row after the last of each shard, by the manifest; for containers only if rows are in their order
	order    *byContainer
	blocks   *blocks.Cache
}

// rowsPerTask rows are read by one goroutine at a time: enough for sequential reads on a disk, and few enough to keep
// all cores busy to the end.
// Consecutive rows are mostly neighbours in a shard.
const rowsPerTask = 512

// Verify checks all of a dataset: manifest, every record batch, the size of every shard, every tar header against the
// index, every record's checksum, and every seek point against its image; with Decode also every verdict.
// It changes nothing. It lists findings up to a limit, and goes on after a fault.
func Verify(ctx context.Context, c VerifyConfig, t *Tracker) (Report, error) {
	begin := time.Now()
	if err := c.Options.check(); err != nil {
		return Report{}, err
	}
	d, err := catalog.Open(c.Source, catalog.Options{IndexDir: c.IndexDir, Root: c.Root, Storage: c.Storage, Waits: ctx})
	if err != nil {
		return Report{}, cmp.Or(withoutIndex(c), err)
	}
	defer d.Release()
	if d.Kind() == catalog.Listed {
		return Report{}, noIndex(c.Source, "this folder has")
	}
	t.setTotal(d.Len())
	v := &verifier{config: c, dataset: d, findings: findings{track: t}, blocks: blocks.NewCache(c.Limits.Blocks())}
	rows := int64(0)
	// The rows of shard n end before ends[n].
	for _, s := range d.Shards() {
		rows += s.Rows
		v.ends = append(v.ends, rows)
	}
	if d.Away() {
		v.order = v.orderByContainer(ctx)
	}
	if err := v.run(ctx); err != nil {
		return Report{}, err
	}
	found, known := v.findings.all.sorted(), v.findings.known.sorted()
	return Report{
		Path: remote.Display(c.Source), Kind: d.Kind().String(), OK: found.Total == 0, Rows: d.Len(), Shards: len(d.Shards()), Bytes: v.bytes.Load(),
		Seconds: time.Since(begin).Seconds(), Fingerprint: d.Fingerprint(), Faults: found,
		KnownFaults: known.Total, Known: known.Listed,
	}, nil
}

// noIndex says what to do, because verify is often tried on a dataset that was never indexed.
func noIndex(source, has string) error {
	return catalog.NewError(fault.KindArgument, source, "%s no index, so there is nothing to verify against; headrace index makes one", has)
}

// withoutIndex makes the error for a source that consists of containers; nil for any other source.
// It is called after the source was no dataset, because that error would be about a missing manifest.
func withoutIndex(c VerifyConfig) error {
	if remote.IsURL(c.Source) || c.IndexDir != "" || c.Root != "" {
		return nil
	}
	d, err := scan.Open(c.Source, scan.Options{})
	if err != nil {
		return nil
	}
	d.Release()
	return noIndex(c.Source, "these containers have")
}

// sorted makes the list independent of the order in which threads found things. The list is never nil, because JSON
// would have null.
func (f Findings) sorted() Findings {
	slices.SortStableFunc(f.Listed, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Record, b.Record), cmp.Compare(a.File, b.File), cmp.Compare(a.Offset, b.Offset))
	})
	if f.Listed == nil {
		f.Listed = []Finding{}
	}
	return f
}

// run does all tasks on all threads. The rows come first: a damaged batch is reported once there, and later tasks
// ignore its rows.
// The tasks are many and small, so that no thread has a long one left at the end.
func (v *verifier) run(ctx context.Context) error {
	tasks := make(chan func(*reader))
	var workers sync.WaitGroup
	var failed error
	var once sync.Once
	// Fewer threads than were asked for give a warning; none is an error.
	threads, short := processors.Take(v.config.threads(), 1)
	if threads < 1 {
		return short
	}
	defer processors.Return(threads)
	v.findings.track.fewer(threads, v.config.threads(), short)
	for range threads {
		workers.Go(func() {
			r, err := newReader(v.config, v.dataset.SeekFile() != nil)
			if err != nil {
				once.Do(func() { failed = err })
			} else {
				defer r.close()
			}
			// Tasks are taken even after an error or a cancel, because otherwise send would wait for ever.
			for task := range tasks {
				if err == nil {
					err = headroom.Spent()
				}
				if err != nil {
					once.Do(func() { failed = err })
				} else if ctx.Err() == nil {
					v.do(task, r)
				}
			}
		})
	}
	send := func(task func(*reader)) {
		select {
		case tasks <- task:
		case <-ctx.Done():
		}
	}
	// One goroutine does this, because it is a single pass over the index in the order of rows.
	send(func(*reader) { v.checkRows(ctx) })
	for n := range v.dataset.Shards() {
		send(func(r *reader) { v.checkShard(ctx, r, n) })
	}
	// Records are divided by rows, so that several threads read a shard with many rows.
	check, rows := v.checkRecords, v.dataset.Len()
	switch {
	case v.dataset.Away() && v.dataset.Kind() == catalog.Indexed:
		check = v.checkFilesAway
	case v.dataset.Away():
		rows = 0 // records of a shard in a store are read with their headers, so that each byte is fetched once
	}
	for first := int64(0); first < rows; first += rowsPerTask {
		send(func(r *reader) { check(ctx, r, first, min(first+rowsPerTask, rows)) })
	}
	close(tasks)
	workers.Wait()
	return errors.Join(failed, ctx.Err())
}

// do runs one task. A panic of ours becomes a finding in the report instead of ending the process.
// The other tasks go on.
func (v *verifier) do(task func(*reader), r *reader) {
	defer func() {
		if p := recover(); p != nil {
			v.note(catalog.NewError(fault.KindInternal, v.config.Source, "panic: %v", p))
		}
	}()
	task(r)
}

// checkRows checks the index alone: every record batch, the keys, and what the manifest says about all rows together.
// It holds the hashes of all keys, 24 bytes each, and reads the index once.
func (v *verifier) checkRows(ctx context.Context) {
	m := v.dataset.Manifest()
	sum := catalog.NewContent(m.Fields)
	keys := newKeySet()
	whole := true
	var last catalog.SeekPlace // place of the seek points of the rows so far
	samples := int64(0)        // number of samples with seek points
	// If a row cannot be read, its whole batch is skipped, because the batch has one checksum.
	for i := int64(0); i < v.dataset.Len(); i++ {
		if ctx.Err() != nil {
			return
		}
		row, err := v.dataset.Row(i)
		if err != nil {
			v.note(err)
			whole = false
			i = v.dataset.BatchEnd(i) - 1 // the batch was reported, so go on with the next
			continue
		}
		// A batch cannot notice this by itself.
		if first, ok := keys.add(row.Key, i); !ok {
			v.findings.add(Finding{File: m.Index.Name, Record: i, Key: row.Key, Offset: -1, Expected: "a key of its own",
				Found: fmt.Sprintf("the key of record %d", first), Text: "two samples of one key"})
		}
		sum.Add(&row)
		if row.Seek.Length > 0 {
			if end := max(last.Offset+last.Length, catalog.SeekHeadBytes); row.Seek.Offset != end {
				v.findings.add(Finding{File: m.Index.Name, Record: i, Key: row.Key, Offset: -1, Expected: fmt.Sprint(end),
					Found: fmt.Sprint(row.Seek.Offset), Text: "the seek points do not follow those of the rows before"})
			}
			last = row.Seek
			samples++
		}
	}
	if !whole {
		return
	}
	v.checkSeekPlaces(last, samples)
	if found := sum.Fingerprint(); found != m.Fingerprint {
		v.findings.add(Finding{File: catalog.ManifestName, Record: -1, Offset: -1, Expected: m.Fingerprint, Found: found, Text: "the fingerprint is not that of the rows"})
	}
	// Maps are compared as texts, which fmt writes sorted by key.
	if bytes, counts := sum.Bytes(), sum.Counts(); bytes != m.Bytes || fmt.Sprint(counts) != fmt.Sprint(m.Counts) {
		v.findings.add(Finding{File: catalog.ManifestName, Record: -1, Offset: -1, Expected: fmt.Sprint(m.Bytes, " bytes, ", m.Counts),
			Found: fmt.Sprint(bytes, " bytes, ", counts), Text: "the sums are not those of the rows"})
	}
}

// note turns an error into a finding, so that verify goes on and reports everything in one run.
func (v *verifier) note(err error) {
	var e *catalog.Error
	if !errors.As(err, &e) {
		e = catalog.NewError(fault.KindInternal, v.config.Source, "%v", err)
	}
	v.findings.add(Finding{File: e.File, Record: e.Record, Key: e.Key, Offset: e.Offset, Text: e.Clause()})
}

// sample returns row i; false if its batch is damaged, which checkRows reports.
func (v *verifier) sample(i int64) (catalog.Sample, string, bool) {
	s, err := v.dataset.Sample(i)
	if err != nil {
		return s, "", false
	}
	key, err := v.dataset.Key(i)
	return s, key, err == nil
}
