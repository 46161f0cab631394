package parts

import (
	"context"
	"crypto/sha256"
	"hash/crc32"
	"sync"
	"time"
)

// Part is a range that somebody wants. The fields in front are its user's.
type Part struct {
	Key    Key
	Sample int64   // Whole of what belongs to all samples
	Next   uint64  // the use behind this one
	CRC    *uint32 // CRC-32C, where it is known
	Bytes  []byte

	Err error

	state outcome
	at    uint32 // entry
	gen   uint64
}

// Whole is the sample of what is wanted whenever a dataset is opened: it is kept while somebody uses the dataset.
const Whole = -1

type outcome uint8

const (
	away  outcome = iota // to be fetched, without the cache
	mine                 // to be fetched and kept
	other                // somebody else fetches it
	read
	left // Fill leaves it alone
)

// KeyOf is the key of a range of an object. An identity names store, object and version.
func KeyOf(identity string, offset, length int64) Key {
	sum := sha256.Sum256(sizeKey([]byte(identity), offset, length))
	return Key(sum[:16])
}

// Read fills parts, which lie behind one another in an object, from the cache; fetch reads parts [from, to) where
// it lacks them, in one request, and may be called from several goroutines. It says how many requests there were.
func (u *User) Read(ctx context.Context, list []Part, fetch func(ctx context.Context, from, to int) error) (requests int) {
	u.look(list, true)
	for i := range list {
		u.take(&list[i])
	}
	requests = u.fetchRuns(ctx, list, fetch)
	// First what others may be waiting for, then what others have.
	for i := range list {
		u.settle(&list[i])
	}
	for i := range list {
		if p := &list[i]; p.state == other && !u.await(ctx, p) {
			p.Err = fetch(ctx, i, i+1)
			requests++
			u.settle(p)
		}
	}
	return requests
}

// Fill fetches parts as Read does, but leaves alone what is there, is on its way to somebody, or has no room.
func (u *User) Fill(ctx context.Context, list []Part, fetch func(ctx context.Context, from, to int) error) {
	u.look(list, false)
	for i := range list {
		if list[i].state != mine {
			list[i].state = left
		}
	}
	u.fetchRuns(ctx, list, fetch)
	for i := range list {
		u.settle(&list[i])
	}
}

// Peek fills a part that is in the cache. Nothing is fetched, noted or waited for, so another process may be changing
// the tables: what is found has to have its checksum.
func (u *User) Peek(p *Part) bool {
	c := u.cache
	var place []span
	var crc uint32
	c.mu.Lock()
	ok := !c.off.Load() && c.guarded(func() {
		e, _ := c.find(&p.Key)
		if e == nil {
			return
		}
		gen := e.gen.Load()
		if gen%states == present && int64(e.length) == int64(len(p.Bytes)) {
			place, crc = c.spans(e), e.crc
		}
		if e.gen.Load() != gen {
			place = nil
		}
	})
	c.mu.Unlock()
	return ok && place != nil && c.read(place, p.Bytes) && p.is(crc)
}

// Forget drops parts that turned out to be no good.
func (u *User) Forget(list []Part) {
	c := u.cache
	c.with(func() {
		for i := range list {
			if e, at := c.find(&list[i].Key); e != nil && e.gen.Load()%states == present {
				c.remove(e, at)
				u.counts.bad.Add(1)
			}
		}
	})
}

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

func (u *User) fetchRuns(ctx context.Context, list []Part, fetch func(ctx context.Context, from, to int) error) (requests int) {
	var group sync.WaitGroup
	for from := 0; from < len(list); {
		if list[from].state > mine {
			from++
			continue
		}
		to := from + 1
		for to < len(list) && list[to].state <= mine {
			to++
		}
		one := func(run []Part, from, to int) {
			lasting, stop := u.lasting(ctx, run)
			err := fetch(lasting, from, to)
			stop()
			for i := range run {
				run[i].Err = err
			}
		}
		requests++
		if to == len(list) {
			one(list[from:to], from, to)
		} else {
			begin := from // the loop moves from before the goroutine runs
			group.Go(func() { one(list[begin:to], begin, to) })
		}
		from = to
	}
	group.Wait()
	return requests
}

