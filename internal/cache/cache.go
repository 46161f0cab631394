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
	// mostSegment is the size up to which a segment grows; a sixteenth of the bound if that is less, so that eviction
	// removes a small part.
	mostSegment  = 64 << 20
	leastSegment = 64 << 10
	// LeastBound is the least bound that a cache can have.
	LeastBound = 16 * leastSegment
	// mostRecord is the largest record that is kept. A photograph of 100 megapixels has seek points of 400 kB.
	mostRecord = 4 << 20
	// mostSegments is how many segments of a directory are read. A cache of 4 GB has 64.
	mostSegments = 1024
	// recent is how long a segment stays after it was used. Of a dataset that exceeds the bound, a part is then kept from
	// epoch to epoch. If the oldest segment made room for the newest, everything would be made again in each epoch.
	recent = time.Hour
	// lookEvery limits how often misses make a process look for what others have put.
	lookEvery = time.Second
)

// Cache is an open directory. Its methods may be called from any goroutine.
type Cache struct {
	dir        string
	bound      int64
	references int // number of users, for the registry

	begin    sync.Once
	mu       sync.RWMutex
	places   map[uint64]place // by the first 8 bytes of a key
	segments []*segment       // places have indices into it; nil for a segment that is gone
	looked   atomic.Int64     // time of the last look, by monotonic
	looking  sync.Mutex       // locked before mu
	own      atomic.Int64     // number of the writer's segment; -1 for none
	writer   writer           // its lock is taken before both
}

// place says where a record is.
type place struct {
	segment, offset, length, crc uint32
}

// registry has the caches that are open in this process, by directory.
var registry struct {
	sync.Mutex
	open map[string]*Cache
}

// Open opens the cache in a directory, which it makes if needed. All users of a directory share one Cache, with the
// bound of the first user. Open returns nil if the directory cannot be made, or if others than this user may write to
// it.
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

// ours is true if nobody else can write to the directory, because values decide which bytes become pixels.
func ours(dir string) bool {
	var status unix.Stat_t
	if unix.Stat(dir, &status) != nil || status.Mode&unix.S_IFMT != unix.S_IFDIR || status.Mode&0o022 != 0 {
		return false
	}
	return int(status.Uid) == os.Geteuid() || os.Geteuid() == 0
}

// Close writes what waits in memory. The last user's call closes the files.
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

// Get makes the value of a key readable until b is used again; false if there is none.
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

// read returns false if the record is incomplete or belongs to another key.
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

// monotonic returns a time in nanoseconds that only rises and is never 0. If the machine's clock is set back by an
// hour, the cache still works.
func monotonic() int64 { return int64(time.Since(started)) + int64(time.Hour) }

// forget removes a place without a valid record.
func (c *Cache) forget(key Key, at place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.places[short(key)] == at {
		delete(c.places, short(key))
	}
}

// Put keeps a value, which replaces an earlier one of the same key. It is in memory when Put returns. It is in the file
// at the next Put that comes a second later, or at Close. Put returns false if the key has this value already (if two
// missed it at once and both put it, it is kept once), or if it cannot be kept: it exceeds MostValue, or the cache is
// not Writable.
func (c *Cache) Put(key Key, value []byte) bool { return c.writer.put(key, value) }

// Writable says whether a value that is put now will be kept, as far as that is known. It will not be in a directory
// that is only read, on a disk that was full, or if segments used within the last hour fill the bound.
// Whoever would have to work for a value asks this first.
func (c *Cache) Writable() bool { return c.writer.writable() }

// has says whether the key's place has a record of this length and CRC-32C, which covers the key as well.
func (c *Cache) has(key Key, length, crc uint32) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	at, found := c.places[short(key)]
	return found && c.segments[at.segment] != nil && at.length == length && at.crc == crc
}

// note adds places; a later record replaces an earlier one of the same key.
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

// path returns the path of a file in the directory.
func (c *Cache) path(name string) string { return filepath.Join(c.dir, name) }
