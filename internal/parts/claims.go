package parts

import (
	"context"
	"hash/crc32"
	"sync"
	"time"
)

// settle keeps a part that was claimed and fetched, or gives the claim up.
func (u *User) settle(p *Part) {
	switch {
	case p.state != mine:
	case p.Err == nil:
		u.keep(p)
	default:
		u.release(p)
	}
}

// lasting returns a context for a request for parts. It ends when ctx does, unless another process waits for one of the
// parts. Then the request may go on for as long as that process would wait.
func (u *User) lasting(ctx context.Context, run []Part) (lasting context.Context, stop func()) {
	// Otherwise other ranks would wait for parts that a rank no longer fetches because it has left.
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := context.AfterFunc(ctx, func() {
		if !u.awaited(run) {
			cancel()
			return
		}
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-lasting.Done():
		}
	})
	return lasting, func() {
		ended()
		cancel()
	}
}

// awaited is true if another process waits for one of the parts that this one has claimed.
func (u *User) awaited(run []Part) (found bool) {
	c := u.cache
	c.with(func() {
		for i := range run {
			if p := &run[i]; p.state == mine {
				e := c.still(p.at, p.gen)
				found = found || e != nil && e.waited == byOthers
			}
		}
	})
	return found
}

// look finds parts, and claims those that are missing. If it waits for a part, it notes that in the other process's
// claim.
func (u *User) look(list []Part, waits bool) {
	c := u.cache
	c.with(func() {
		for i := range list {
			u.lookFor(&list[i], waits)
		}
	})
}

// lookFor finds a part or claims it. The tables are locked.
func (u *User) lookFor(p *Part, waits bool) {
	c := u.cache
	p.state = away
	e, i := c.find(&p.Key)
	switch {
	case e == nil:
		// A part of more than a quarter of the bound would push out most of the cache for a single part.
		if c.full.Load() || int64(len(p.Bytes)) > c.limit.bound/4 || len(p.Bytes) == 0 {
			return
		}
		if e, i = c.insert(&p.Key, u.number); e == nil && c.evict(1, 0, 0) {
			e, i = c.insert(&p.Key, u.number)
		}
		if e != nil {
			p.state = mine
		}
	case e.gen.Load()%states == present:
		p.state = read
		u.used(e, p)
	// This includes its own claim: two samples of one loader may need one part at once.
	case e.owner == u.number || c.counts(e.owner):
		switch {
		case !waits:
		case e.owner != u.number:
			e.waited = byOthers
		default:
			e.waited = max(e.waited, byOwner)
		}
		p.state = other
	default: // the claim of a process that has ended or does nothing
		if c.alive(e.owner) {
			return
		}
		// That process may have written half of the part.
		c.giveBlocks(e)
		c.turn(e, claimed)
		e.owner = u.number
		p.state = mine
	}
	if e != nil {
		p.at, p.gen = i, e.gen.Load()
	}
}

// counts is true if a slot's claims count: its process lives, and is not known to do nothing.
func (c *Cache) counts(owner uint32) bool {
	if !c.alive(owner) {
		return false
	}
	done, suspect := c.suspects[owner]
	if suspect && c.head.slots[owner].done.Load() != done {
		delete(c.suspects, owner)
		suspect = false
	}
	return !suspect
}

// used notes a use of a part.
func (u *User) used(e *entry, p *Part) {
	c := u.cache
	c.head.stamp++
	e.stamp, e.dataset, e.sample = c.head.stamp, u.dataset, p.Sample
	if u.plan.After != nil {
		e.job, e.next = u.job, p.Next
		if at := (standing{ranks: c.ranks[u.job], after: u.plan.After, rankOf: u.plan.RankOf}); !at.here(p.Next) {
			e.next = at.next(p.Sample, p.Next+1)
		}
	} else if e.job == 0 || !c.lives(e.job) {
		e.job = 0
	}
}

// drop removes a part whose bytes were wrong. If there is another part in its entry by now, the part was only evicted
// while it was read. If it is still the same part, it is damaged.
func (u *User) drop(p *Part) {
	c := u.cache
	c.with(func() {
		if e := c.still(p.at, p.gen); e != nil {
			c.remove(e, p.at)
			u.counts.bad.Add(1)
		}
	})
}

