package cache

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/mmap"
)

const (
	// mostSegment is how large a segment becomes; a sixteenth of the bound where that is less, so that
	// eviction takes a small part.
	mostSegment  = 64 << 20
	leastSegment = 64 << 10
	// LeastBound is the least that a cache can be bound to.
	LeastBound = 16 * leastSegment
	// mostRecord is the largest record that is kept. A photograph of 100 megapixels has points of 400 kB.
	mostRecord = 4 << 20
	// mostSegments of a directory are read. A cache of 4 GB has 64.
	mostSegments = 1024
	// recent is how long a segment stays after it was used. Of a set that is larger than the bound a part is
	// kept then, epoch by epoch; where the oldest went for the newest, all would be made anew in each.
	recent = time.Hour
	// lookEvery is how often misses may make a process look for what others have put.
	lookEvery = time.Second
)

// Cache is an open directory. Its methods may be called from any goroutine.
type Cache struct {
	dir        string
	bound      int64
	references int // of the registry

	begin    sync.Once
	mu       sync.RWMutex
	places   map[uint64]place // by the first 8 bytes of a key
	segments []*segment       // places count in it; one that is gone is nil
	looked   atomic.Int64     // when, by monotonic
	looking  sync.Mutex       // before mu
	own      atomic.Int64     // number of the segment that the writer has; -1 for none
	writer   writer           // its lock is before both
}

// place is where a record lies.
type place struct {
	segment, offset, length, crc uint32
}

// The caches that are open in this process, by directory.
var registry struct {
	sync.Mutex
	open map[string]*Cache
}

// Open opens the cache in a directory, which is made. All who open one directory share one Cache, and
// the first one's bound. It is nil where there can be none: the directory cannot be made, or others
// than this user may write to it.
func Open(dir string, bound int64) *Cache {
	registry.Lock()
	defer registry.Unlock()
	if c := registry.open[dir]; c != nil {
		c.references++
		return c
	}
	if bound < LeastBound || os.MkdirAll(dir, 0o700) != nil || !ours(dir) {
		return nil
	}
	c := &Cache{dir: dir, bound: bound, references: 1, places: make(map[uint64]place)}
	c.writer.cache = c
	c.own.Store(-1)
	if registry.open == nil {
		registry.open = make(map[string]*Cache)
	}
	registry.open[dir] = c
	return c
}

// ours: values decide which bytes become pixels, so nobody else may have written them.
func ours(dir string) bool {
	var status unix.Stat_t
	if unix.Stat(dir, &status) != nil || status.Mode&unix.S_IFMT != unix.S_IFDIR || status.Mode&0o022 != 0 {
		return false
	}
	return int(status.Uid) == os.Geteuid() || os.Geteuid() == 0
}

// Close writes what waits. The last one's closes the files.
func (c *Cache) Close() {
	registry.Lock()
	defer registry.Unlock()
	c.writer.close(c.references == 1)
	if c.references--; c.references > 0 {
		return
	}
	delete(registry.open, c.dir)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.segments {
		c.drop(i)
	}
	c.places = nil
}

func short(key Key) uint64 { return binary.LittleEndian.Uint64(key[:]) }

// Get makes the value of a key readable until b is used again; false where there is none.
func (c *Cache) Get(key Key, b *mmap.Buffer) (mmap.View, bool) {
	c.begin.Do(func() {
		c.looking.Lock()
		defer c.looking.Unlock()
		c.look()
	})
	for range 2 {
		c.mu.RLock()
		at, found := c.places[short(key)]
		var from *segment
		if found {
			from = c.segments[at.segment]
		}
		c.mu.RUnlock()
		if found {
			if view, ok := c.read(key, at, from, b); ok {
				return view, true
			}
			c.forget(key, at)
		}
		if now := monotonic(); now-c.looked.Load() < int64(lookEvery) || !c.looking.TryLock() {
			break
		}
		c.look()
		c.looking.Unlock()
	}
	return mmap.View{}, false
}

// read is false where the record is not there whole, or is not the key's.
func (c *Cache) read(key Key, at place, from *segment, b *mmap.Buffer) (mmap.View, bool) {
	if from == nil {
		return mmap.View{}, false
	}
	record, err := b.Reserve(int64(at.length))
	if err != nil {
		return mmap.View{}, false
	}
	if !c.writer.waits(from, at, record) {
		if n, err := from.data.ReadAt(record, int64(at.offset)); n < len(record) && err != nil {
			return mmap.View{}, false
		}
	}
	if !holds(record, key, at.crc) {
		return mmap.View{}, false
	}
	from.use()
	return b.Part(int64(len(key)), int64(at.length)), true
}

var started = time.Now()

// monotonic is the time in nanoseconds, never 0, since the process began: a clock that is set back an hour does not
// stop the cache for one.
func monotonic() int64 { return int64(time.Since(started)) + int64(time.Hour) }

// forget takes a place out that holds nothing.
func (c *Cache) forget(key Key, at place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.places[short(key)] == at {
		delete(c.places, short(key))
	}
}

// Put keeps a value; a later one of the same key takes its place. It is in memory when Put returns, and
// in the file a second later at most if there is another Put by then, or at Close. It is false where the key
// has this value already (two that missed it at once both put it, and it is kept once), and where it cannot be
// kept: it is over MostValue, or the cache is not Writable.
func (c *Cache) Put(key Key, value []byte) bool { return c.writer.put(key, value) }

// Writable says whether what is put now is kept, as far as is known before: not in a directory that is only
// read, nor on a disk that was full, nor where the bound is reached by what was used within the last hour.
// Whoever would have to work for a value asks before.
func (c *Cache) Writable() bool { return c.writer.writable() }

// has says whether the place of a key is of a record of this length and CRC-32C, which is of the key as well.
func (c *Cache) has(key Key, length, crc uint32) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	at, found := c.places[short(key)]
	return found && c.segments[at.segment] != nil && at.length == length && at.crc == crc
}

// note adds places, those of later records in the place of earlier ones.
func (c *Cache) note(number int, entries []entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.places == nil || c.segments[number] == nil {
		return
	}
	for i := range entries {
		e := &entries[i]
		c.places[short(e.key)] = place{uint32(number), e.offset, e.length, e.crc}
	}
}

// path is that of a file of the directory.
func (c *Cache) path(name string) string { return filepath.Join(c.dir, name) }
