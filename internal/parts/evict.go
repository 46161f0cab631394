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

// lives: somebody who lives has this job.
func (c *Cache) lives(job uint64) bool {
	for n := range uint32(mostSlots) {
		if s := &c.head.slots[n]; s.bound != 0 && s.job == job && c.alive(n) {
			return true
		}
	}
	return false
}

// standing is where the ranks of a job are that live: the position of the last of them, their step, and up to where
// uses are known that are not all.
type standing struct {
	position, step, known uint64
	ranks                 []uint64
	after                 func(int64, uint64) uint64
	rankOf                func(uint64) int64
}

// ahead is how far away a use is, in 1,024ths of a step.
func (s standing) ahead(next uint64) uint64 {
	// Capped so that the shift cannot overflow. In steps and not uses, for jobs whose batches differ in size share
	// the cache.
	return min(next-min(next, s.position), 1<<50) << 10 / s.step
}

// distance is how far away the next use of an entry is that was used so many uses ago. Of one that is not known no
// more can be said than that it is behind all that are; among those, what was used so long ago is wanted as far away.
func (s standing) distance(next, age uint64) uint64 {
	switch {
	case next == Never:
		return unwanted
	case unknown(next):
		return s.ahead(max(s.known, s.position) + min(age, 1<<50))
	}
	return s.ahead(next)
}

// inUse: somebody who lives uses the dataset.
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
		// The last of the ranks: what one of them has passed another one may yet want.
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

// unwanted is the distance of what no living job is known to want: those used longest ago first.
const unwanted = 1 << 62

// distance is how far away the next use of an entry is, in 1,024ths of its job's steps.
func (c *Cache) distance(e *entry, jobs map[uint64]standing) uint64 {
	// An index, which is read when a dataset is opened and by nobody's order.
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
	// The entry is given to that job, so that the search is done once.
	// Of another job of the same dataset that has come since.
	for _, u := range c.users {
		if at := jobs[u.job]; u.dataset == e.dataset && at.after != nil {
			e.job, e.next = u.job, at.next(e.sample, at.position)
			return min(at.distance(e.next, age), c.wantedElsewhere(e, jobs))
		}
	}
	for _, at := range jobs {
		if at.after == nil {
			return age << 10 / at.step // what was used so long ago is wanted as far away
		}
	}
	return unwanted + age
}

// wantedElsewhere is how far away the next use is that a loader of this process knows of whose samples are chosen: each
// is a job of its own, so what another one has used last it may want itself.
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

// evict makes room for so many entries and bytes, by parts whose next use is behind that of the newcomer. The list
// of those is made of all entries at once, and holds a hundredth of them.
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
		// Nothing that is kept is wanted later than the newcomer: an old list may be wrong about that, a fresh one is
		// not.
		if v.score <= value && entries == 0 {
			if fresh {
				return false
			}
			c.victims = nil
			continue
		}
		c.victims = c.victims[1:]
		e := c.still(v.at, v.gen)
		// Used, or another part, since the list was made.
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

// choose makes the list of those that go next.
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
	// A hundredth lasts for a while: all entries are looked at and sorted under everybody's lock.
	c.victims = slices.Clone(all[:min(len(all), len(all)/100+1)])
}
