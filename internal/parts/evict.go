package parts

import (
	"cmp"
	"math"
	"slices"
)

type victim struct {
	at    uint32
	gen   uint64
	next  uint64
	stamp uint64
	score uint64
}

// lives says whether a living user has this job.
func (c *Cache) lives(job uint64) bool {
	for n := range uint32(mostSlots) {
		if s := &c.head.slots[n]; s.bound != 0 && s.job == job && c.alive(n) {
			return true
		}
	}
	return false
}

// standing says where the living ranks of a job are: the position of the last one of them, their step, and up to which
// position all uses are known.
type standing struct {
	position, step, known uint64
	ranks                 []uint64
	after                 func(int64, uint64) uint64
	rankOf                func(uint64) int64
}

// ahead returns how far away a use is, in 1,024ths of a step.
func (s standing) ahead(next uint64) uint64 {
	// The number is capped so that the shift cannot overflow. It is counted in steps and not in uses, because jobs with
	// different batch sizes share the cache.
	return min(next-min(next, s.position), 1<<50) << 10 / s.step
}

// distance returns how far away the next use of an entry is that was used `age` uses ago. An unknown next use lies
// behind all that are known. Among such entries, one that was used longer ago is assumed to be needed later.
func (s standing) distance(next, age uint64) uint64 {
	switch {
	case next == Never:
		return unwanted
	case unknown(next):
		return s.ahead(max(s.known, s.position) + min(age, 1<<50))
	}
	return s.ahead(next)
}

// inUse says whether a living user uses the dataset.
func (c *Cache) inUse(dataset uint64) bool {
	for n := range uint32(mostSlots) {
		if s := &c.head.slots[n]; s.bound != 0 && s.dataset == dataset && c.alive(n) {
			return true
		}
	}
	return false
}

func (c *Cache) standings() map[uint64]standing {
	found := map[uint64]standing{}
	for n := range uint32(mostSlots) {
		s := &c.head.slots[n]
		if s.bound == 0 || !c.alive(n) {
			continue
		}
		at, position := found[s.job], s.position.Load()
		// The last one of the ranks counts: another rank may still need what one of them has passed.
		if at.step == 0 || position < at.position {
			at.position, at.step = position, max(1, s.step)
		}
		at.known = max(at.known, s.known.Load())
		if u := c.users[n]; u != nil && u.plan.After != nil {
			at.after, at.rankOf, at.ranks = u.plan.After, u.plan.RankOf, c.ranks[s.job]
		}
		found[s.job] = at
	}
	return found
}

// unwanted is the distance of what no living job is known to need; those used longest ago go first.
const unwanted = 1 << 62

// distance returns how far away the next use of an entry is, in 1,024ths of its job's steps.
func (c *Cache) distance(e *entry, jobs map[uint64]standing) uint64 {
	// This is an index, which is read when a dataset is opened and does not follow any order.
	if e.sample == Whole {
		if c.inUse(e.dataset) {
			return 0
		}
		return unwanted + c.head.stamp - min(c.head.stamp, e.stamp)
	}
	age := c.head.stamp - min(c.head.stamp, e.stamp)
	if e.job != 0 {
		if at, ok := jobs[e.job]; ok {
			switch {
			case at.after == nil:
			case unknown(e.next): // perhaps it has become known
				e.next = at.after(e.sample, max(at.position, e.next-Unknown))
			case e.next == anew, e.next < at.position: // its use has passed, or was left out
				e.next = at.next(e.sample, at.position)
			}
			return min(at.distance(e.next, age), c.wantedElsewhere(e, jobs))
		}
	}
	// The entry is given to another job of the same dataset that has come since, so that the search is done once.
	for _, u := range c.users {
		if at := jobs[u.job]; u.dataset == e.dataset && at.after != nil {
			e.job, e.next = u.job, at.next(e.sample, at.position)
			return min(at.distance(e.next, age), c.wantedElsewhere(e, jobs))
		}
	}
	for _, at := range jobs {
		if at.after == nil {
			return age << 10 / at.step // the longer ago it was used, the later it is assumed to be needed
		}
	}
	return unwanted + age
}

// wantedElsewhere returns how far away the next use is among loaders of this process whose samples are chosen by a
// user. Each such loader is its own job, so one may need itself what another one used last.
func (c *Cache) wantedElsewhere(e *entry, jobs map[uint64]standing) uint64 {
	least := uint64(math.MaxUint64)
	for _, u := range c.users {
		if u.plan.Known == nil || u.job == e.job || u.dataset != e.dataset {
			continue
		}
		if at, ok := jobs[u.job]; ok {
			if next := u.plan.After(e.sample, u.position.Load()); next < Unknown {
				least = min(least, at.ahead(next))
			}
		}
	}
	return least
}

func (c *Cache) score(e *entry) uint64 { return c.distance(e, c.standings()) }

// evict makes room for so many entries and bytes, by dropping parts whose next use is later than the newcomer's. The
// list of such parts is made from all entries at once, and holds a hundredth of them.
func (c *Cache) evict(entries, bytes int64, value uint64) bool {
	fits := func() bool {
		return int64(c.head.bytes)+bytes <= c.limit.bound && c.roomForBlocks() >= c.blocksOf(bytes) &&
			(entries == 0 || c.head.freeEntry != none || int64(c.head.entryTop) < c.limit.entries)
	}
	var jobs map[uint64]standing // made when one is first asked for
	for fresh := false; !fits(); {
		if len(c.victims) == 0 {
			if c.choose(); len(c.victims) == 0 {
				return false
			}
			fresh = true
		}
		v := c.victims[0]
		// No kept part is needed later than the newcomer. An old list may be wrong about that, a fresh one is not.
		if v.score <= value && entries == 0 {
			if fresh {
				return false
			}
			c.victims = nil
			continue
		}
		c.victims = c.victims[1:]
		e := c.still(v.at, v.gen)
		// The entry was used, or holds another part, since the list was made.
		if e == nil || e.next != v.next || e.stamp != v.stamp {
			continue
		}
		if unknown(v.next) {
			if jobs == nil {
				jobs = c.standings()
			}
			if c.distance(e, jobs) < v.score {
				continue // its use has become known
			}
		}
		c.remove(e, v.at)
	}
	return true
}

// choose makes the list of the parts that are dropped next.
func (c *Cache) choose() {
	jobs := c.standings()
	var all []victim
	for i := range uint32(c.head.entryTop) {
		if e := &c.entries[i]; e.gen.Load()%states == present {
			score := c.distance(e, jobs)
			all = append(all, victim{i, e.gen.Load(), e.next, e.stamp, score})
		} else if e.gen.Load()%states == claimed && !c.alive(e.owner) {
			c.remove(e, i)
		}
	}
	slices.SortFunc(all, func(a, b victim) int { return cmp.Compare(b.score, a.score) })
	// A hundredth lasts for a while: looking at all entries and sorting them keeps the lock from every process.
	c.victims = slices.Clone(all[:min(len(all), len(all)/100+1)])
}
