package remote

import (
	"context"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/internal/fault"
)

// A request that lasts longer than 99 in 100 of its size is made a second time beside it, and whichever
// ends first is taken: the few that hang would hold up a whole batch. (Dean and Barroso, The Tail at
// Scale, 2013.)
const (
	hedgeFloor   = 30 * time.Millisecond // none below: the second costs as much as it wins
	hedgeSeen    = 200                   // requests of a size before its p99 is believed
	hedgeBudget  = 50                    // one in so many requests, so that a slow store gets no more load
	sizeClasses  = 16                    // powers of two from 8 KiB on
	smallest     = 13
	timeClasses  = 64 // four to a power of two, from 256 microseconds to 17 s
	firstTime    = 8  // 2^8 microseconds
	timesPerStep = 4
)

// latency counts requests by size and by the time that they took.
// Fixed arrays of counters without a lock: add is called for every request of every thread.
type latency struct {
	counts [sizeClasses][timeClasses]atomic.Int32
	seen   [sizeClasses]atomic.Int64
}

// sizeClass is the class of a request's size. Each has times of its own: a p99 of all sizes would be that of the large ones.
func sizeClass(n int) int { return min(max(bits.Len(uint(n))-smallest, 0), sizeClasses-1) }

// timeClass is the class of a time; what is below the first or above the last class counts there.
func timeClass(d time.Duration) int {
	// Classes are a quarter of a power of two wide, so that a p99 is known to within 25 %.
	us := uint64(max(d.Microseconds(), 1))
	power := bits.Len64(us) - 1
	if power < firstTime {
		return 0
	}
	within := int(us>>(power-2)) & (timesPerStep - 1)
	return min((power-firstTime)*timesPerStep+within, timeClasses-1)
}

// classEnds is the time below which a class lies.
// The upper end is taken, so that the time is never below the true p99.
func classEnds(class int) time.Duration {
	power, within := class/timesPerStep+firstTime, class%timesPerStep
	return time.Duration(timesPerStep+within+1) << (power - 2) * time.Microsecond
}

// add counts a request that succeeded. Of a hedged one the time is that of the answer which came first.
func (l *latency) add(n int, d time.Duration) {
	size := sizeClass(n)
	l.counts[size][timeClass(d)].Add(1)
	// What was long ago counts half: a link gets slower and faster.
	if seen := l.seen[size].Add(1); seen >= 8192 && l.seen[size].CompareAndSwap(seen, seen/2) {
		for i := range l.counts[size] {
			l.counts[size][i].Store(l.counts[size][i].Load() / 2)
		}
	}
}

// p99 is the time within which 99 in 100 requests of a size ended; 0 where too few were seen.
// Counts change meanwhile; a p99 that is off by one request does no harm.
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

// hedged is once, and once more beside it where it lasts.
// On an error p may have been written to in part; try goes on behind the n bytes that came.
func (o *Object) hedged(ctx context.Context, p []byte, offset int64) (int, error) {
	l := &o.client.latency
	began := time.Now()
	usual := l.p99(len(p))
	// Too few are known of this size to say what is slow.
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
	// The timer's own goroutine makes the second request, and ends the first where it wins.
	started := make(chan chan []byte, 1)
	timer := time.AfterFunc(max(usual, hedgeFloor), func() {
		if !o.client.mayHedge() {
			started <- nil
			return
		}
		answer := make(chan []byte, 1)
		started <- answer
		o.count(func(c *counter) { c.hedges.Add(1) })
		// Memory of its own: the first request writes into p until it has ended.
		q := make([]byte, len(p))
		var err error
		func() {
			defer fault.Recover(&err)
			_, err = o.once(first, q, offset)
		}()
		// An error of the second request does not count: the first one is still under way.
		if err != nil {
			answer <- nil
			return
		}
		answer <- q
		stop()
	})
	n, err := o.once(first, p, offset)
	// It has begun, so it says whether there is a second request.
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
	// The first failed, by itself or because the second has won.
	if q := <-second; q != nil {
		l.add(len(p), time.Since(began))
		return copy(p, q), nil
	}
	return n, err
}

// mayHedge: at most one in hedgeBudget requests is a second one.
// Both numbers are of the whole client, so that the share holds over all its objects.
func (c *client) mayHedge() bool {
	return c.counted.hedges.Load()*hedgeBudget < c.counted.requests.Load()
}
