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

	// fetchHorizon is how many samples ahead of the decoders are searched for neighbours: the usual window of a windowed
	// order. They take 400 bytes each, and are seldom all fetched.
	fetchHorizon = 16384
	// fetchRequests is the largest number of requests in flight.
	fetchRequests = 256
	// fetchGap is the largest gap that is read instead of sending a second request: less than a millisecond at 100 MB/s.
	fetchGap = 16 << 10
	// fetchTogether is a request so long that its latency is small in comparison.
	fetchTogether = 4 << 20
	// planAtOnce is how many samples are looked at before requests are sent, and between two rounds of requests.
	planAtOnce = 1024
)

// fetch makes records come from a Fetcher instead of readers.
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

// plan goes through the order of samples ahead of the decoders and tells the Fetcher what will be needed.
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
		// This is outside the lock, because the first access to a part of the index validates it.
		for _, r := range batch {
			index, _ := r.draft.sample(r.i)
			l.findRecord(r, index)
			r.want.Owner, r.want.Source, r.want.Direct = r, nil, nil
			if l.kept != nil && r.err == nil {
				r.next = l.useBehind(r, index)
			}
			if shard, ok := l.store.Range(r.sample); r.err == nil && ok {
				r.want.Source, r.want.Offset, r.want.Length = shard, r.sample.Offset, r.sample.Length
				r.buffer.Empty() // an earlier sample's file was read into it, and that file may have changed since
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

// claimSome appends the next samples of the stream; the caller holds the lock.
func (a *readAhead) claimSome(batch []*record) []*record {
	l := a.loader
	for len(batch) < cap(batch) && a.kept < keptAhead && !l.closing {
		// Records are made when they are needed, because a dataset may be smaller than the horizon.
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

// enough returns true, once, when the planner has records again for some time; the caller holds the lock. The planner
// is not woken for each record, because that would cost a switch of threads for each image.
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
		r.err = w.Err // the record was not read
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers.read(r.view.Length, w.Took)
	if a.hits.slow() {
		a.hits.readerRead()
	}
	a.arrived(r)
}

// dropFetched gives up what was planned for a cancelled stream; the caller holds the lock. Requests under way return by
// themselves soon.
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