// lasting is a context for a request that ends with another one, but for what somebody else waits for: who leaves
// finishes that, for as long as the other would wait.
func (u *User) lasting(ctx context.Context, run []Part) (lasting context.Context, stop func()) {
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
				e := &c.entries[p.at]
				found = found || e.gen.Load() == p.gen && e.waited == byOthers
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
	} else if e.job == 0 || !c.lives(e.job) {
		e.job = 0
	}
}

// take reads a part that was found. What is not what it was is dropped, and fetched anew.
func (u *User) take(p *Part) {
	if p.state != read {
		return
	}
	c := u.cache
	var list []span
	var crc uint32
	ok := c.with(func() {
		if e := &c.entries[p.at]; e.gen.Load() == p.gen && int64(e.length) == int64(len(p.Bytes)) {
			list, crc = c.spans(e), e.crc
		}
	})
	if ok && c.read(list, p.Bytes) && p.is(crc) {
		u.counts.hits.Add(1)
		u.counts.bytes.Add(int64(len(p.Bytes)))
		return
	}
	p.state = away
	u.drop(p)
	c.with(func() {
		u.lookFor(p, false)
		if p.state >= other {
			p.state = away
		}
	})
}

// read fills to from the stretches of the file that an entry's bytes lie in.
func (c *Cache) read(from []span, to []byte) bool {
	at := 0
	for _, s := range from {
		n, err := c.data.ReadAt(to[at:at+int(s.length)], s.at)
		if at += n; err != nil {
			return false
		}
	}
	return at == len(to)
}

// is: the bytes have the checksum of their entry, and the one that is known.
func (p *Part) is(crc uint32) bool {
	return crc32.Checksum(p.Bytes, castagnoli) == crc && (p.CRC == nil || *p.CRC == crc)
}

// drop removes a part that was not what it was. Another one by now was evicted meanwhile; the same one is damaged.
func (u *User) drop(p *Part) {
	c := u.cache
	c.with(func() {
		if e := &c.entries[p.at]; e.gen.Load() == p.gen {
			c.remove(e, p.at)
			u.counts.bad.Add(1)
		}
	})
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

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
				if e := &c.entries[p.at]; e.gen.Load() == p.gen && e.owner != u.number && e.owner < mostSlots {
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
	if p.CRC != nil && *p.CRC != crc {
		u.release(p)
		return
	}
	var list []span
	c.with(func() {
		e := &c.entries[p.at]
		c.head.slots[u.number].done.Add(1)
		if e.gen.Load() != p.gen || !c.present() {
			return
		}
		e.length, e.crc, e.job = uint32(len(p.Bytes)), crc, 0
		u.used(e, p)
		need := c.blocksOf(int64(e.length))
		value := c.score(e)
		if e.waited != 0 {
			value = 0
		}
		if !c.evict(0, int64(e.length), value) || c.roomForBlocks() < need || !c.takeBlocks(e) {
			c.remove(e, p.at)
			return
		}
		list = c.spans(e)
	})
	at := 0
	for _, s := range list {
		n, err := c.data.WriteAt(p.Bytes[at:at+int(s.length)], s.at)
		at += n
		if err != nil {
			c.full.Store(true)
			c.warn("cannot be written to and takes nothing more: " + err.Error())
			u.release(p)
			return
		}
	}
	if list == nil {
		return
	}
	c.with(func() {
		if e := &c.entries[p.at]; e.gen.Load() == p.gen {
			c.turn(e, present)
			c.head.bytes += uint64(e.length)
			c.head.kept++
		}
	})
}

// release gives a claim up.
func (u *User) release(p *Part) {
	c := u.cache
	c.with(func() {
		if e := &c.entries[p.at]; e.gen.Load() == p.gen {
			c.remove(e, p.at)
		}
	})
}
