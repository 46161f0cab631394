package cache

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/mmap"
)

const (
	keysSuffix = ".keys"
	dataSuffix = ".data"
	nameDigits = 16 // digits of a random number, in lower-case hexadecimal
)

// segmentOf splits the name of a segment's file; ok is false if it is no segment's.
func segmentOf(file string) (name, suffix string, ok bool) {
	if len(file) < nameDigits || strings.Trim(file[:nameDigits], "0123456789abcdef") != "" {
		return "", "", false
	}
	name, suffix = file[:nameDigits], file[nameDigits:]
	return name, suffix, suffix == keysSuffix || suffix == dataSuffix
}

// segment is a segment that is open for reading.
type segment struct {
	name       string
	keys, data *os.File
	read       int64 // how many bytes of keys were read
	used       atomic.Int64
}

// openSegment returns nil if the segment cannot be read.
func (c *Cache) openSegment(name string) *segment {
	keys, err := mmap.OpenRegular(c.path(name + keysSuffix))
	if err != nil {
		return nil
	}
	data, err := mmap.OpenRegular(c.path(name + dataSuffix))
	if err != nil {
		keys.Close()
		return nil
	}
	first := make([]byte, headBytes)
	if _, err := keys.ReadAt(first, 0); err != nil || !bytes.Equal(first, head()) {
		keys.Close()
		data.Close()
		return nil
	}
	return &segment{name: name, keys: keys, data: data, read: headBytes}
}

// drop closes a segment; the caller holds the lock mu. Places in it are removed when they are next looked up.
func (c *Cache) drop(number int) {
	if s := c.segments[number]; s != nil {
		s.keys.Close()
		s.data.Close()
		c.segments[number] = nil
	}
}

// touchEvery is the precision of the time at which a segment was last used.
const touchEvery = recent / 6

// use notes that a value was used, because the segments not used for longest are evicted first.
func (s *segment) use() {
	now, last := time.Now().UnixNano(), s.used.Load()
	// last is later than now if the clock was set back meanwhile.
	if now-last < int64(touchEvery) && now >= last || !s.used.CompareAndSwap(last, now) {
		return
	}
	// If the time cannot be written, as in a directory that is only read, the segment keeps its old time.
	raw, err := s.keys.SyscallConn()
	if err == nil {
		now := unix.NsecToTimeval(now)
		_ = raw.Control(func(fd uintptr) { _ = unix.Futimes(int(fd), []unix.Timeval{now, now}) })
	}
}

// look reads what other and earlier processes have put since the last time. The caller holds c.looking.
func (c *Cache) look() {
	defer func() { c.looked.Store(monotonic()) }()
	names, err := c.names()
	if err != nil { // for example for lack of descriptors: what was evicted is then unknown
		return
	}
	c.mu.Lock()
	known := make(map[string]int, len(c.segments))
	for i, s := range c.segments {
		if s == nil {
			continue
		}
		if !slices.Contains(names, s.name) { // evicted
			c.drop(i)
			continue
		}
		known[s.name] = i
	}
	c.mu.Unlock()
	for _, name := range names {
		number, ok := known[name]
		if !ok {
			s := c.openSegment(name)
			if s == nil {
				continue
			}
			if number, ok = c.add(s); !ok {
				return
			}
		}
		if number != int(c.own.Load()) { // this process's own entries are known
			c.follow(number)
		}
	}
}

// add gives a segment a number; ok is false if the cache was closed.
func (c *Cache) add(s *segment) (number int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.places == nil {
		s.keys.Close()
		s.data.Close()
		return 0, false
	}
	for i := range c.segments {
		// Old places with this number could be taken for the new segment's, but their checksums differ.
		if c.segments[i] == nil {
			c.segments[i] = s
			return i, true
		}
	}
	c.segments = append(c.segments, s)
	return len(c.segments) - 1, true
}

// follow reads the entries that were added to a segment. The caller holds c.looking.
func (c *Cache) follow(number int) {
	c.mu.RLock()
	s := c.segments[number]
	c.mu.RUnlock()
	if s == nil {
		return
	}
	var buffer [32 << 10]byte
	var entries [len(buffer) / entryBytes]entry
	for s.read < mostSegment {
		n, err := s.keys.ReadAt(buffer[:], s.read)
		n -= n % entryBytes // an entry that is half written does not count yet
		found := entries[:0]
		for at := 0; at < n; at += entryBytes {
			var e entry
			if e.parse(buffer[at : at+entryBytes]) {
				found = append(found, e)
			}
		}
		c.note(number, found)
		s.read += int64(n)
		if n == 0 || err != nil && err != io.EOF {
			return
		}
	}
}

// namesAtOnce is how many names of a directory are in memory at a time.
const namesAtOnce = 1024

// names returns the segments of the directory, the one used last at the end, so that its values take precedence. If
// there are more than mostSegments, it returns those used last.
func (c *Cache) names() ([]string, error) {
	directory, err := os.Open(c.dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer directory.Close()
	var found []os.FileInfo
	// All names are read, because any number of other files may come before a segment's. A segment that is not found
	// counts as evicted.
	for err == nil {
		var files []string
		files, err = directory.Readdirnames(namesAtOnce)
		for _, file := range files {
			if _, suffix, ok := segmentOf(file); !ok || suffix != keysSuffix {
				continue
			}
			info, err := os.Lstat(c.path(file))
			if err != nil && !os.IsNotExist(err) {
				return nil, err
			}
			if err == nil && info.Mode().IsRegular() {
				found = append(found, info)
			}
		}
	}
	if err != io.EOF {
		return nil, err
	}
	slices.SortStableFunc(found, func(a, b os.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	var names []string
	for _, file := range found[max(0, len(found)-mostSegments):] {
		names = append(names, strings.TrimSuffix(file.Name(), keysSuffix))
	}
	return names, nil
}
