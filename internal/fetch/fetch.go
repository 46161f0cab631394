package fetch

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/headrace/headrace/mmap"
)

// Source is an object that ranges are read of. Two Wants of the same one may share a request.
type Source interface {
	ReadAt(ctx context.Context, to []byte, offset int64) error
}

// Want is a range to be fetched. The user fills the fields up to Direct; the Fetcher fills the others, and the user reads
// Urgent, Bytes, Err and Took. The Want must not move between Add and Free or Drop.
type Want struct {
	Owner          any
	Source         Source
	Offset, Length int64
	// Direct, if set, is called instead of a read of Source. It reads into memory of the user's own, and Length is how
	// much of Options.Bytes it counts as.
	Direct func(ctx context.Context) error
	// Urgent says that the Want was added by AddFirst.
	Urgent bool

	Bytes []byte
	Err   error
	Took  time.Duration // how long the request took; zero for all but one of those that shared it

	state  state
	turn   int64 // its number among all Wants in the order in which they were added
	passed bool  // all Wants before it were requested
	at     int64 // where its bytes begin in the arena
	own    mmap.Buffer
	where  where
}

type state uint8

const (
	idle    state = iota // not added, or given back
	pending              // added and not requested
	taken                // requested, or read and not yet given back
)

// where says in which memory the bytes of a Want are.
type where uint8

const (
	nowhere where = iota
	inArena
	inOwn   // in memory of its own: it had to be read though the arena had no room
	counted // in memory of the user's (Direct)
)

// Options of a Fetcher.
type Options struct {
	Bytes    int64 // of memory for what was read
	Requests int   // in flight at once, at most
	// First is how many Wants have the link for themselves at the beginning: the next ones are requested only when half
	// of them have come.
	First int64
	// Gap is the most bytes between two neighbours that are read along, so that one request fetches both.
	Gap int64
	// Between says whether anything lies between two neighbours that must not be read with them; nil: nothing.
	Between func(a, b *Want) bool
	// Request is the most bytes of a request for several Wants.
	Request int64
	// Done is called with each Want once it was read or failed, from any goroutine.
	Done func(*Want)
	// Read, if set, is called instead of Source.ReadAt, because some of the bytes may come from elsewhere, such as a cache.
	// It fills the Bytes of neighbours, which lie in to, sets their Err, and returns how many requests it sent.
	Read func(ctx context.Context, group []*Want, to []byte, offset int64) (requests int)
	// Retries returns how often all requests until now were retried; nil if nobody counts.
	Retries func() int64
}

// Fetcher is safe for any number of goroutines.
type Fetcher struct {
	options Options

	mu       sync.Mutex
	arena    arena
	direct   int64 // bytes of Direct reads under way or not given back
	own      int64 // bytes of Wants that have memory of their own
	order    []due // in the order in which they were added, from the first that is not requested
	turns    int64 // how many were added
	began    int64 // turns at the last Drop
	waited   int64 // how many of the first Wants after it have come
	beside   map[Source][]*Want
	early    int64 // bytes of Wants that were requested before their turn
	before   int   // Wants before the first of order that are not given back
	flying   int
	link     link
	came     int64 // bytes read since the first Want, or the last Drop
	requests int64
	merged   int64

	ctx    context.Context // of the Wants since the last Drop
	cancel context.CancelFunc
	closed bool
	group  sync.WaitGroup
}

// due is a Want's turn. A Want that was requested before its turn may be given back and added again meanwhile. Then it has
// another turn, and this due does not count.
type due struct {
	want *Want
	turn int64
}

func (d due) is(s state) bool { return d.want.turn == d.turn && d.want.state == s }

// New makes a Fetcher that has neither memory nor a goroutine before the first Want.
func New(o Options) *Fetcher {
	f := &Fetcher{options: o, beside: make(map[Source][]*Want), link: link{limit: min(firstRequests, o.Requests), most: o.Requests, retries: o.Retries}}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// Add appends what is wanted next. Request sends requests out.
func (f *Fetcher) Add(w *Want) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Urgent = false
	f.order = append(f.order, f.pend(w))
}

// AddFirst adds a Want before all others, except those that AddFirst added earlier. If the others hold all memory, and can
// only be given back after this one was read, it gets memory of its own. All such memory together is an eighth of the
// arena, or what a single Want needs.
func (f *Fetcher) AddFirst(w *Want) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Urgent = true
	behind := 0 // how many AddFirst has added before
	for behind < len(f.order) && f.order[behind].is(pending) && f.order[behind].want.Urgent {
		behind++
	}
	f.order = slices.Insert(f.order, behind, f.pend(w))
}

// pend makes a Want pending.
func (f *Fetcher) pend(w *Want) due {
	f.turns++
	w.Bytes, w.Err, w.Took, w.state, w.turn, w.passed, w.where = nil, nil, 0, pending, f.turns, false, nowhere
	if w.Direct == nil {
		list := f.beside[w.Source]
		i, _ := slices.BinarySearchFunc(list, w, byOffset)
		f.beside[w.Source] = slices.Insert(list, i, w)
	}
	return due{w, w.turn}
}

func byOffset(a, b *Want) int { return cmp.Compare(a.Offset, b.Offset) }

// Request sends the requests that may be sent now. Later ones are sent when an answer comes or Free gives memory back.
func (f *Fetcher) Request() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.request()
}

// Free gives back the memory of a Want with which Done was called.
func (f *Fetcher) Free(w *Want) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.state != taken {
		return
	}
	switch w.where {
	case inArena:
		f.arena.give(w.at, w.Length)
	case inOwn:
		w.own.Free()
		f.own -= w.Length
	case counted:
		f.direct -= w.Length
	}
	if w.passed {
		f.before--
	} else {
		f.early -= w.Length
	}
	w.state, w.where, w.Bytes = idle, nowhere, nil
	f.request()
}

// Drop forgets the Wants that were not requested yet, and returns them. It cancels the requests under way; Done is called
// with their Wants.
func (f *Fetcher) Drop() []*Want {
	f.mu.Lock()
	defer f.mu.Unlock()
	var dropped []*Want
	for _, d := range f.order {
		switch {
		case d.is(pending):
			d.want.state = idle
			dropped = append(dropped, d.want)
		case d.is(taken): // requested before its turn, which will not come
			f.pass(d.want)
		}
	}
	f.order, f.came, f.began, f.waited = nil, 0, f.turns, 0
	clear(f.beside)
	f.cancel()
	f.ctx, f.cancel = context.WithCancel(context.Background())
	if f.closed {
		f.cancel()
	}
	return dropped
}

// Stop cancels the requests under way and sends no more. Close may be called once nobody uses a Want's bytes.
func (f *Fetcher) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.cancel()
}

// Close waits for the last request and gives the memory back.
func (f *Fetcher) Close() {
	f.Stop()
	f.group.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.arena.close()
}

// Counts say how many requests were sent, and how many Wants shared another one's.
func (f *Fetcher) Counts() (requests, merged int64, atOnce int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests, f.merged, f.link.limit
}
