package parts

import (
	"hash/fnv"
	"math"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	// Never stands for the next use of a sample that will not be used again.
	Never = math.MaxUint64
	// Unknown is added to a position if no use at or after it is known yet, but one may come.
	Unknown = 1 << 63
)

// unknown is true of a next use that is not known yet.
func unknown(next uint64) bool { return next >= Unknown && next != Never }

// User is a loader, or a dataset whose samples are read one by one. A nil User has no cache.
type User struct {
	cache   *Cache
	number  uint32
	dataset uint64
	job     uint64
	plan    Plan

	position atomic.Uint64
	counts   struct{ hits, bytes, bad atomic.Int64 }
}

// Plan says when samples are used. A use is one sample at one position of a job's order; all ranks of the job number
// their uses in the same way.
type Plan struct {
	Bytes   int64  // how many bytes the cache may have
	Dataset string // its fingerprint
	Job     string // identifies the order; the same on all ranks of the job
	Rank    int64
	Step    int64 // uses that all ranks together make in one step
	// RankOf returns the rank that makes a use; nil if there is only one rank.
	RankOf func(use uint64) int64
	// After returns a sample's first use at or after a position. If it is nil, uses are unknown, and what was used last
	// is kept.
	After func(sample int64, position uint64) uint64
	// Known returns the position up to which After knows all uses; it grows. For a sample without a use up to there,
	// After returns Unknown. Known is nil if After knows all uses that there will be.
	Known func() uint64
}

func number(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return max(1, h.Sum64())
}

// Join begins to use a cache; it returns nil if there is no cache or too many users.
func (c *Cache) Join(p Plan) *User {
	if c == nil {
		return nil
	}
	u := &User{cache: c, number: none, dataset: number(p.Dataset), job: number(p.Job), plan: p}
	c.with(func() {
		for n := range uint32(mostSlots) {
			if c.alive(n) {
				continue
			}
			// The lock makes a slot alive; the system releases it when the process ends, in whatever way.
			if unix.FcntlFlock(c.locks.Fd(), unix.F_SETLK, lockOf(unix.F_WRLCK, 1+int64(n))) != nil {
				continue
			}
			c.disown(n)
			s := &c.head.slots[n]
			s.bound, s.job, s.dataset = uint64(p.Bytes), u.job, u.dataset
			s.rank, s.step = uint64(p.Rank), uint64(max(1, p.Step))
			s.position.Store(0)
			s.known.Store(0)
			u.number, c.users[n] = n, u
			c.head.joined++
			u.reconsider()
			break
		}
	})
	if u.number == none {
		c.warn("is used by too many already, or cannot be used; the store is asked for every record")
		return nil
	}
	return u
}

// disown frees what a slot has claimed. Its former user ended with requests in flight, and its successor would wait for
// itself.
func (c *Cache) disown(slot uint32) {
	for i := range uint32(c.head.entryTop) {
		if e := &c.entries[i]; e.gen.Load()%states == claimed && e.owner == slot {
			c.remove(e, i)
		}
	}
}

// Leave ends the use.
func (u *User) Leave() {
	if u == nil {
		return
	}
	c := u.cache
	c.with(func() {
		c.head.slots[u.number].bound = 0
		c.head.joined++
		u.reconsider()
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.users, u.number)
	if !c.off.Load() {
		// This comes last: until then nobody else takes the slot.
		_ = unix.FcntlFlock(c.locks.Fd(), unix.F_SETLK, lockOf(unix.F_UNLCK, 1+int64(u.number)))
	}
}

// At says which use the consumer has reached; the others see it when this process next changes the tables.
func (u *User) At(position uint64) {
	if u != nil {
		u.position.Store(position)
	}
}

// NextUse returns the use of a sample after the one that comes next; 0 if that is unknown.
func (u *User) NextUse(sample int64) uint64 {
	if u == nil || u.plan.After == nil {
		return 0
	}
	next := u.plan.After(sample, u.position.Load())
	if next < Unknown {
		next = u.plan.After(sample, next+1)
	}
	return next
}

// Holds is true if the cache has room for so many parts of so many bytes in all.
func (u *User) Holds(count, bytes int64) (held bool) {
	if u == nil {
		return false
	}
	c := u.cache
	c.with(func() {
		size := int64(c.head.blockBytes)
		held = count <= c.limit.entries && bytes <= c.limit.bound && bytes/size+count <= c.limit.blocks
	})
	return held
}

// Stats are those of a user and of the cache that it uses.
type Stats struct {
	Hits, HitBytes int64 // records that came from the cache
	Dropped        int64 // parts whose checksum was wrong
	Bytes          int64 // in the cache, of all its users
	Planned        bool  // what is needed last is dropped first; otherwise what was used longest ago
	Ahead          int64 // if not Planned: how many uses ahead are known; parts are kept for these as well
}

// Stats may be called at any time.
func (u *User) Stats() (s Stats) {
	if u == nil {
		return s
	}
	s = Stats{Hits: u.counts.hits.Load(), HitBytes: u.counts.bytes.Load(), Dropped: u.counts.bad.Load()}
	s.Planned = u.plan.After != nil && u.plan.Known == nil
	if u.plan.Known != nil {
		at := u.position.Load()
		s.Ahead = int64(max(u.plan.Known(), at) - at)
	}
	u.cache.with(func() { s.Bytes = int64(u.cache.head.bytes) })
	return s
}

// Warning returns what the user of the cache should know, or "".
func (u *User) Warning() string {
	if u == nil {
		return ""
	}
	return u.cache.Warning()
}
