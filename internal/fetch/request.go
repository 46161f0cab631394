package fetch

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/headrace/headrace/internal/fault"
)

// pass notes that nothing before a requested Want is still to be requested; the caller holds the lock.
func (f *Fetcher) pass(w *Want) {
	if !w.passed {
		w.passed = true
		f.early -= w.Length
		f.before++
	}
}

// request sends requests as long as there is room; the caller holds the lock.
func (f *Fetcher) request() {
	for !f.closed {
		for len(f.order) > 0 && !f.order[0].is(pending) {
			if f.order[0].is(taken) {
				f.pass(f.order[0].want)
			}
			f.order[0].want = nil // the array outlives the slice
			f.order = f.order[1:]
		}
		if len(f.order) == 0 {
			return
		}
		if f.flying >= f.link.limit {
			f.link.bound = true
			return
		}
		if first := f.order[0].want; !first.Urgent && !f.isFirst(first) && 2*f.waited < f.options.First {
			return
		}
		if !f.send(f.order[0].want) {
			return
		}
	}
}

// isFirst is true for the Wants that have the link for themselves at the beginning, since the last Drop.
func (f *Fetcher) isFirst(w *Want) bool { return w.turn > f.began && w.turn-f.began <= f.options.First }

// count notes a Want that was read, or that cannot be; the caller holds the lock.
func (f *Fetcher) count(w *Want) {
	if f.isFirst(w) {
		f.waited++
	}
}

// send requests the first Want, together with neighbours if there is room for them.
func (f *Fetcher) send(first *Want) bool {
	if first.Direct != nil {
		// These bytes are counted apart from the arena, because such records are either rare or all that there are.
		if f.direct > 0 && f.direct+first.Length > f.options.Bytes && f.before > 0 {
			return false
		}
		f.direct += first.Length
		f.take(first, counted, 0)
		f.start([]*Want{first}, nil, 0)
		return true
	}
	list := f.beside[first.Source]
	alone := position(list, first)
	if f.arena.memory == nil {
		if err := f.arena.open(f.options.Bytes); err != nil {
			f.remove(first.Source, list, alone, alone+1)
			f.hand(first, err)
			return true
		}
	}
	from, to := f.neighbours(list, alone)
	group := slices.Clone(list[from:to])
	begin, end := extent(group)
	at, ok := f.arena.take(end - begin)
	if !ok && len(group) > 1 {
		group, from, to = []*Want{first}, alone, alone+1
		begin, end = extent(group)
		at, ok = f.arena.take(end - begin)
	}
	where := inArena
	if !ok {
		// Whoever holds memory gives it back while some earlier Want can still be used. If all memory holds Wants after this
		// one, nobody can use any of them, and none is given back. Then this one gets its own memory.
		urgent := first.Urgent && (f.own == 0 || f.own+first.Length <= f.options.Bytes/8)
		if f.before > 0 && !urgent {
			return false
		}
		room, err := first.own.Reserve(first.Length)
		if err != nil {
			f.remove(first.Source, list, from, to)
			f.hand(first, err)
			return true
		}
		first.Bytes, where = room, inOwn
		f.own += first.Length
	}
	f.remove(first.Source, list, from, to)
	for _, w := range group {
		f.take(w, where, at+w.Offset-begin)
		if where == inArena {
			w.Bytes = f.arena.memory[w.at : w.at+w.Length : w.at+w.Length]
		}
		if w != first {
			f.merged++
		}
	}
	whole := first.Bytes
	if where == inArena {
		whole = f.arena.memory[at : at+end-begin]
	}
	f.start(group, whole, begin)
	return true
}

// position returns the place of a pending Want among those of its object.
func position(list []*Want, w *Want) int {
	i, _ := slices.BinarySearchFunc(list, w, byOffset)
	for list[i] != w { // several Wants have one offset if a sample occurs twice
		i++
	}
	return i
}

