package parts

import (
	"context"
	"crypto/sha256"
	"hash/crc32"
	"sync"
	"time"

	"github.com/headrace/headrace/internal/fault"
)

// Part is a range that a user needs. The user sets the first fields.
type Part struct {
	Key    Key
	Sample int64   // Whole if it belongs to all samples
	Next   uint64  // the use after this one
	CRC    *uint32 // CRC-32C, if it is known
	Bytes  []byte

	Err  error
	Took time.Duration // the time of Peek's read from the disk, without waits

	state outcome
	at    uint32 // entry
	gen   uint64
}

// Whole is the sample of a part that is needed whenever a dataset is opened: it is kept while the dataset is in use.
const Whole = -1

type outcome uint8

const (
	away  outcome = iota // has to be fetched, past the cache
	mine                 // has to be fetched and kept
	other                // another process fetches it
	read
	left // Fill leaves it alone
)

// KeyOf returns the key of a range of an object. An identity names store, object and version.
func KeyOf(identity string, offset, length int64) Key {
	sum := sha256.Sum256(sizeKey([]byte(identity), offset, length))
	return Key(sum[:16])
}

// Read fills parts, which follow each other in an object, from the cache. fetch reads parts [from, to) that the cache
// lacks, in one request; it may be called from several goroutines. Read returns how many requests there were.
func (u *User) Read(ctx context.Context, list []Part, fetch func(ctx context.Context, from, to int) error) (requests int) {
	u.look(list, true)
	for i := range list {
		u.take(&list[i])
	}
	// Missing parts lie between those that are there, in runs; each run is one request.
	requests = u.fetchRuns(ctx, list, fetch)
	// First come the parts that others may be waiting for, then the parts that others have.
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

// Fill fetches parts as Read does, but leaves alone parts that are there, that another process is fetching, or for
// which there is no room.
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

// Peek fills a part that is in the cache. It fetches, notes and waits for nothing. Another process may be changing the
// tables meanwhile, so the bytes have to match the checksum. If the checksum is not known, only the entry has it, and
// the entry is looked up with the tables locked.
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
		// The entry changed while it was read. The checksum notices later changes.
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

// Here says for each part whether it is in the cache. As with Peek, it may be gone a moment later.
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
	// So many hits are noted together: noting takes the lock that all processes share, which is two system calls.
	hitsAtOnce = 64
	// So many hits wait to be noted while the tables are not available. A hit that is forgotten counts as used longer
	// ago than it was.
	mostHits = 1024
)

// hit is a part that was read and whose use still has to be noted.
type hit struct {
	user   *User
	at     uint32
	gen    uint64
	sample int64
	next   uint64
}

// Hit fills a part that is in the cache, and notes the use with the next change of the tables, or together with some
// others. A part that is chosen to be dropped in between is chosen correctly, because a use that has passed is looked
// up again.
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

// noteHits notes the uses of parts that were hit since the last change. The tables are locked.
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

// Forget drops parts that turned out to be wrong.
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
				defer fault.Recover(&err) // this may be a goroutine of its own
				err = fetch(lasting, from, to)
			}()
			for i := range run {
				run[i].Err = err
			}
		}
		requests++
		// The last run needs no goroutine of its own: usually it is the only one.
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

// take reads a part that was found. A part that has changed is dropped and fetched again.
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
	// It was overwritten since it was found, or is damaged on the disk: the store has it.
	u.drop(p)
	c.with(func() {
		u.lookFor(p, false)
		if p.state >= other {
			p.state = away
		}
	})
}

// read fills to from the spans of the file in which an entry's bytes lie.
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

// is says whether the bytes have the checksum of their entry, and the one that is known.
func (p *Part) is(crc uint32) bool {
	return crc32.Checksum(p.Bytes, castagnoli) == crc && (p.CRC == nil || *p.CRC == crc)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
