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

// Want is a range to be fetched. The fields in front are its user's, Bytes, Err and Took the Fetcher's; it
// must stay where it is from Add until Free or Drop.
type Want struct {
	Owner          any
	Source         Source
	Offset, Length int64
	// Direct reads what is no range of a Source, into memory of the user's own; Length is what it
	// counts with.
	Direct func(ctx context.Context) error
	// Urgent is true of what AddFirst was given.
	Urgent bool

	Bytes []byte
	Err   error
	Took  time.Duration // the request; zero for those that shared it with another

	state  state
	turn   int64 // its place among all that were added
	passed bool  // all before it were requested
	at     int64 // in the arena
	own    mmap.Buffer
	where  where
}

type state uint8

const (
	idle    state = iota // not the Fetcher's
	pending              // not requested
	taken                // requested, or read and not yet given back
)

// where the bytes of a Want stand.
type where uint8

const (
	nowhere where = iota
	inArena
	inOwn // one that has to be read though there is no room
	counted
)

// Options of a Fetcher.
type Options struct {
	Bytes    int64 // of memory
	Requests int   // in flight
	// First Wants are waited for: what comes behind them is requested when half of them have come, and until
	// then they have the link for themselves.
	First int64
	// Gap is how many bytes between two neighbours are read rather than a second request sent.
	Gap int64
	// Between says whether anything lies between two neighbours that must not be read with them; nil: nothing.
	Between func(a, b *Want) bool
	// Request is what a request of several may have.
	Request int64
	// Done takes each Want that was requested, from any goroutine.
	Done func(*Want)
	// Read takes the place of Source.ReadAt where some of the bytes may come from elsewhere: it fills the Bytes of
	// neighbours, which lie in to, sets their Err, and says how many requests that took.
	Read func(ctx context.Context, group []*Want, to []byte, offset int64) (requests int)
	// Retries are those of all requests until now; nil where nobody counts.
	Retries func() int64
}

// Fetcher is safe for any number of goroutines.
type Fetcher struct {
	options Options

	mu       sync.Mutex
	arena    arena
	direct   int64 // bytes that Direct reads count with
	own      int64 // bytes of memory of Wants' own
	order    []due // as added, from the first that is still to be requested
	turns    int64 // so many were added
	began    int64 // turns at the last Drop
	waited   int64 // of the first Wants behind it, how many have come
	beside   map[Source][]*Want
	early    int64 // bytes of Wants that were requested before their turn
	before   int   // Wants behind which the first of order stands, and that are not given back
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

// due is a Want's turn. One that was requested before it may be given back and added again meanwhile: its
// turn is another one then.
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

// AddFirst is Add for what is wanted before all others but those that were added so, too. The others may hold the memory
// that it would need and wait for it: it has memory of its own then, of which all such have an eighth of the arena's or
// one has what it needs.
func (f *Fetcher) AddFirst(w *Want) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Urgent = true
	behind := 0 // those that were added so before it
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

// Request sends what may be sent now. What may be sent later, Free and answers send.
func (f *Fetcher) Request() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.request()
}

// Free gives back what was read of a Want that Done has had.
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

// Drop forgets what was not requested yet, and returns it; requests under way end soon, and Done has
// their Wants.
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

// Stop ends what is under way, and nothing is requested any more. Close follows when nobody uses a
// Want's bytes.
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
