package main

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/pack"
)

// valuesAtOnce is how many values are read from a store at a time, because a request waits most of
// the time.
const valuesAtOnce = 48

// fieldsJob reads fields of samples. It is a job because values may be in a store: whoever waits
// has a timeout, and closing the handle ends the requests.
type fieldsJob struct {
	Job     string   `json:"job"`
	Dataset int64    `json:"dataset"`
	Indices []int64  `json:"indices"`
	Fields  []string `json:"fields"`
}

// work takes the dataset now, because its handle may be closed before the job has begun.
func (j *fieldsJob) work() (func(context.Context, *pack.Tracker) (any, error), error) {
	d, err := useDataset(j.Dataset)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, _ *pack.Tracker) (any, error) {
		defer d.Release()
		values, err := d.values(ctx, j.Indices, j.Fields)
		if err != nil {
			return nil, err
		}
		rows := make([]map[string]any, len(j.Indices))
		for n, i := range j.Indices {
			if rows[n], err = d.names(i); err != nil {
				return nil, err
			}
			of := map[string]any{}
			for m, name := range j.Fields {
				of[name] = catalog.ValueToJSON(values[n*len(j.Fields)+m])
			}
			rows[n]["fields"] = of
		}
		return map[string]any{"rows": rows}, nil
	}, nil
}

// values returns the fields of the samples, one sample after the other.
func (d *dataset) values(ctx context.Context, indices []int64, fields []string) ([]any, error) {
	values := make([]any, len(indices)*len(fields))
	errs := make([]error, len(values))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var next atomic.Int64
	read := func() {
		for k := next.Add(1) - 1; k < int64(len(values)) && ctx.Err() == nil; k = next.Add(1) - 1 {
			n := int64(len(fields))
			if values[k], errs[k] = d.value(ctx, indices[k/n], fields[k%n]); errs[k] != nil {
				cancel()
			}
		}
	}
	if d.Away() {
		var readers sync.WaitGroup
		for range min(len(values), valuesAtOnce) {
			readers.Go(read)
		}
		readers.Wait()
	} else {
		read()
	}
	for _, err := range errs { // the first error that is not the cancellation because of another one
		if err != nil && fault.KindOf(err) != fault.KindClosed {
			return nil, err
		}
	}
	return values, cmp.Or(cmp.Or(errs...), ctx.Err())
}

// value returns a field of a sample. Those of containers are read in the same way as their images.
func (d *dataset) value(ctx context.Context, i int64, name string) (value any, err error) {
	defer fault.Recover(&err) // also on goroutines of values
	if !d.InContainers(i) {
		return d.FieldValue(i, name)
	}
	if err := d.openStore(); err != nil {
		return nil, err
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed || d.store == nil {
		return nil, fault.New(fault.KindClosed, "the dataset was closed")
	}
	return d.store.FieldValue(ctx, i, name)
}
