package remote

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headrace/headrace/internal/fault"
)

// These constants limit the cost of a request. Times are fractions of the patience.
// The times in the comments below are for 60 seconds. Another Storage.Patience changes all of them in proportion.
const (
	patience     = 60 * time.Second
	mostAttempts = 8 // in succession, without a byte
	// An attempt gets a quarter of the patience, and in addition the time that its bytes take at the slowest rate that is
	// not a failure.
	attemptPart = 4
	slowestRate = 64 << 10 // bytes a second
	// Waits begin at a six-hundredth of the patience (100 ms), double, and end at an eighth (7.5 s). Each is drawn between
	// half of that and all, so that ranks which failed together do not retry together.
	firstPart   = 600
	longestPart = 8
)

func (s Storage) patience() time.Duration {
	if s.Patience > 0 {
		return s.Patience
	}
	return patience
}

// stall is how long a server may send nothing.
// It limits the time without a byte, however long the whole answer takes.
func (c *client) stall() time.Duration { return c.storage.patience() / attemptPart }

// try makes requests until one succeeds, the failure is final, or attempts or patience are used up.
// once returns how many of the want bytes it brought. If it brought some and failed, it is called again for the rest.
func (c *client) try(ctx context.Context, g goal, want int, once func(context.Context) (int, error)) error {
	total := c.storage.patience()
	began := time.Now()
	var last *failure // the failure of the last attempt that failed by itself
	// The end of the caller's context is no failure of the store; it is distinguished here from that of the limit below.
	callers := ctx
	if limit := c.storage.Timeout; limit > 0 {
		var stop func()
		ctx, stop = context.WithTimeout(ctx, limit)
		defer stop()
	}
	// If Timeout has passed and the caller's context has not ended, the error is KindLate.
	finish := func(err error, attempts int) *Error {
		if ctx.Err() != nil && callers.Err() == nil {
			err = c.late(last)
		}
		return c.finish(callers, g, err, attempts, time.Since(began))
	}
	// The time for all bytes is added to the patience, because a slow link is no failure.
	ends := began.Add(total + transfer(want))
	idle := 0
	for attempt := 1; ; attempt++ {
		// One attempt at a server that hangs must leave time for others, so it gets a quarter of the patience.
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
		// Fewer bytes are left, so the next attempt gets less time.
		want -= n
		// Bytes that came are kept, so even a connection that breaks again and again makes progress.
		if idle++; n > 0 {
			idle = 0
		}
		f := classify(err)
		if ctx.Err() == nil {
			last = f
		}
		// The server asks for a wait with Retry-After, and the wait is at least that long.
		// If that is longer than the patience, there is no wait but an error that says so.
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

// pause returns the wait before the next attempt, after idle attempts in succession that brought nothing.
// The shift is limited, so that it cannot overflow after many attempts.
func (c *client) pause(idle int) time.Duration {
	total := c.storage.patience()
	wait := min(total/firstPart<<min(max(idle-1, 0), 16), total/longestPart)
	return wait/2 + rand.N(wait/2+1)
}

// late makes the failure of a request that took longer than the caller allowed. last, if not nil, is what failed
// before.
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

// unsupported makes the failure of a valid request that the server or this version does not support.
func unsupported(text string) error {
	return &failure{kind: fault.KindUnsupported, text: text}
}
