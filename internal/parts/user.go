package parts

import (
	"context"
	"crypto/sha256"
	"hash/crc32"
	"hash/fnv"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Never is the next use of what nobody wants again.
const Never = math.MaxUint64

// User is a loader, or a dataset of which single samples are read. A nil one has no cache.
type User struct {
	cache   *Cache
	number  uint32
	dataset uint64
	job     uint64
	plan    Plan

	position atomic.Uint64
	counts   struct{ hits, bytes, bad atomic.Int64 }
}

// Plan says when samples are used. The uses of all ranks of a job have one numbering.
type Plan struct {
	Bytes   int64  // what the user lets the cache have
	Dataset string // its fingerprint
	Job     string // what makes the order; the same for all ranks of it
	Rank    int64
	Step    int64 // uses that all ranks make at once
	// After is a sample's first use at or behind a position. Nil where nobody knows: then what was used last
	// is kept.
	After func(sample int64, position uint64) uint64
}

// Part is a range that somebody wants. The fields in front are its user's.
type Part struct {
	Key    Key
	Sample int64
	Next   uint64  // the use behind this one
	CRC    *uint32 // CRC-32C, where it is known
	Bytes  []byte

	Err error

	state outcome
	at    uint32 // entry
	gen   uint64
}

type outcome uint8

const (
	away  outcome = iota // to be fetched, without the cache
	mine                 // to be fetched and kept
	other                // somebody else fetches it
	read
)

// KeyOf is the key of a range of an object. An identity names store, object and version.
func KeyOf(identity string, offset, length int64) Key {
	sum := sha256.Sum256(sizeKey([]byte(identity), offset, length))
	return Key(sum[:16])
}

func number(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return max(1, h.Sum64())
}

// Join begins to use a cache; nil where there is none or too many use it.
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
			if unix.FcntlFlock(c.locks.Fd(), unix.F_SETLK, lockOf(unix.F_WRLCK, 1+int64(n))) != nil {
				continue
			}
			s := &c.head.slots[n]
			s.bound, s.job, s.rank, s.step = uint64(p.Bytes), u.job, uint64(p.Rank), uint64(max(1, p.Step))
			s.position.Store(0)
			u.number, c.users[n] = n, u
			c.head.joined++
			break
		}
	})
	if u.number == none {
		c.warn("is used by too many already, or cannot be used; the store is asked for every record")
		return nil
	}
	return u
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
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.users, u.number)
	if !c.off.Load() {
		_ = unix.FcntlFlock(c.locks.Fd(), unix.F_SETLK, lockOf(unix.F_UNLCK, 1+int64(u.number)))
	}
}

// At says which use the consumer is at; the others see it when this process next changes the tables.
func (u *User) At(position uint64) {
	if u != nil {
		u.position.Store(position)
	}
}

// Stats of a user and of the cache that it uses.
type Stats struct {
	Hits, HitBytes int64 // records that came from the cache
	Dropped        int64 // parts whose checksum was wrong
	Bytes          int64 // in the cache, of all its users
	Planned        bool  // what is wanted last is dropped first; else what was used longest ago
}

// Stats may be called at any time.
func (u *User) Stats() (s Stats) {
	if u == nil {
		return s
	}
	s = Stats{Hits: u.counts.hits.Load(), HitBytes: u.counts.bytes.Load(), Dropped: u.counts.bad.Load(), Planned: u.plan.After != nil}
	u.cache.with(func() { s.Bytes = int64(u.cache.head.bytes) })
	return s
}

// Warning is what the user of the cache should know, or nothing.
func (u *User) Warning() string {
	if u == nil {
		return ""
	}
	return u.cache.Warning()
}

// Read fills parts, which lie behind one another in an object, from the cache; fetch reads parts [from, to) where
// it lacks them, in one request, and may be called from several goroutines. It says how many requests there were.
func (u *User) Read(ctx context.Context, list []Part, fetch func(ctx context.Context, from, to int) error) (requests int) {
	u.look(list)
	for i := range list {
		u.take(&list[i])
	}
	requests = fetchRuns(ctx, list, fetch)
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

func fetchRuns(ctx context.Context, list []Part, fetch func(ctx context.Context, from, to int) error) (requests int) {
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
			err := fetch(ctx, from, to)
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

// look finds parts, and claims those that are not there.
func (u *User) look(list []Part) {
	c := u.cache
	c.with(func() {
		for i := range list {
			u.lookFor(&list[i])
		}
	})
}

// lookFor finds a part or claims it, with the tables locked.
func (u *User) lookFor(p *Part) {
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
		e.waited = 1
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
	at := 0
	for _, s := range list {
		n, err := c.data.ReadAt(p.Bytes[at:at+int(s.length)], s.at)
		at += n
		if err != nil {
			break
		}
	}
	if ok && at == len(p.Bytes) && crc32.Checksum(p.Bytes, castagnoli) == crc && (p.CRC == nil || *p.CRC == crc) {
		u.counts.hits.Add(1)
		u.counts.bytes.Add(int64(at))
		return
	}
	p.state = away
	c.with(func() {
		// Another one by now was evicted meanwhile; the same one is damaged.
		if e := &c.entries[p.at]; e.gen.Load() == p.gen {
			c.remove(e, p.at)
			u.counts.bad.Add(1)
		}
		u.lookFor(p)
		if p.state >= other {
			p.state = away
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
		if !c.with(func() { u.lookFor(p) }) {
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
