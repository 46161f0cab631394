package remote

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// Counts is what was done so far.
// The numbers rise only; who wants a rate takes two and the time between.
type Counts struct {
	Requests int64         // sent, retries and hedges included; pages of a list and parts of an upload count as one
	Bytes    int64         // of objects, as they came from the network, hedges included
	Retries  int64         // requests that were made anew because one had failed
	Hedges   int64         // duplicate requests, sent because the first was slow
	Waited   time.Duration // that callers of ReadAt waited, summed over callers
}

// counter is Counts while they change.
// Atomic, because the readers of a loader count beside each other; no two of the numbers are taken at one moment.
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

// Counts of this object.
func (o *Object) Counts() Counts { return o.counted.counts() }

// Counts of all objects that were opened with this storage in this process.
func (s Storage) Counts() Counts { return clientOf(s).counted.counts() }

// sortEntries gives all lists one order: stores list in the order of bytes, the hub in that of a tree.
func sortEntries(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.URL, b.URL) })
}
