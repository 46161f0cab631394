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
	// mostTurn is the longest wait for another's turn, so that a process that was stopped does not stop all others.
	mostTurn = 5 * time.Minute
)

// Turn waits until no other process, and no other caller in this one, has the turn of a key. If many need an expensive
// value, one makes it and the others wait. The lock covers one byte of a file, so each key has its own, and the system
// releases it when its process ends in any way. If locks are not available, Turn returns as well, and several may make
// the value.
func (c *Cache) Turn(key Key) (end func()) {
	f, err := os.OpenFile(c.path(turnsName), os.O_RDWR|os.O_CREATE|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return func() {}
	}
	// The lock belongs to the open file and not to the process, so that two threads of one process wait for each other
	// too.
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: int64(binary.LittleEndian.Uint64(key[:]) >> 2), Len: 1}
	for begin := time.Now(); time.Since(begin) < mostTurn; time.Sleep(turnPause) {
		if err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock); err != unix.EAGAIN && err != unix.EACCES && err != unix.EINTR {
			break
		}
	}
	return func() {
		// The explicit release works even if a forked child has the descriptor.
		lock.Type = unix.F_UNLCK
		_ = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock)
		f.Close()
	}
}

// Look reads at once what others have put: whoever waited for a value should not wait another second.
func (c *Cache) Look() {
	c.looking.Lock()
	defer c.looking.Unlock()
	c.look()
}

// MostValue is the largest size of a value in bytes.
func (c *Cache) MostValue() int { return min(mostRecord, int(c.segmentBytes()/4)) - len(Key{}) }

// Bound is the largest size of the cache in bytes.
func (c *Cache) Bound() int64 { return c.bound }
