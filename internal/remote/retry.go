package remote

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headrace/headrace/internal/fault"
)

// What a request may cost. Times are parts of the patience, 60 seconds.
// The figures below are those of 60 seconds. With another Storage.Patience all of them change alike.
const (
	patience     = 60 * time.Second
	mostAttempts = 8 // in a row that brought nothing
	// An attempt gets a quarter of the patience, and what its bytes take at the slowest rate that is no
	// failure.
	attemptPart = 4
	slowestRate = 64 << 10 // bytes a second
	// Waits begin at a six-hundredth, 100 ms, double, and end at an eighth, 7.5 s. They are drawn
	// between half and whole, so that ranks which failed together do not come again together.
	firstPart   = 600
	longestPart = 8
)

func (s Storage) patience() time.Duration {
	if s.Patience > 0 {
		return s.Patience
	}
	return patience
}

// stall is how long a server may be silent.
// It is the time without a byte, however long the whole answer takes.
func (c *client) stall() time.Duration { return c.storage.patience() / attemptPart }

// try makes requests until one succeeds, or the failure stays, or attempts or patience are used up.
// Once says how many bytes it brought of want; where it brought some and failed, it is called for the
// rest.
func (c *client) try(ctx context.Context, g goal, want int, once func(context.Context) (int, error)) error {
	total := c.storage.patience()
	began := time.Now()
	var last *failure // of an attempt that failed by itself
	// Whose end is no failure of the store: told from that of the limit below.
	callers := ctx
	if limit := c.storage.Timeout; limit > 0 {
		var stop func()
		ctx, stop = context.WithTimeout(ctx, limit)
		defer stop()
	}
	// Where Timeout has passed and the caller has not ended it, the error is KindLate.
	finish := func(err error, attempts int) *Error {
		if ctx.Err() != nil && callers.Err() == nil {
			err = c.late(last)
		}
		return c.finish(callers, g, err, attempts, time.Since(began))
	}
	// The time that all bytes may take is beside the patience, for a slow link is no failure.
	ends := began.Add(total + transfer(want))
	idle := 0
	for attempt := 1; ; attempt++ {
		// A quarter of the patience, so that one attempt at a server that hangs leaves time for others.
		limit := min(total/attemptPart+transfer(want), time.Until(ends))
		if limit <= 0 {
			limit = time.Millisecond
		}
		if err := ctx.Err(); err != nil {
			return finish(err, attempt-1)
		}
		one, cancel := context.WithTimeout(ctx, limit)
		n, err := once(one)
		cancel()
		if err == nil {
			return nil
		}
		// Less is left, so the next attempt gets less time.
		want -= n
		// Bytes that came are kept, so a connection that ends again and again gets somewhere.
		if idle++; n > 0 {
			idle = 0
		}
		f := classify(err)
		if ctx.Err() == nil {
			last = f
		}
		// Retry-After is the server's wish, and the wait at least so long.
		// One beyond the patience is not waited for, but is an error that says so.
		pause := max(c.pause(idle), f.after)
		if ctx.Err() != nil || !f.again || idle >= mostAttempts || time.Now().Add(pause).After(ends) {
			if f.again && f.after > 0 && time.Now().Add(f.after).After(ends) {
				f = &failure{kind: f.kind, status: f.status, text: f.text + ", and wants to be left alone for " + f.after.Round(time.Second).String()}
			}
			return finish(f, attempt)
		}
		select {
		case <-ctx.Done():
			return finish(f, attempt)
		case <-time.After(pause):
		}
		g.retried()
	}
}

// pause is the wait before the next attempt, after so many in a row that brought nothing.
// The shift is bounded, so that it cannot overflow after many attempts.
func (c *client) pause(idle int) time.Duration {
	total := c.storage.patience()
	wait := min(total/firstPart<<min(max(idle-1, 0), 16), total/longestPart)
	return wait/2 + rand.N(wait/2+1)
}

// late is the failure of what took longer than the caller allowed, with what went wrong before; nil where nothing did.
func (c *client) late(last *failure) *failure {
	f := &failure{kind: fault.KindLate, text: fmt.Sprintf("the store gave no answer within %g s", c.storage.Timeout.Seconds())}
	if last != nil {
		f.status = last.status
		f.text += "; before that: " + last.text
	}
	return f
}

// transfer is the time for so many bytes at slowestRate. The product, in nanoseconds, fits an int64 up to 9 GB.
func transfer(bytes int) time.Duration {
	return time.Duration(bytes) * time.Second / slowestRate
}

// unsupported is a request that is right, and that the server or this version does not do.
func unsupported(text string) error {
	return &failure{kind: fault.KindUnsupported, text: text}
}
