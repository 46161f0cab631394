package cache

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lockName = "lock"
	// The lock is held only while a process looks at the directory. If somebody does not release it, nothing is put.
	lockTries = 20
	lockPause = 2 * time.Millisecond
)

// segmentBytes is the size up to which a segment grows, keys and data together.
func (c *Cache) segmentBytes() int64 { return min(mostSegment, c.bound/16) }

// found is a segment as it lies in the directory.
type found struct {
	name    string
	size    int64 // if the segment is being written, the size up to which it may grow
	used    time.Time
	written bool // a process appends to it
	gone    bool // it was removed
}

// begin takes a segment that nobody appends to and that has room, or makes a new one. It gets none if the directory is
// full of segments that others write, or cannot be written.
func (w *writer) begin() {
	c := w.cache
	lock := c.lock()
	if lock == nil {
		return
	}
	defer unlock(lock)
	list := c.list()
	for _, f := range list {
		// What this segment will gain needs room as well, which may be missing if there is none for a new segment.
		if !f.written && f.size < c.segmentBytes()*3/4 && c.makeRoom(list, f.name) && w.take(f.name, false) {
			break
		}
	}
	if w.keys == nil && c.makeRoom(list, "") {
		var name [nameDigits / 2]byte
		rand.Read(name[:]) // never fails
		w.take(hex.EncodeToString(name[:]), true)
	}
	if w.keys == nil {
		return
	}
	// Its present entries are read before anything is added, because look does not follow this process's own segment.
	c.looking.Lock()
	defer c.looking.Unlock()
	number, ok := c.number(w.segment)
	if !ok {
		w.leave()
		return
	}
	c.follow(number)
	c.mu.RLock()
	w.number, w.segment = number, c.segments[number]
	c.mu.RUnlock()
	c.own.Store(int64(number))
	w.waitingFrom.Store(w.dataEnd)
	w.waiting.Store(w.segment)
}

// lock takes the lock of the directory; nil if it is not free soon.
func (c *Cache) lock() *os.File {
	f, err := os.OpenFile(c.path(lockName), os.O_RDWR|os.O_CREATE|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil
	}
	for range lockTries {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return f
		}
		time.Sleep(lockPause)
	}
	f.Close()
	return nil
}

// list returns the segments of the directory, the one used last at the end. Other files, such as a user's own, are
// neither counted nor touched. The caller holds the lock.
func (c *Cache) list() []found {
	directory, err := os.Open(c.dir)
	if err != nil {
		return nil
	}
	defer directory.Close()
	files, _ := directory.Readdir(-1)
	var list []found
	for _, file := range files {
		name, suffix, ok := segmentOf(file.Name())
		if !ok || suffix != keysSuffix || !file.Mode().IsRegular() || !c.isSegment(name) {
			continue
		}
		f := found{name: name, used: file.ModTime(), written: c.isWritten(name)}
		// The size is read only now. While the directory is locked nobody begins to append, but a process that appends
		// already may have gone on until isWritten looked.
		f.size = c.sizeOf(name)
		if f.written {
			f.size = max(f.size, c.segmentBytes())
		}
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b found) int { return a.used.Compare(b.used) })
	return list
}

