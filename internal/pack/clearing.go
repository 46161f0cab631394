package pack

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/remote"
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

// lateCommits are the times after which an object is removed again whose commit the store has not answered. A store
// goes on with a request of which it has all bytes, even if the client leaves. So the object may appear after its
// removal.
var lateCommits = []time.Duration{250 * time.Millisecond, 750 * time.Millisecond}

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
	first := c.patience()
	if u.waited.Load() {
		first -= remote.AnswerTime // the store was silent for so long already
	}
	c.silent = time.AfterFunc(first, stop)
	// If somebody ends the job meanwhile, the shorter limit applies from then on.
	if u.ctx.Err() == nil {
		context.AfterFunc(u.ctx, c.answered)
	}
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
	made := maps.Clone(u.made) // a commit that is still under way may note its object meanwhile
	u.mu.Unlock()
	could := u.removeAll(c, made)
	maps.DeleteFunc(made, func(_ string, found presence) bool { return found != unanswered })
	for _, pause := range lateCommits {
		// A store that did not remove the objects would only be waited for again.
		if !could || len(made) == 0 || !c.pause(pause) {
			break
		}
		could = u.removeAll(c, made)
	}
	c.silent.Stop()
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.left) == 0 {
		return ""
	}
	return fmt.Sprintf("of what was uploaded, %d objects or their parts could not be removed and are left below %s, as %s", len(u.left), u.path(), u.left[0])
}

// pause waits without a request; false if the store is not to be asked any more.
func (c *clearing) pause(length time.Duration) bool {
	if c.ctx.Err() != nil {
		return false
	}
	c.silent.Stop()
	defer c.answered()
	select {
	case <-c.ctx.Done():
		return false
	case <-time.After(length):
		return true
	}
}

// removeAll removes objects; false if one of the removals failed.
func (u *upload) removeAll(c *clearing, made map[string]presence) bool {
	var removing sync.WaitGroup
	var failed atomic.Bool
	slots := make(chan struct{}, clearedAtOnce)
	for name, found := range made {
		// A dataset has thousands of shards, and a store limits the number of requests.
		slots <- struct{}{}
		removing.Go(func() {
			defer func() { <-slots }()
			// If a name may not have been committed, it probably does not exist. So a failed removal counts only if the store
			// could not be asked.
			if err := u.remove(c.ctx, name); err != nil {
				failed.Store(true)
				if found == committed || c.ctx.Err() != nil {
					u.leave(name)
				}
			}
			c.answered()
		})
	}
	removing.Wait()
	return !failed.Load()
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
