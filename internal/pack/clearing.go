package pack

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/headrace/headrace/internal/fault"
)

// These limit the removal of what was uploaded.
// Each request of a removal may be retried for a minute (package remote). A thousand of them at a store that is down
// would keep the user waiting for hours. So there is a limit for all of them together, and a shorter one if the store
// does not answer at all.
const (
	clearingTime = 20 * time.Second // for the whole removal
	// A store that gives no answer for this long is not asked any more. The first limit applies if somebody ended the job
	// and waits, the second if an error ended it.
	silentToTheHasty = 500 * time.Millisecond
	silentToTheRest  = 10 * time.Second
	clearedAtOnce    = 16 // objects
)

// clearing is the removal of what was uploaded, after an error or when somebody ended the job. Its context ends when
// the store is not to be asked any more; the job's own context may have ended already.
// Several goroutines use it. Its members never change, and each goroutine may reset the timer.
type clearing struct {
	ctx    context.Context
	silent *time.Timer
	hasty  func() bool
}

// clearing returns the removal that is under way, or begins a new one.
func (u *upload) clearing() *clearing {
	u.mu.Lock()
	defer u.mu.Unlock()
	// A removal that began when a shard failed may be over before the other objects are removed. If somebody waits, it
	// gets no more time. All objects share one removal, because with its own each failed shard would wait as long.
	if u.clears != nil && (u.clears.ctx.Err() == nil || u.clears.hasty()) {
		return u.clears
	}
	// The timers end this context, because the removal goes on after the caller's context has ended.
	ctx, stop := context.WithTimeout(context.WithoutCancel(u.ctx), clearingTime)
	c := &clearing{ctx: ctx, hasty: func() bool { return u.ctx.Err() != nil || u.late.Load() }}
	c.silent = time.AfterFunc(c.patience(), stop)
	// If somebody ends the job meanwhile, the shorter limit applies from then on.
	context.AfterFunc(u.ctx, c.answered)
	u.clears = c
	return c
}

// patience is computed again at each answer, because the job may have been ended meanwhile.
func (c *clearing) patience() time.Duration {
	if c.hasty() {
		return silentToTheHasty
	}
	return silentToTheRest
}

// answered restarts the wait for the next answer.
// An error is an answer as well: it shows that the store is there.
func (c *clearing) answered() {
	if c.ctx.Err() == nil {
		c.silent.Reset(c.patience())
	}
}

// abandon removes what was committed, and what may have been committed.
// It returns a clause for an error, empty if nothing is left. The manifest is removed too, so that what is left does
// not open as a dataset.
func (u *upload) abandon() string {
	c := u.clearing()
	u.mu.Lock()
	// This is a copy, because a commit that is still under way may note its object meanwhile.
	made := make(map[string]bool, len(u.made))
	for name, committed := range u.made {
		made[name] = committed
	}
	u.mu.Unlock()
	var removing sync.WaitGroup
	slots := make(chan struct{}, clearedAtOnce)
	for name, committed := range made {
		// A dataset has thousands of shards, and a store limits the number of requests.
		slots <- struct{}{}
		removing.Go(func() {
			defer func() { <-slots }()
			// If a name may not have been committed, it probably does not exist. So a failed removal counts only if the store
			// could not be asked.
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

// noted returns an upload's error. If the error is that the caller's timeout has passed, the removal has to hurry.
// KindLate means that somebody is waiting already.
func (u *upload) noted(err error) error {
	if err != nil && fault.KindOf(err) == fault.KindLate {
		u.late.Store(true)
	}
	return err
}