// neighbours returns the range of pending Wants of an object that one request should read together with one of them. Of
// those that are due only after all requests that may be in flight, no more bytes are read than have come since the
// first Want. Otherwise, in a small dataset everything is near something, and the first batch would wait for all of it.
func (f *Fetcher) neighbours(list []*Want, alone int) (from, to int) {
	first := list[alone]
	from, to = alone, alone+1
	begin, end := first.Offset, first.Offset+first.Length
	// At most half of the memory is for Wants that are not due; otherwise those that are due would wait for it.
	room := f.options.Bytes/2 - f.early
	later := min(room, f.came-f.early)
	fits := func(w *Want, begin, end int64) bool {
		if end-begin > f.options.Request || w.Length > room {
			return false
		}
		if first.Urgent && !w.Urgent || w.turn-first.turn >= int64(f.link.limit) {
			if w.Length > later {
				return false
			}
			later -= w.Length
		}
		room -= w.Length
		return true
	}
	for to < len(list) && f.near(list[to-1], list[to]) &&
		fits(list[to], begin, list[to].Offset+list[to].Length) {
		end = list[to].Offset + list[to].Length
		to++
	}
	for from > 0 && f.near(list[from-1], list[from]) && fits(list[from-1], list[from-1].Offset, end) {
		from--
	}
	return from, to
}

// near is true for two Wants with a gap that is read instead of sending a second request.
func (f *Fetcher) near(a, b *Want) bool {
	gap := b.Offset - a.Offset - a.Length
	return gap >= 0 && gap <= f.options.Gap && (f.options.Between == nil || !f.options.Between(a, b))
}

// remove removes Wants that are being requested.
func (f *Fetcher) remove(source Source, list []*Want, from, to int) {
	if list = slices.Delete(list, from, to); len(list) == 0 {
		delete(f.beside, source)
		return
	}
	f.beside[source] = list
}

// trim frees the gaps between neighbours, when nothing is written there any more.
func (f *Fetcher) trim(group []*Want) {
	for i := 1; i < len(group); i++ {
		end := group[i-1].at + group[i-1].Length
		f.arena.give(end, group[i].at-end)
	}
}

// extent returns the range from the first byte of neighbours to the end of the last.
func extent(group []*Want) (begin, end int64) {
	last := group[len(group)-1]
	return group[0].Offset, last.Offset + last.Length
}

// take marks a Want as requested. It counts as early until its turn comes.
func (f *Fetcher) take(w *Want, where where, at int64) {
	w.state, w.where, w.at = taken, where, at
	f.early += w.Length
}

// start reads in its own goroutine, which waits for the network and not in the kernel.
func (f *Fetcher) start(group []*Want, to []byte, offset int64) {
	f.flying++
	f.requests++
	ctx := f.ctx
	f.group.Go(func() {
		began := time.Now()
		asked, err := f.read(ctx, group, to, offset)
		now := time.Now()
		f.mu.Lock()
		f.flying--
		bytes := int64(0)
		for _, w := range group {
			w.Err = cmp.Or(err, w.Err)
			bytes += w.Length
			f.count(w)
		}
		group[0].Took = now.Sub(began)
		f.trim(group)
		f.came += bytes
		if asked {
			f.link.answer(now, bytes)
		}
		f.request()
		f.mu.Unlock()
		for _, w := range group {
			f.options.Done(w)
		}
	})
}

// read does what a request is for, and says whether the store was asked.
func (f *Fetcher) read(ctx context.Context, group []*Want, to []byte, offset int64) (asked bool, err error) {
	defer fault.Recover(&err)
	switch {
	case group[0].Direct != nil:
		return true, group[0].Direct(ctx)
	case f.options.Read != nil:
		return f.options.Read(ctx, group, to, offset) > 0, nil
	}
	return true, group[0].Source.ReadAt(ctx, to, offset)
}

// hand ends a Want that cannot be requested.
func (f *Fetcher) hand(w *Want, err error) {
	f.take(w, nowhere, 0)
	w.Err = err
	f.count(w)
	f.group.Go(func() { f.options.Done(w) })
}
