package parts

import (
	"context"
	"hash/crc32"
	"sync"
	"time"
)

// settle keeps what was claimed and fetched, or gives the claim up.
func (u *User) settle(p *Part) {
	switch {
	case p.state != mine:
	case p.Err == nil:
		u.keep(p)
	default:
		u.release(p)
	}
}

// lasting is a context for a request that ends with another one, but for what somebody else waits for: who leaves
// finishes that, for as long as the other would wait.
func (u *User) lasting(ctx context.Context, run []Part) (lasting context.Context, stop func()) {
	// Else a rank that leaves would have the others wait for what nobody fetches, and then fetch it anew.
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

// awaited: somebody else waits for one of the parts, which were claimed.
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

// look finds parts, and claims those that are not there. Where it waits, others' claims say so.
func (u *User) look(list []Part, waits bool) {
	c := u.cache
	c.with(func() {
		for i := range list {
			u.lookFor(&list[i], waits)
		}
	})
}

// lookFor finds a part or claims it, with the tables locked.
func (u *User) lookFor(p *Part, waits bool) {
	c := u.cache
	p.state = away
	e, i := c.find(&p.Key)
	switch {
	case e == nil:
		// A part of more than a quarter would push out most of what is there for the sake of one.
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
	// Its own claim too: two samples of one loader may want one part at once.
	case e.owner == u.number || c.counts(e.owner):
		switch {
		case !waits:
		case e.owner != u.number:
			e.waited = byOthers
		default:
			e.waited = max(e.waited, byOwner)
		}
		p.state = other
	default: // of one that is dead, or does nothing
		if c.alive(e.owner) {
			return
		}
		// Whatever it had begun to write may be half of it.
		c.giveBlocks(e)
		c.turn(e, claimed)
		e.owner = u.number
		p.state = mine
	}
	if e != nil {
		p.at, p.gen = i, e.gen.Load()
	}
}

// counts is true of claims of a slot that lives and is not known to do nothing.
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

// used notes a use.
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

// drop removes a part that was not what it was. Another one by now was evicted meanwhile; the same one is damaged.
func (u *User) drop(p *Part) {
	c := u.cache
	c.with(func() {
		if e := c.still(p.at, p.gen); e != nil {
			c.remove(e, p.at)
			u.counts.bad.Add(1)
		}
	})
}

// await waits for a part that somebody else fetches; false where it has to be fetched.
func (u *User) await(ctx context.Context, p *Part) bool {
	c := u.cache
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
		if !c.with(func() { u.lookFor(p, true) }) {
			p.state = away
		}
	}
	u.take(p)
	return p.state == read
}

// keep writes what was fetched, if it is worth a place.
func (u *User) keep(p *Part) {
	c := u.cache
	crc := crc32.Checksum(p.Bytes, castagnoli)
	// Who reads it finds that out and says so; here it is enough that it is not kept for others.
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
		// Somebody wants it now, so nothing is wanted sooner.
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
	// Outside of the lock, which all processes of the machine wait for: a claim keeps the blocks.
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
			// Only now may others read it: until here it was a claim, which a process that is killed leaves.
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

// claims are those that this process could not end, as another one was stopped with the tables. Left in them, each
// would hold up whoever wants the part for as long as this process lives. The next change takes them away.
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