// isSegment is true if the keys begin like those of a segment of any version, or are the rest of such a beginning that
// a killed process left.
func (c *Cache) isSegment(name string) bool {
	keys, err := os.OpenFile(c.path(name+keysSuffix), os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer keys.Close()
	first := make([]byte, headBytes)
	n, err := keys.ReadAt(first, 0)
	if n == headBytes {
		return bytes.HasPrefix(first, []byte(magic))
	}
	return err == io.EOF && bytes.HasPrefix(head(), first[:n])
}

// makeRoom removes segments that were not used lately, until the bound has room for the segment that will be appended
// to:
// `next`, or a new one if it is empty. Segments that are being written count with their final size. The caller holds
// the lock.
func (c *Cache) makeRoom(list []found, next string) bool {
	total, count := c.segmentBytes(), 1
	for _, f := range list {
		if f.name != next && !f.gone {
			total += f.size
			count++
		}
	}
	for i := range list {
		f := &list[i]
		if total <= c.bound && count <= mostSegments {
			break
		}
		if f.name != next && !f.gone && !f.written && !lately(f.used) && c.remove(f.name) {
			f.gone = true
			total -= f.size
			count--
		}
	}
	return total <= c.bound && count <= mostSegments
}

// sizeOf returns the present size of a segment's two files.
func (c *Cache) sizeOf(name string) (size int64) {
	for _, suffix := range []string{keysSuffix, dataSuffix} {
		if status, err := os.Lstat(c.path(name + suffix)); err == nil {
			size += status.Size()
		}
	}
	return size
}

// lately is true within an hour before or after now, because clocks differ.
func lately(used time.Time) bool { return time.Since(used).Abs() < recent }

// isWritten is true if somebody holds the lock of a segment.
func (c *Cache) isWritten(name string) bool {
	f, err := os.OpenFile(c.path(name+keysSuffix), os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		f.Close()
		return true
	}
	unlock(f)
	return false
}

// unlock releases a flock and closes the file. The explicit release works even if a forked child has the descriptor.
func unlock(f *os.File) {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	f.Close()
}

// remove removes the data first: keys alone still show that the rest belongs to a segment, and no reader uses them.
func (c *Cache) remove(name string) bool {
	for _, suffix := range []string{dataSuffix, keysSuffix} {
		if err := os.Remove(c.path(name + suffix)); err != nil && !os.IsNotExist(err) {
			return false
		}
	}
	return true
}

// take makes a segment this process's own, if that is possible: a new one, or one that nobody appends to.
func (w *writer) take(name string, create bool) bool {
	c := w.cache
	flags := os.O_RDWR | unix.O_NONBLOCK | unix.O_NOFOLLOW
	if create {
		flags |= os.O_CREATE | os.O_EXCL
	}
	// The keys are made before the data and removed after them, so data alone never belong to a segment.
	keys, err := os.OpenFile(c.path(name+keysSuffix), flags, 0o600)
	if err != nil {
		return false
	}
	data, err := os.OpenFile(c.path(name+dataSuffix), flags, 0o600)
	if err != nil {
		keys.Close()
		if create {
			os.Remove(c.path(name + keysSuffix))
		}
		return false
	}
	if w.keysEnd, w.dataEnd, err = ends(keys, data); err == nil {
		if w.segment = c.openSegment(name); w.segment != nil {
			w.keys, w.data = keys, data
			return true
		}
	}
	keys.Close()
	data.Close()
	if create {
		c.remove(name)
	}
	return false
}

// ends locks a segment and returns where to append to it: after its last complete entry, so that the rest of an entry
// that a killed process left is overwritten.
func ends(keys, data *os.File) (keysEnd, dataEnd int64, err error) {
	if err = unix.Flock(int(keys.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return 0, 0, err
	}
	keysInfo, err := keys.Stat()
	if err != nil {
		return 0, 0, err
	}
	dataInfo, err := data.Stat()
	if err != nil {
		return 0, 0, err
	}
	size := keysInfo.Size()
	if size < headBytes {
		_, err = keys.WriteAt(head(), 0)
		return headBytes, dataInfo.Size(), err
	}
	return size - (size-headBytes)%entryBytes, dataInfo.Size(), nil
}

// number returns the number of segment s among those that are read; if s is open already, it closes s and returns the
// earlier number. ok is false if the cache was closed. The caller holds c.looking.
func (c *Cache) number(s *segment) (number int, ok bool) {
	c.mu.RLock()
	for i, other := range c.segments {
		if other != nil && other.name == s.name {
			c.mu.RUnlock()
			s.keys.Close()
			s.data.Close()
			return i, true
		}
	}
	c.mu.RUnlock()
	return c.add(s)
}
