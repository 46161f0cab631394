package parts

import (
	"context"
	"crypto/sha256"
	"hash/crc32"
	"sync"
	"time"

	"github.com/headrace/headrace/internal/fault"
)

// Part is a range that somebody wants. The fields in front are its user's.
type Part struct {
	Key    Key
	Sample int64   // Whole of what belongs to all samples
	Next   uint64  // the use behind this one
	CRC    *uint32 // CRC-32C, where it is known
	Bytes  []byte

	Err  error
	Took time.Duration // Peek's read from the disk, without what it waited for others

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
	// What is missing lies between what is there, in runs: each run is a request.
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
// the tables: what is found has to have its checksum. Of a part whose checksum is not known the entry alone has it, and
// is looked up with the tables locked.
func (u *User) Peek(p *Part) bool {
	c := u.cache
	var place []span
	var crc uint32
	find := func() {
		e, at := c.find(&p.Key)
		if e == nil {
			return
		}
		gen := e.gen.Load()
		if gen%states == present && e.key == p.Key && int64(e.length) == int64(len(p.Bytes)) {
			place, crc = c.spans(e), e.crc
		}
		// It changed while it was read. What changes behind this the checksum tells.
		if e.gen.Load() != gen {
			place = nil
		}
		p.at, p.gen = at, gen
	}
	ok := false
	if p.CRC != nil {
		c.mu.Lock()
		ok = !c.off.Load() && c.guarded(find)
		c.mu.Unlock()
	} else {
		ok = c.with(find)
	}
	if !ok || place == nil {
		return false
	}
	began := time.Now()
	ok = c.read(place, p.Bytes)
	p.Took = time.Since(began)
	return ok && p.is(crc)
}

// Here says of each part whether it is in the cache. As with Peek, it may be gone at the next moment.
func (u *User) Here(list []Part) []bool {
	c := u.cache
	here := make([]bool, len(list))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off.Load() || !c.guarded(func() {
		for i := range list {
			e, _ := c.find(&list[i].Key)
			here[i] = e != nil && e.gen.Load()%states == present
		}
	}) {
		clear(here)
	}
	return here
}

const (
	// hitsAtOnce uses are noted together: each takes the lock that the processes share, which is two calls of the
	// system.
	hitsAtOnce = 64
	// mostHits wait to be noted while the tables cannot be had. What is forgotten counts as used longer ago than it was.
	mostHits = 1024
)

// hit is a part that was read, whose use is to be noted.
type hit struct {
	user   *User
	at     uint32
	gen    uint64
	sample int64
	next   uint64
}

// Hit fills a part that is in the cache, for its use. The use is noted with the next change of the tables, or with
// those of some others; what is chosen to go in between is not wrong by it, for a use that has passed is looked up anew.
func (u *User) Hit(p *Part) bool {
	if !u.Peek(p) {
		return false
	}
	u.hit(p)
	c := u.cache
	c.mu.Lock()
	if len(c.hits) < mostHits {
		c.hits = append(c.hits, hit{u, p.at, p.gen, p.Sample, p.Next})
	}
	many := len(c.hits) >= hitsAtOnce
	c.mu.Unlock()
	if many {
		c.with(func() {})
	}
	return true
}

// noteHits notes the uses of what was hit since the last change, with the tables locked.
func (c *Cache) noteHits() {
	for _, h := range c.hits {
		if e := c.still(h.at, h.gen); e != nil {
			h.user.used(e, &Part{Sample: h.sample, Next: h.next})
		}
	}
	c.hits = c.hits[:0]
}

// hit counts a part that came from the cache.
func (u *User) hit(p *Part) {
	u.counts.hits.Add(1)
	u.counts.bytes.Add(int64(len(p.Bytes)))
}

// Forget drops parts that turned out to be no good.
func (u *User) Forget(list []Part) {
	if u == nil {
		return
	}
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
			defer stop()
			var err error
			func() {
				defer fault.Recover(&err) // it may be in a goroutine of its own
				err = fetch(lasting, from, to)
			}()
			for i := range run {
				run[i].Err = err
			}
		}
		requests++
		// The last run needs no goroutine of its own: mostly it is the only one.
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

// take reads a part that was found. What is not what it was is dropped, and fetched anew.
func (u *User) take(p *Part) {
	if p.state != read {
		return
	}
	c := u.cache
	var list []span
	var crc uint32
	ok := c.with(func() {
		if e := c.still(p.at, p.gen); e != nil && int64(e.length) == int64(len(p.Bytes)) {
			list, crc = c.spans(e), e.crc
		}
	})
	if ok && c.read(list, p.Bytes) && p.is(crc) {
		u.hit(p)
		return
	}
	p.state = away
	// Overwritten since it was found, or damaged on the disk: the store has it.
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

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
