package parts

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/internal/fault"
	"golang.org/x/sys/unix"
)

// Key identifies which bytes of which version of which object a part is.
type Key [16]byte

const (
	// patience is how long this process waits for another one that holds the tables or a part, because that process may
	// be stopped.
	patience = 2 * time.Second
	// LeastBytes is the smallest bound: it holds the head and a part.
	LeastBytes = 1 << 20
)

// Cache is the cache in one directory, as this process uses it. Its methods may be called from any goroutine.
type Cache struct {
	path string
	key  directory
	uses int // how often Open has returned it; guarded by the registry's lock

	mu    sync.Mutex
	root  *os.Root
	locks *os.File // locks of byte 0: the tables; byte 1+n: slot n is alive; the last byte: the directory is in use
	data  *os.File
	stuck bool // the process that has the tables did not release them in time

	headTable, entryTable, bucketTable, blockTable table

	head    *head
	entries []entry
	buckets []uint32
	blocks  []uint32

	asked    geometry            // the largest that a use in this process asked for
	own      geometry            // what the mappings have room for; becomes asked as soon as that is possible
	limit    geometry            // the smallest of all living processes
	joined   uint64              // head.joined when limit was worked out
	ranks    map[uint64][]uint64 // by job, its ranks that share this cache
	users    map[uint32]*User
	victims  []victim
	suspects map[uint32]uint64 // slots whose claims do not count, and their counters at that time
	checked  int
	followed int
	left     claims // claims that could not be ended, because the tables could not be had
	hits     []hit  // hits that are not noted in the tables yet

	off     atomic.Bool // nothing is read or kept any more
	full    atomic.Bool // nothing is kept any more
	warning atomic.Pointer[string]
}

var registry = struct {
	sync.Mutex
	caches map[directory]*Cache
}{caches: map[directory]*Cache{}}

