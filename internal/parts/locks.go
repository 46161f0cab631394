package parts

import (
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// with changes the tables; it returns false if that is not possible now.
func (c *Cache) with(change func()) bool {
	if c.off.Load() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off.Load() || !c.lock() {
		return false
	}
	defer c.unlock()
	if !c.guarded(func() {
		c.reach()
		if c.head.busy != 0 {
			c.rebuild()
		}
		c.head.busy = 1
		// Positions are passed on with whatever change comes next. Each by itself would take the lock for every batch.
		for n, u := range c.users {
			c.head.slots[n].position.Store(u.position.Load())
			if u.plan.Known != nil {
				c.head.slots[n].known.Store(u.plan.Known())
			}
		}
		c.follow()
		for _, l := range c.left.take() {
			if e := c.still(l.at, l.gen); e != nil {
				c.remove(e, l.at)
			}
		}
		c.noteHits()
		change()
		c.head.busy = 0
	}) {
		c.off.Store(true)
		c.warn("is damaged and not used any more; the store is asked for every record")
		return false
	}
	return true
}

// guarded returns false if the tables' memory, or what is in it, cannot be used.
func (c *Cache) guarded(do func()) (ok bool) {
	// A page of a mapping without a disk block or file under it faults when it is touched. As a panic of this
	// goroutine, the fault ends here.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			ok = false
		}
	}()
	ok = true
	c.headTable.watch.Arm()
	do()
	for _, t := range c.tables() {
		ok = ok && (t.memory == nil || t.watch.Whole())
	}
	return ok
}

// lock keeps all other processes from the tables. The lock belongs to the process and ends with it, even if a forked
// child lives on. So it does not keep out a second Cache of the same process and directory: the registry has only one.
func (c *Cache) lock() bool {
	// A lock that waits (F_SETLKW) could not be given up, and a process that is stopped with the lock would stop all
	// others.
	began, pause := time.Now(), 20*time.Microsecond
	for {
		switch err := unix.FcntlFlock(c.locks.Fd(), unix.F_SETLK, lockOf(unix.F_WRLCK, 0)); err {
		case nil:
			c.stuck = false
			return true
		case unix.EAGAIN, unix.EACCES, unix.EINTR:
		default:
			return false
		}
		// Only the first wait takes that long; otherwise every further part would wait as long.
		if c.stuck || time.Since(began) > patience {
			c.stuck = true
			return false
		}
		time.Sleep(pause)
		pause = min(2*pause, 2*time.Millisecond)
	}
}

func (c *Cache) unlock() { _ = unix.FcntlFlock(c.locks.Fd(), unix.F_SETLK, lockOf(unix.F_UNLCK, 0)) }

func lockOf(kind int16, at int64) *unix.Flock_t {
	return &unix.Flock_t{Type: kind, Start: at, Len: 1}
}

// alive is true for a slot whose process lives.
func (c *Cache) alive(n uint32) bool {
	if n >= mostSlots {
		return false
	}
	if c.users[n] != nil {
		return true
	}
	// F_GETLK does not report this process's own locks, so these were looked up first.
	l := lockOf(unix.F_WRLCK, 1+int64(n))
	return unix.FcntlFlock(c.locks.Fd(), unix.F_GETLK, l) == nil && l.Type != unix.F_UNLCK
}

// others says whether another process uses the directory.
func (c *Cache) others() bool {
	l := lockOf(unix.F_WRLCK, 1)
	l.Len = mostSlots + 1
	return unix.FcntlFlock(c.locks.Fd(), unix.F_GETLK, l) == nil && l.Type != unix.F_UNLCK
}
