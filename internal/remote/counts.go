package remote

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// Counts says what was done so far.
// The numbers only rise. For a rate, take two Counts and the time between them.
type Counts struct {
	Requests int64         // requests that were sent, with retries and hedges; each page of a list counts, and an upload counts once
	Bytes    int64         // of objects, as they came from the network, with those of hedges
	Retries  int64         // requests that were repeated because one had failed
	Hedges   int64         // second requests that were sent because the first was slow
	Waited   time.Duration // how long callers of ReadAt waited, added up
}

// counter is a Counts that changes.
// It is atomic, because the readers of a loader count at the same time. The numbers are not read at one moment.
type counter struct {
	requests, bytes, retries, hedges, waited atomic.Int64
}

func (c *counter) counts() Counts {
	return Counts{
		Requests: c.requests.Load(), Bytes: c.bytes.Load(), Retries: c.retries.Load(), Hedges: c.hedges.Load(),
		Waited: time.Duration(c.waited.Load()),
	}
}

// count adds to the object's counts and to those of its storage.
func (o *Object) count(add func(*counter)) {
	add(&o.counted)
	add(&o.client.counted)
}

// Counts returns the counts of this object.
func (o *Object) Counts() Counts { return o.counted.counts() }

// Counts returns the counts of all objects that were opened with this storage in this process.
func (s Storage) Counts() Counts { return clientOf(s).counted.counts() }

// sortEntries gives all lists one order: stores list in the order of bytes, the hub in that of a tree.
func sortEntries(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.URL, b.URL) })
}
