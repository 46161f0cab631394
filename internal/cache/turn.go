package cache

import (
	"encoding/binary"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	turnsName = "turns"
	turnPause = 20 * time.Millisecond
	// mostTurn is how long somebody else is waited for. One that was stopped does not stop all others.
	mostTurn = 5 * time.Minute
)

// Turn waits until no other process, and nobody else in this one, has the turn of a key: of many that need a
// value that is dear, one makes it and the others wait. The lock is of one byte of a file, so there are as
// many as there are keys, and the system takes it back from a process that ends, however it does. The turn is
// had where locks are not to be had, too: then several make the value.
func (c *Cache) Turn(key Key) (end func()) {
	f, err := os.OpenFile(c.path(turnsName), os.O_RDWR|os.O_CREATE|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return func() {}
	}
	// Locks of the open file, not of the process: two threads of one wait for each other as well.
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: int64(binary.LittleEndian.Uint64(key[:]) >> 2), Len: 1}
	for begin := time.Now(); time.Since(begin) < mostTurn; time.Sleep(turnPause) {
		if err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock); err != unix.EAGAIN && err != unix.EACCES && err != unix.EINTR {
			break
		}
	}
	return func() {
		// Told explicitly, the lock ends also where a forked child has the descriptor.
		lock.Type = unix.F_UNLCK
		_ = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock)
		f.Close()
	}
}

// Look reads what others have put, at once: whoever had to wait for a value is not to wait a second more.
func (c *Cache) Look() {
	c.looking.Lock()
	defer c.looking.Unlock()
	c.look()
}

// MostValue is how many bytes a value may have.
func (c *Cache) MostValue() int { return min(mostRecord, int(c.segmentBytes()/4)) - len(Key{}) }

// Bound is how many bytes the cache may have.
func (c *Cache) Bound() int64 { return c.bound }