// Open makes or opens the cache of a directory. With a warning or an error there is no cache: an error says that the
// directory cannot hold one, and a warning that it cannot be used now.
func Open(path string, bytes int64) (c *Cache, warning string, err error) {
	if bytes < LeastBytes {
		return nil, "", fault.New(fault.KindArgument, fault.Argument("cache_size", bytes, fmt.Sprintf("at least %d bytes", LeastBytes)))
	}
	unusable := func(err error) string {
		return fmt.Sprintf("there is no cache in %s: %v; the store is asked for every record", path, err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, unusable(err), nil
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, unusable(err), nil
	}
	key, err := inspect(root, path)
	if err != nil {
		root.Close()
		return nil, "", err
	}
	registry.Lock()
	defer registry.Unlock()
	// Locks of fcntl belong to a process (fcntl(2)): two Caches of one directory would not notice each other's locks,
	// and closing a file of one would release the locks of the other.
	if c := registry.caches[key]; c != nil {
		root.Close()
		c.uses++
		c.allow(geometryOf(bytes))
		return c, "", nil
	}
	c = &Cache{path: path, key: key, uses: 1, root: root, users: map[uint32]*User{}, suspects: map[uint32]uint64{}}
	if err := c.open(geometryOf(bytes)); err != nil {
		c.close()
		return nil, unusable(err), nil
	}
	registry.caches[key] = c
	return c, "", nil
}

func (c *Cache) open(g geometry) (err error) {
	if c.locks, err = openIn(c.root, "lock"); err != nil {
		return err
	}
	if c.data, err = openIn(c.root, "data"); err != nil {
		return err
	}
	if err := c.headTable.open(c.root, "head", headBytes); err != nil {
		return err
	}
	if !c.lock() {
		return fmt.Errorf("another process has locked it and does not release it")
	}
	defer c.unlock()
	c.head = &view[head](&c.headTable)[0]
	var wrong error
	if !c.guarded(func() { wrong = c.begin(g) }) {
		return fmt.Errorf("its tables cannot be used")
	}
	return wrong
}

// begin maps the tables, and repairs or makes them if necessary. The tables' lock is held.
func (c *Cache) begin(g geometry) error {
	if err := c.headTable.grow(headBytes); err != nil {
		return err
	}
	// What other processes have mapped must keep its form, so a process changes it only if it is alone.
	alone := !c.others()
	h := c.head
	fresh := h.magic != magic || h.buckets == 0 || h.buckets > 1<<24 || h.blockBytes != 1<<10 && h.blockBytes != 4<<10
	// A small cache that becomes a large one starts empty, because its blocks have another length.
	fresh = fresh || alone && h.blockBytes != uint64(g.blockBytes)
	if fresh && !alone {
		return fmt.Errorf("another version uses it")
	}
	if fresh {
		clear(c.headTable.memory)
		h.magic, h.blockBytes, h.buckets = magic, uint64(g.blockBytes), uint64(g.buckets)
		h.freeEntry, h.freeBlock, h.busy = none, none, 1
		if err := c.data.Truncate(0); err != nil {
			return err
		}
	}
	g = withBlocks(g, int64(h.blockBytes))
	if alone && h.buckets != uint64(g.buckets) {
		// The bound has changed, and with it the number of buckets. Their lists are made again below. Until then busy
		// is set, so that this is noticed even if this process is killed.
		h.busy, h.buckets = 1, uint64(g.buckets)
		if err := cut(c.root, "buckets", 4*g.buckets); err != nil {
			return err
		}
	}
	for _, t := range []struct {
		table *table
		name  string
		most  int64
		least int64
	}{
		{&c.bucketTable, "buckets", 4 * int64(h.buckets), 4 * int64(h.buckets)},
		{&c.entryTable, "entries", g.entries * entryBytes, int64(h.entryTop) * entryBytes},
		{&c.blockTable, "blocks", 4 * max(1, g.blocks), 4 * int64(h.blockTop)},
	} {
		if err := t.table.open(c.root, t.name, t.most); err != nil {
			return err
		}
		if fresh {
			if err := t.table.file.Truncate(0); err != nil {
				return err
			}
		}
		// This does not apply to the buckets: their file is made from the entries, and filled again.
		if status, err := t.table.file.Stat(); err == nil && t.least > status.Size() && t.table != &c.bucketTable {
			h.busy, t.least = 1, 0 // the file was cut: rebuild looks at what is left
		}
		if err := t.table.grow(t.least); err != nil {
			return err
		}
	}
	c.entries, c.buckets, c.blocks = view[entry](&c.entryTable), view[uint32](&c.bucketTable)[:h.buckets], view[uint32](&c.blockTable)
	c.asked, c.own, c.limit, c.joined = g, g, g, ^uint64(0)
	// The lock is held until the file is closed; the system does that if the process ends. By this lock other processes
	// see that the directory is in use.
	if err := unix.FcntlFlock(c.locks.Fd(), unix.F_SETLK, lockOf(unix.F_RDLCK, 1+mostSlots)); err != nil {
		return err
	}
	// The last process, or the machine, may have stopped while it was changing the tables.
	if alone || h.busy != 0 {
		h.busy = 1
		c.rebuild()
	}
	return nil
}

// cut shortens a file to so many bytes, if it is longer.
func cut(dir *os.Root, name string, most int64) error {
	f, err := openIn(dir, name)
	if err != nil {
		return err
	}
	defer f.Close()
	if status, err := f.Stat(); err != nil || status.Size() <= most {
		return err
	}
	return f.Truncate(most)
}

// Retain requires one more Close.
func (c *Cache) Retain() {
	registry.Lock()
	defer registry.Unlock()
	c.uses++
}

// Close gives up what Open returned; a nil Cache has nothing to give up.
func (c *Cache) Close() {
	if c == nil {
		return
	}
	registry.Lock()
	defer registry.Unlock()
	if c.uses--; c.uses == 0 {
		delete(registry.caches, c.key)
		c.close()
	}
}

func (c *Cache) tables() [4]*table {
	return [...]*table{&c.headTable, &c.entryTable, &c.bucketTable, &c.blockTable}
}

func (c *Cache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off.Store(true)
	for _, t := range c.tables() {
		t.close()
	}
	for _, f := range []*os.File{c.locks, c.data} {
		if f != nil {
			f.Close()
		}
	}
	c.root.Close()
}

// Warning says why the cache is no longer used, or "".
func (c *Cache) Warning() string {
	if w := c.warning.Load(); w != nil {
		return *w
	}
	return ""
}

func (c *Cache) warn(text string) {
	text = fmt.Sprintf("the cache in %s %s", c.path, text)
	c.warning.CompareAndSwap(nil, &text)
}

// takesNoMore stops keeping parts because the disk has no room. Parts that are there are still read.
func (c *Cache) takesNoMore(err error) {
	c.full.Store(true)
	c.warn("cannot be written to and takes nothing more: " + err.Error())
}

// present checks from time to time whether the directory is still there. No other process finds what is written to a
// removed directory, and its room is not given back.
func (c *Cache) present() bool {
	// Once in 64 calls is often enough for a system call.
	if c.checked++; c.checked%64 != 1 {
		return true
	}
	var status unix.Stat_t
	if unix.Fstat(int(c.locks.Fd()), &status) == nil && status.Nlink > 0 {
		return true
	}
	c.off.Store(true)
	c.warn("was removed and is not used any more; the store is asked for every record")
	return false
}

// sizeKey appends numbers to a key's text.
func sizeKey(to []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		to = binary.LittleEndian.AppendUint64(to, uint64(n))
	}
	return to
}
