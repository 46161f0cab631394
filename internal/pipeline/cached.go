package pipeline

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"time"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/fetch"
	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/internal/parts"
)

// keptAhead is how many records that are in the cache are planned ahead of the decoders, so that missing ones between
// them are requested early. A link of 400 MB/s needs some thousands. With more, some could be evicted meanwhile.
const keptAhead = 4096

// cachedGap is the largest gap that is read instead of sending a second request, if fetched records are kept. It is
// small, because the unwanted bytes are fetched again in each epoch.
const cachedGap = 4 << 10

// uses numbers the uses of samples by all ranks. An epoch has as many uses as positions, with padding.
type uses struct {
	order *order.Order
	epoch uint64 // uses in an epoch
}

func newUses(o *order.Order) uses {
	c := o.Config()
	global := uint64(c.BatchSize * c.WorldSize)
	return uses{o, (uint64(o.Length()) + global - 1) / global * global}
}

func (u uses) at(epoch, position int64) uint64 {
	if u.epoch == 0 || uint64(epoch) > math.MaxInt64/u.epoch-1 {
		return 0
	}
	return uint64(epoch)*u.epoch + uint64(position)
}

// after returns a sample's first use at or after a position.
func (u uses) after(sample int64, position uint64) uint64 {
	if u.epoch == 0 || sample < 0 || sample >= u.order.Config().Samples {
		return parts.Never
	}
	for epoch := int64(position / u.epoch); ; epoch++ {
		if next := u.at(epoch, u.order.Position(epoch, sample)); next >= position || next == 0 {
			return next
		}
	}
}

// rankOf returns the rank of a use.
func (u uses) rankOf(use uint64) int64 {
	if u.epoch == 0 {
		return 0
	}
	return u.order.RankOf(int64(use % u.epoch))
}

// planned is true if every use is known in advance. A selection has no inverse, and submitted batches have no order: of
// those, only the uses that were submitted are known.
func (c *Config) planned() bool { return !c.Submitted && c.Order.Config().Selection == nil }

// useBehind returns the sample's next use after this record's; 0 if it is not known.
func (l *Loader) useBehind(r *record, index int64) uint64 {
	switch {
	case l.chosen != nil:
		return l.chosen.after(index, r.draft.use+uint64(r.i)+1)
	case l.config.planned():
		return l.uses.after(index, l.uses.at(r.draft.epoch+1, 0))
	}
	return 0
}

// join begins to use the cache on disk.
func (l *Loader) join() {
	c := &l.config
	if c.Cache == nil || !c.Dataset.Away() {
		return
	}
	o := c.Order.Config()
	l.uses = newUses(c.Order)
	plan := parts.Plan{Bytes: c.CacheBytes, Dataset: c.Dataset.Fingerprint(), Rank: o.Rank, Step: o.BatchSize * o.WorldSize}
	switch {
	case c.Submitted:
		// Another rank or loader has other samples, so these numbers of uses are valid only for this one.
		l.chosen = newChosen()
		plan.Job, plan.Step = rand.Text(), o.BatchSize
		plan.After, plan.Known = l.chosen.after, l.chosen.known
	case c.planned():
		plan.Job = fmt.Sprint(plan.Dataset, o.Seed, o.Shuffle, o.Window, o.BatchSize, o.WorldSize)
		plan.After = l.uses.after
		if o.WorldSize > 1 {
			plan.RankOf = l.uses.rankOf
		}
	}
	c.Cache.Retain()
	if l.kept = c.Cache.Join(plan); l.kept == nil {
		l.chosen = nil
	}
}

// leave ends the use of the cache.
func (l *Loader) leave() {
	if l.kept.Leave(); l.config.Cache != nil && l.config.Dataset.Away() {
		l.config.Cache.Close()
	}
}

// checkCache refuses a bound that is less than what is under way at once.
func (c *Config) checkCache() error {
	m := c.Dataset.Manifest()
	if c.Cache == nil || m == nil || m.Rows == 0 {
		return nil
	}
	batches := int64(c.Prefetch) + 2
	if batch := min(c.Order.Config().BatchSize, m.Rows); m.Bytes/m.Rows > c.CacheBytes/batches/batch {
		return catalog.NewError(fault.KindArgument, "", "cache_size is %d bytes (expected at least %d, which %d batches of %d samples have)",
			c.CacheBytes, m.Bytes/m.Rows*batches*batch, batches, batch)
	}
	return nil
}

