package pack

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/headrace/headrace/internal/fault"
)

// Bounds of the removal of what was uploaded.
// Each request of a removal may be tried for a minute (package remote). A thousand of them at a store that has gone
// would keep the user waiting for an hour: so there is a bound for all of them together, and one for a store that says
// nothing.
const (
	clearingTime = 20 * time.Second // of all of it
	// A store that gives no answer for so long is not asked any more: where somebody ended the job, who waits for
	// that, and where the job itself was ended by an error.
	silentToTheHasty = 500 * time.Millisecond
	silentToTheRest  = 10 * time.Second
	clearedAtOnce    = 16 // objects
)

// clearing is the removal of what was uploaded, after an error or where somebody ended the job. Its context ends
// when the store is not to be asked any more; the job's own may have ended already.
// Several goroutines use it. Its members never change, and a timer may be reset by any of them.
type clearing struct {
	ctx    context.Context
	silent *time.Timer
	hasty  func() bool
}

// clearing is the removal that goes on, or a new one.
func (u *upload) clearing() *clearing {
	u.mu.Lock()
	defer u.mu.Unlock()
	// One that began when a shard failed may be over before the others are removed. Who is waited for gets no further time.
	// One for all objects: each failed shard by itself would wait as long.
	if u.clears != nil && (u.clears.ctx.Err() == nil || u.clears.hasty()) {
		return u.clears
	}
	// Its timers end it: it goes on when who asked for it has gone.
	ctx, stop := context.WithTimeout(context.WithoutCancel(u.ctx), clearingTime)
	c := &clearing{ctx: ctx, hasty: func() bool { return u.ctx.Err() != nil || u.late.Load() }}
	c.silent = time.AfterFunc(c.patience(), stop)
	// When somebody ends the job meanwhile the patience is the shorter one from then on.
	context.AfterFunc(u.ctx, c.answered)
	u.clears = c
	return c
}

// patience is asked anew at each answer, for the job may have been ended meanwhile.
func (c *clearing) patience() time.Duration {
	if c.hasty() {
		return silentToTheHasty
	}
	return silentToTheRest
}

// answered has the wait for the next answer begin.
// An answer may be an error as well: the store is there.
func (c *clearing) answered() {
	if c.ctx.Err() == nil {
		c.silent.Reset(c.patience())
	}
}

// abandon removes what was committed, and what may have been.
// It returns a clause for an error's sentence, empty where nothing is left. The manifest is among what goes, so that
// whatever is left opens as no dataset.
func (u *upload) abandon() string {
	c := u.clearing()
	u.mu.Lock()
	// A copy, for a commit that is still under way may note its object meanwhile.
	made := make(map[string]bool, len(u.made))
	for name, committed := range u.made {
		made[name] = committed
	}
	u.mu.Unlock()
	var removing sync.WaitGroup
	slots := make(chan struct{}, clearedAtOnce)
	for name, committed := range made {
		// A dataset has thousands of shards, and a store has a bound on requests.
		slots <- struct{}{}
		removing.Go(func() {
			defer func() { <-slots }()
			// A name that may not have been committed is an error only where the store could not be asked: most likely
			// it is not there.
			if err := u.remove(c.ctx, name); err != nil && (committed || c.ctx.Err() != nil) {
				u.leave(name)
			}
			c.answered()
		})
	}
	removing.Wait()
	c.silent.Stop()
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.left) == 0 {
		return ""
	}
	return fmt.Sprintf("of what was uploaded, %d objects or their parts could not be removed and are left below %s, as %s", len(u.left), u.path(), u.left[0])
}

// leave notes that an object, or parts of it, may be left.
func (u *upload) leave(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.left = append(u.left, name)
}

// noted is an error of an upload; one that took longer than the caller allows has the rest hurry.
// KindLate says that the caller's own timeout has passed, so somebody waits already.
func (u *upload) noted(err error) error {
	if err != nil && fault.KindOf(err) == fault.KindLate {
		u.late.Store(true)
	}
	return err
}
