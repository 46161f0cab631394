package remote

import (
	"context"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/internal/fault"
)

// A request that takes longer than 99 in 100 of its size is sent a second time, and the first answer is used. Otherwise
// the few requests that hang would hold up a whole batch. (Dean and Barroso, The Tail at Scale, 2013.)
const (
	hedgeFloor   = 30 * time.Millisecond // no hedge before this time: the second request would cost as much as it gains
	hedgeSeen    = 200                   // requests of a size that are needed before its p99 is used
	hedgeBudget  = 50                    // at most one in so many requests, so that a slow store gets no more load
	sizeClasses  = 16                    // powers of two from 8 KiB on
	smallest     = 13
	timeClasses  = 64 // four for each power of two, from 256 microseconds to 17 s
	firstTime    = 8  // 2^8 microseconds
	timesPerStep = 4
)

// latency counts requests by size and by their duration.
// It has fixed arrays of counters without a lock, because every request of every thread calls add.
type latency struct {
	counts [sizeClasses][timeClasses]atomic.Int32
	seen   [sizeClasses]atomic.Int64
}

// sizeClass returns the class of a request's size. Each class has its own p99, because a common one would be that of
// the largest requests.
func sizeClass(n int) int { return min(max(bits.Len(uint(n))-smallest, 0), sizeClasses-1) }

// timeClass returns the class of a duration. Durations beyond the first or last class count there.
func timeClass(d time.Duration) int {
	// A class is a quarter of a power of two wide, so a p99 is known to within 25 %.
	us := uint64(max(d.Microseconds(), 1))
	power := bits.Len64(us) - 1
	if power < firstTime {
		return 0
	}
	within := int(us>>(power-2)) & (timesPerStep - 1)
	return min((power-firstTime)*timesPerStep+within, timeClasses-1)
}

// classEnds returns the upper end of a class.
// The p99 is this end, so it is never below the true one.
func classEnds(class int) time.Duration {
	power, within := class/timesPerStep+firstTime, class%timesPerStep
	return time.Duration(timesPerStep+within+1) << (power - 2) * time.Microsecond
}

// add counts a request that succeeded. For a hedged request, d is the time of the answer that came first.
func (l *latency) add(n int, d time.Duration) {
	size := sizeClass(n)
	l.counts[size][timeClass(d)].Add(1)
	// Older counts are halved, because a link gets slower and faster.
	if seen := l.seen[size].Add(1); seen >= 8192 && l.seen[size].CompareAndSwap(seen, seen/2) {
		for i := range l.counts[size] {
			l.counts[size][i].Store(l.counts[size][i].Load() / 2)
		}
	}
}

// p99 returns the time within which 99 in 100 requests of a size ended; 0 if too few were seen.
// The counts may change meanwhile; a p99 that is off by one request does no harm.
func (l *latency) p99(n int) time.Duration {
	size := sizeClass(n)
	var total, below int32
	for i := range l.counts[size] {
		total += l.counts[size][i].Load()
	}
	if total < hedgeSeen {
		return 0
	}
	for i := range l.counts[size] {
		if below += l.counts[size][i].Load(); int64(below)*100 >= int64(total)*99 {
			return classEnds(i)
		}
	}
	return 0
}

// hedged calls once, and calls it again at the same time if the first request is slow.
// After an error, p may be partly written; try continues after the n bytes that came.
func (o *Object) hedged(ctx context.Context, p []byte, offset int64) (int, error) {
	l := &o.client.latency
	began := time.Now()
	usual := l.p99(len(p))
	// Too few requests of this size are known to say what is slow.
	if usual == 0 {
		n, err := o.once(ctx, p, offset)
		if err == nil {
			l.add(len(p), time.Since(began))
		}
		return n, err
	}
	first, stop := context.WithCancel(ctx)
	defer stop()
	var second chan []byte
	// The timer's goroutine makes the second request, and ends the first one if the second wins.
	started := make(chan chan []byte, 1)
	timer := time.AfterFunc(max(usual, hedgeFloor), func() {
		if !o.client.mayHedge() {
			started <- nil
			return
		}
		answer := make(chan []byte, 1)
		started <- answer
		o.count(func(c *counter) { c.hedges.Add(1) })
		// The second request has its own memory, because the first one writes into p until it has ended.
		q := make([]byte, len(p))
		var err error
		func() {
			defer fault.Recover(&err)
			_, err = o.once(first, q, offset)
		}()
		// An error of the second request does not count, because the first one is still under way.
		if err != nil {
			answer <- nil
			return
		}
		answer <- q
		stop()
	})
	n, err := o.once(first, p, offset)
	// The timer's function has begun, and it reports whether there is a second request.
	if !timer.Stop() {
		second = <-started
	}
	if err == nil {
		l.add(len(p), time.Since(began))
		return n, nil
	}
	if second == nil {
		return n, err
	}
	// The first request failed, either by itself or because the second one won.
	if q := <-second; q != nil {
		l.add(len(p), time.Since(began))
		return copy(p, q), nil
	}
	return n, err
}

// mayHedge allows at most one hedge in hedgeBudget requests.
// Both numbers count the whole client, so that the share holds over all its objects.
func (c *client) mayHedge() bool {
	return c.counted.hedges.Load()*hedgeBudget < c.counted.requests.Load()
}