// longest is how long a part is waited for at most. Tests shorten it.
var longest = 15 * patience

// await waits for a part that is being fetched, by another process or for another sample of this one. It returns false
// if this process has to fetch it. On a slow link a request takes longer than patience. So the time begins again
// whenever the fetching process has fetched something, and while the process is this one. The whole wait has an end, too,
// because another process may have written anything into the tables.
func (u *User) await(ctx context.Context, p *Part) bool {
	c := u.cache
	var seen, found sign
	end := time.Now().Add(longest)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for pause := time.Millisecond; p.state == other; pause = min(2*pause, 20*time.Millisecond) {
		select {
		case <-ctx.Done():
			p.state = away
			return false
		case <-timer.C:
			c.with(func() {
				if e := c.still(p.at, p.gen); e != nil && e.owner != u.number && e.owner < mostSlots {
					c.suspects[e.owner] = c.head.slots[e.owner].done.Load()
				}
			})
			p.state = away
			return false
		case <-time.After(pause):
		}
		if !c.with(func() {
			u.lookFor(p, true)
			found = c.signOf(p)
		}) {
			p.state = away
		}
		if found != seen || found.owner == u.number {
			seen = found
			timer.Reset(min(patience, time.Until(end)))
		}
	}
	u.take(p)
	return p.state == read
}

// sign is a sign of life of the process that has claimed a part.
type sign struct {
	owner uint32
	done  uint64 // how many parts it has fetched
}

// signOf returns the sign of life of the process that fetches a part. The tables are locked.
func (c *Cache) signOf(p *Part) sign {
	e := c.still(p.at, p.gen)
	if p.state != other || e == nil || e.owner >= mostSlots {
		return sign{owner: none}
	}
	return sign{e.owner, c.head.slots[e.owner].done.Load()}
}

// keep writes a part that was fetched, if it is worth more than what it would replace.
func (u *User) keep(p *Part) {
	c := u.cache
	crc := crc32.Checksum(p.Bytes, castagnoli)
	// The reader of the part compares the checksum and reports it; here the part is only not kept.
	if p.CRC != nil && *p.CRC != crc {
		u.release(p)
		return
	}
	var list []span
	if !c.with(func() {
		e := c.still(p.at, p.gen)
		c.head.slots[u.number].done.Add(1)
		if e == nil || !c.present() {
			return
		}
		e.length, e.crc, e.job = uint32(len(p.Bytes)), crc, 0
		u.used(e, p)
		need := c.blocksOf(int64(e.length))
		value := c.score(e)
		// Another process waits for this part, so nothing is needed sooner.
		if e.waited != 0 {
			value = 0
		}
		if !c.evict(0, int64(e.length), value) || c.roomForBlocks() < need || !c.takeBlocks(e) {
			c.remove(e, p.at)
			return
		}
		list = c.spans(e)
	}) {
		c.left.add(p)
		return
	}
	// This runs without the lock, because all processes of the machine wait for that. The claim keeps others away from
	// these blocks.
	at := 0
	for _, s := range list {
		n, err := c.data.WriteAt(p.Bytes[at:at+int(s.length)], s.at)
		at += n
		if err != nil {
			c.takesNoMore(err)
			u.release(p)
			return
		}
	}
	if list == nil {
		return
	}
	if !c.with(func() {
		if e := c.still(p.at, p.gen); e != nil {
			// Only now may others read the part. If this process is killed earlier, it leaves only a claim.
			c.turn(e, present)
			c.head.bytes += uint64(e.length)
			c.head.kept++
		}
	}) {
		c.left.add(p)
	}
}

// release gives a claim up.
func (u *User) release(p *Part) {
	c := u.cache
	if !c.with(func() {
		if e := c.still(p.at, p.gen); e != nil {
			c.remove(e, p.at)
		}
	}) {
		c.left.add(p)
	}
}

// claims are claims that this process could not end, because another process was stopped while it had the tables. As
// long as such a claim is in the tables and this process lives, others wait for the part. The next change removes them.
type claims struct {
	mu   sync.Mutex
	list []claim
}

type claim struct {
	at  uint32
	gen uint64
}

func (l *claims) add(p *Part) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, claim{p.at, p.gen})
}

func (l *claims) take() []claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	l.list = nil
	return list
}
