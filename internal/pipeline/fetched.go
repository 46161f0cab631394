package pipeline

import (
	"context"
	"unsafe"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fetch"
	"github.com/headrace/headrace/mmap"
)

const (
	defaultFetchAhead = 512 << 20
	leastFetchAhead   = 1 << 20
	mostFetchAhead    = 1 << 40

	// fetchHorizon is how many samples ahead of the decoders are looked at for neighbours: the usual
	// window of a windowed order. They cost 400 bytes each, and are seldom all fetched.
	fetchHorizon = 16384
	// fetchRequests are in flight at most.
	fetchRequests = 256
	// fetchGap is read rather than a second request sent: less than a millisecond of a link of 100 MB/s.
	fetchGap = 16 << 10
	// fetchTogether bytes make a request long enough that its latency is small beside it.
	fetchTogether = 4 << 20
	// planAtOnce samples are looked at before requests go out, and between two.
	planAtOnce = 1024
)

// fetch makes the records come from a Fetcher and not from readers.
func (a *readAhead) fetch() {
	l := a.loader
	options := fetch.Options{
		Bytes: l.config.FetchAhead, Requests: fetchRequests, Gap: fetchGap, Request: fetchTogether, Done: a.fetched,
		First:   l.config.Order.Config().BatchSize,
		Retries: func() int64 { return l.config.Dataset.Fetched().Retries },
	}
	if l.join(); l.kept != nil {
		l.store.Keep(l.kept)
		options.Gap, options.Between, options.Read = cachedGap, between, a.readKept
	}
	a.fetcher = fetch.New(options)
}

// plan goes through the order of samples ahead of the decoders and says what will be wanted.
func (a *readAhead) plan() {
	l := a.loader
	batch := make([]*record, 0, planAtOnce)
	for {
		l.mu.Lock()
		for batch = a.claimSome(batch[:0]); len(batch) == 0 && !l.closing; batch = a.claimSome(batch) {
			a.door.Wait()
		}
		closing := l.closing
		a.reading += len(batch)
		l.mu.Unlock()
		// Outside the lock: the first touch of a part of the index validates it.
		for _, r := range batch {
			index, _ := r.draft.sample(r.i)
			l.findRecord(r, index)
			r.want.Owner, r.want.Source, r.want.Direct = r, nil, nil
			if l.kept != nil && r.err == nil {
				r.next = l.useBehind(r, index)
			}
			if shard, ok := l.store.Range(r.sample); r.err == nil && ok {
				r.want.Source, r.want.Offset, r.want.Length = shard, r.sample.Offset, r.sample.Length
				r.buffer.Empty() // of a file that was read into it, and may have changed since
				continue
			}
			r.want.Length = max(r.sample.Length, typicalBytes)
			r.want.Direct = func(ctx context.Context) error {
				if r.err == nil {
					l.readRecord(ctx, r)
				}
				return r.err
			}
		}
		a.lookUp(batch)
		l.mu.Lock()
		for _, r := range batch {
			if r.kept {
				a.kept++
			}
			if r.kept || closing || r.draft.stream.cancelled.Load() {
				a.arrived(r)
				continue
			}
			a.fetcher.Add(&r.want)
		}
		l.mu.Unlock()
		if closing {
			return
		}
		a.fetcher.Request()
	}
}

// claimSome appends the next samples of the stream, with the lock held.
func (a *readAhead) claimSome(batch []*record) []*record {
	l := a.loader
	for len(batch) < cap(batch) && a.kept < keptAhead && !l.closing {
		// Made as they are needed: a dataset may be smaller than the horizon.
		if len(a.free) == 0 && len(a.all) < l.config.ReadAhead {
			r := new(record)
			a.free, a.all = append(a.free, r), append(a.all, r)
		}
		r := a.claim()
		if r == nil {
			break
		}
		batch = append(batch, r)
	}
	a.lacks = len(batch) < cap(batch) && (len(a.free) == 0 || a.kept >= keptAhead)
	return batch
}

// enough says, once, that the planner has records again for some time, with the lock held. It is not woken for each:
// that would take a switch of threads an image.
func (a *readAhead) enough() bool {
	if !a.lacks || a.kept > keptAhead-planAtOnce || len(a.free) < min(planAtOnce, len(a.all)/4+1) {
		return false
	}
	a.lacks = false
	return true
}

// fetched takes a record from the Fetcher.
func (a *readAhead) fetched(w *fetch.Want) {
	r, l := w.Owner.(*record), a.loader
	if w.Direct == nil {
		if r.err = l.store.Explain(w.Err, r.sample); r.err == nil && w.Length > 0 {
			r.view = mmap.View{Pointer: unsafe.Pointer(&w.Bytes[0]), Length: w.Length}
		}
	} else if r.err == nil {
		r.err = w.Err // it was not read
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers.read(r.view.Length, w.Took)
	if a.hits.slow() {
		a.hits.readerRead()
	}
	a.arrived(r)
}

// dropFetched gives up what was planned for a cancelled stream, with the lock held. What is under way
// comes back by itself, and soon.
func (a *readAhead) dropFetched() {
	for _, w := range a.fetcher.Drop() {
		r := w.Owner.(*record)
		a.reading--
		d := r.draft
		a.recycle(r)
		a.loader.finish(d, 1)
	}
}

var _ fetch.Source = (*catalog.Shard)(nil)