// between is true for records that are no neighbours in the dataset. What lies between them is kept already, or another
// rank fetches it.
func between(a, b *fetch.Want) bool {
	return b.Owner.(*record).sample.Index-a.Owner.(*record).sample.Index != 1
}

// part returns a record's range in the cache's form.
func (r *record) part(key parts.Key, to []byte) parts.Part {
	p := parts.Part{Key: key, Sample: r.sample.Index, Next: r.next, Bytes: to}
	if r.sample.HasCRC {
		p.CRC = &r.sample.CRC32C
	}
	return p
}

// readKept reads neighbouring records from the cache, and missing ones from the store.
func (a *readAhead) readKept(ctx context.Context, group []*fetch.Want, to []byte, offset int64) (requests int) {
	shard := group[0].Source.(*catalog.Shard)
	whole := func(ctx context.Context, from, until int) error {
		last := group[until-1]
		begin, end := group[from].Offset-offset, last.Offset+last.Length-offset
		return shard.ReadAt(ctx, to[begin:end], offset+begin)
	}
	fail := func(err error) int {
		for _, w := range group {
			w.Err = err
		}
		return 1
	}
	identity, err := shard.Identity(ctx)
	if err != nil {
		return fail(err)
	}
	if identity == "" {
		return fail(whole(ctx, 0, len(group)))
	}
	list := make([]parts.Part, len(group))
	for i, w := range group {
		list[i] = w.Owner.(*record).part(parts.KeyOf(identity, w.Offset, w.Length), w.Bytes)
	}
	requests = a.loader.kept.Read(ctx, list, whole)
	for i, w := range group {
		w.Err = list[i].Err
	}
	return requests
}

// lookUp finds which of the planned records are in the cache. Workers read those themselves, like a local dataset. A
// reader would copy them first, into memory that has left the CPU's caches by the time they are decoded, and would wake
// a worker for each; that costs a tenth of the rate (391 instead of 348 us of CPU for an image). If such reads turn out
// to be slow, as from a disk, or find nothing, all records go through the Fetcher for a while, which reads many at
// once.
func (a *readAhead) lookUp(batch []*record) {
	l := a.loader
	if l.kept == nil || a.hits.slow() {
		return
	}
	var list []parts.Part
	var found []*record
	identities := map[*catalog.Shard]string{}
	for _, r := range batch {
		shard, ok := r.want.Source.(*catalog.Shard)
		if !ok || r.want.Length <= 0 {
			continue
		}
		identity, ok := identities[shard]
		if !ok {
			identity = shard.Known()
			identities[shard] = identity
		}
		if identity == "" {
			continue
		}
		r.key = parts.KeyOf(identity, r.want.Offset, r.want.Length)
		list, found = append(list, parts.Part{Key: r.key}), append(found, r)
	}
	for i, here := range l.kept.Here(list) {
		found[i].kept = here
	}
}

// readHit reads a record that was in the cache when it was planned. It returns false if the record is gone, or if such
// reads have turned out to be slow.
func (w *worker) readHit(r *record) (ok bool) {
	var wrong error
	defer func() { ok = ok && wrong == nil }() // the Fetcher meets the error too, and reports it
	defer fault.Recover(&wrong)
	hits := &w.loader.ahead.hits
	if hits.slow() {
		return false
	}
	room, err := w.buffer.Reserve(r.want.Length)
	if err != nil {
		return false // the Fetcher has memory, or reports why not
	}
	one := r.part(r.key, room)
	began := time.Now()
	if !w.loader.kept.Hit(&one) {
		// This counts as a slow read: if many records were evicted before they were read, the others should not be relied on.
		hits.workerRead(2 * slowRead)
		return false
	}
	r.took = time.Since(began)
	w.read(r.want.Length, r.took)
	hits.workerRead(one.Took)
	r.view = w.buffer.Part(0, r.want.Length)
	r.sample.HasCRC = false // the cache has compared it
	return true
}

// fetchAfterAll fetches a record that was not in the cache any more when a worker needed it. It is due now.
func (a *readAhead) fetchAfterAll(r *record) {
	l := a.loader
	l.mu.Lock()
	r.kept = false
	a.kept--
	if l.closing || r.draft.stream.cancelled.Load() {
		d := r.draft
		a.recycle(r)
		l.finish(d, 1)
		l.mu.Unlock()
		return
	}
	a.reading++
	a.fetcher.AddFirst(&r.want)
	l.mu.Unlock()
	a.fetcher.Request()
}
