package fetch

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/mmap"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// object is a Source whose byte i is i modulo 251.
type object struct {
	mu       sync.Mutex
	requests [][2]int64
	gate     chan struct{} // nil if answers come at once
	fails    error
	flying   atomic.Int64
	most     atomic.Int64
}

func (o *object) ReadAt(ctx context.Context, to []byte, offset int64) error {
	n := o.flying.Add(1)
	defer o.flying.Add(-1)
	for most := o.most.Load(); n > most && !o.most.CompareAndSwap(most, n); most = o.most.Load() {
	}
	o.mu.Lock()
	o.requests = append(o.requests, [2]int64{offset, int64(len(to))})
	o.mu.Unlock()
	if o.gate != nil {
		select {
		case <-o.gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for i := range to {
		to[i] = byte((offset + int64(i)) % 251)
	}
	return o.fails
}

func (o *object) seen() [][2]int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([][2]int64{}, o.requests...)
}

// fetching makes a Fetcher whose Wants arrive in a channel, and closes it after the test, when no buffer may be left.
func fetching(t *testing.T, o Options) (*Fetcher, chan *Want) {
	before := mmap.BufferBytes()
	arrived := make(chan *Want, 1<<16)
	o.Done = func(w *Want) { arrived <- w }
	if o.Requests == 0 {
		o.Requests = 8
	}
	f := New(o)
	t.Cleanup(func() {
		f.Close()
		assert.Equal(t, before, mmap.BufferBytes())
	})
	return f, arrived
}

func next(t *testing.T, arrived chan *Want) *Want {
	t.Helper()
	select {
	case w := <-arrived:
		return w
	case <-time.After(20 * time.Second):
		require.FailNow(t, "nothing arrived")
		return nil
	}
}

func holds(t *testing.T, w *Want) {
	t.Helper()
	require.NoError(t, w.Err)
	require.Len(t, w.Bytes, int(w.Length))
	for i := range w.Bytes {
		if w.Bytes[i] != byte((w.Offset+int64(i))%251) {
			require.FailNow(t, "a wrong byte", "offset %d", w.Offset+int64(i))
		}
	}
}

type broken struct{}

func (broken) ReadAt(context.Context, []byte, int64) error { panic("a bug") }

func TestAPanicInAReadIsAnInternalErrorOfItsWant(t *testing.T) {
	f, arrived := fetching(t, Options{Bytes: 1 << 20})
	f.Add(&Want{Source: broken{}, Length: 10})
	f.Request()
	w := next(t, arrived)
	require.ErrorContains(t, w.Err, "panic: a bug")
	assert.Equal(t, fault.KindInternal, fault.KindOf(w.Err))
}

func TestNeighboursShareARequestAndTheGapBetweenThemIsNotKept(t *testing.T) {
	from := new(object)
	f, arrived := fetching(t, Options{Bytes: 1 << 20, Gap: 64, Request: 1 << 16})
	for _, at := range []int64{1000, 5000, 0, 2050, 1500} {
		f.Add(&Want{Source: from, Offset: at, Length: 500})
	}
	f.Request()
	for range 5 {
		holds(t, next(t, arrived))
	}
	assert.ElementsMatch(t, [][2]int64{{1000, 1550}, {5000, 500}, {0, 500}}, from.seen())
	f.mu.Lock()
	free := int64(0)
	for _, s := range f.arena.free {
		free += s.length
	}
	f.mu.Unlock()
	assert.EqualValues(t, 1<<20-5*500, free)
}

func TestNeighboursAreNotReadTogetherBeforeTheFirstRequestsAreAnswered(t *testing.T) {
	from := &object{gate: make(chan struct{})}
	f, arrived := fetching(t, Options{Bytes: 1 << 20, Request: 1 << 16, Requests: 2})
	// The first two fill the requests in flight; their neighbours come later in the order.
	for _, at := range []int64{0, 5000, 9000, 500, 5500, 9500, 1000} {
		f.Add(&Want{Source: from, Offset: at, Length: 500})
	}
	f.Request()
	require.Eventually(t, func() bool { return len(from.seen()) == 2 }, 20*time.Second, time.Millisecond)
	assert.ElementsMatch(t, [][2]int64{{0, 500}, {5000, 500}}, from.seen())
	close(from.gate)
	for range 7 {
		holds(t, next(t, arrived))
	}
	assert.Less(t, len(from.seen()), 7, "neighbours share requests once the first ones are answered")
}

func TestMemoryAndConcurrentRequestsStayWithinTheirBounds(t *testing.T) {
	from := new(object)
	const most = 10_000
	f, arrived := fetching(t, Options{Bytes: most, Requests: 3, Gap: 100, Request: 2000})
	draw := rand.New(rand.NewPCG(1, 2))
	const count = 2000
	for range count {
		f.Add(&Want{Source: from, Offset: draw.Int64N(1 << 20), Length: 1 + draw.Int64N(1000)})
	}
	f.Request()
	held := []*Want{}
	for range count {
		w := next(t, arrived)
		holds(t, w)
		// The wants are freed in another order than they arrived in, some of them late.
		if held = append(held, w); len(held) > 2 {
			i := draw.IntN(len(held))
			f.Free(held[i])
			held = append(held[:i], held[i+1:]...)
		}
		f.mu.Lock()
		for _, w := range held {
			assert.LessOrEqual(t, w.at+w.Length, int64(most))
		}
		f.mu.Unlock()
	}
	for _, w := range held {
		f.Free(w)
	}
	assert.LessOrEqual(t, from.most.Load(), int64(3))
	assert.Equal(t, []span{{0, most}}, f.arena.free)
	assert.Zero(t, f.before)
	assert.Zero(t, f.early)
}

func TestARecordLargerThanTheMemoryIsReadAlone(t *testing.T) {
	from := new(object)
	f, arrived := fetching(t, Options{Bytes: 1000, Gap: 0, Request: 1 << 20})
	// The first record is larger than the memory. One record may always be read.
	f.Add(&Want{Source: from, Offset: 0, Length: 5000})
	f.Add(&Want{Source: from, Offset: 9000, Length: 400})
	f.Request()
	for range 2 { // in any order
		w := next(t, arrived)
		holds(t, w)
		f.Free(w)
	}
}

func TestUrgentWantsAreReadEvenIfEarlierWantsHoldAllMemory(t *testing.T) {
	gated := &object{gate: make(chan struct{})}
	f, arrived := fetching(t, Options{Bytes: 1000, First: 4, Gap: 0, Request: 1 << 20})
	held := &Want{Source: new(object), Length: 800}
	waits := &Want{Source: new(object), Length: 800}
	slow := &Want{Source: gated, Length: 100}
	for _, w := range []*Want{held, slow, waits} {
		f.Add(w)
	}
	f.Request()
	holds(t, next(t, arrived)) // and is not freed: its user waits for the urgent ones below
	from := new(object)
	beside := &Want{Source: from, Offset: 777, Length: 10} // which is not due yet
	f.Add(beside)
	urgent := []*Want{{Source: from, Offset: 77, Length: 700}, {Source: new(object), Offset: 5, Length: 700}}
	f.AddFirst(urgent[0])
	f.AddFirst(urgent[1])
	f.Request()
	for i, one := range urgent {
		w := next(t, arrived)
		require.True(t, w == one, "urgent wants come next, in the order of their AddFirst")
		holds(t, w)
		require.Len(t, arrived, 0, "only one urgent want at a time has memory beyond the bound")
		require.Equal(t, int64(700), f.own)
		f.Free(urgent[i])
	}
	assert.Equal(t, [][2]int64{{77, 700}}, from.seen(), "a want that is not due is not read with an urgent one")
	assert.Zero(t, f.own)
	close(gated.gate)
	for range 3 {
		f.Free(held)
		held = next(t, arrived)
		holds(t, held)
	}
	f.Free(held)
	assert.Zero(t, f.before)
	assert.Zero(t, f.early)
}

func TestAReusedWantIsReadInTheOrderOfItsSecondAdd(t *testing.T) {
	f, arrived := fetching(t, Options{Bytes: 1000, Gap: 0, Request: 1 << 20})
	first, second, fourth, last := new(object), new(object), new(object), new(object)
	due := []*Want{{Source: first, Length: 600}, {Source: second, Length: 600}, {Source: first, Offset: 600, Length: 100}, {Source: fourth, Length: 800}}
	for _, w := range due {
		f.Add(w)
	}
	f.Request()
	for range 2 { // the first, and the third with it; there is no memory for the second
		holds(t, next(t, arrived))
	}
	early := due[2]
	f.Free(early)
	early.Source, early.Offset, early.Length = last, 0, 300
	f.Add(early)
	f.Free(due[0])
	w := next(t, arrived)
	require.True(t, w == due[1], "the second comes first")
	f.Free(w)
	// If the reused want had kept its old turn, it would hold memory that the fourth needs.
	w = next(t, arrived)
	require.True(t, w == due[3], "the fourth comes next")
	holds(t, w)
	f.Free(w)
	w = next(t, arrived)
	require.True(t, w == early)
	holds(t, w)
	f.Free(w)
	assert.Zero(t, f.before)
	assert.Zero(t, f.early)
}

func TestDropRemovesWaitingWantsAndCancelsRequestsUnderWay(t *testing.T) {
	from := &object{gate: make(chan struct{})}
	f, arrived := fetching(t, Options{Bytes: 1 << 20, Requests: 2})
	for i := range int64(10) {
		f.Add(&Want{Source: from, Offset: i * 10_000, Length: 100})
	}
	f.Request()
	assert.Len(t, f.Drop(), 8)
	for range 2 {
		w := next(t, arrived)
		require.ErrorIs(t, w.Err, context.Canceled)
		f.Free(w)
	}
	close(from.gate)
	f.Add(&Want{Source: from, Offset: 77, Length: 100})
	f.Request()
	holds(t, next(t, arrived))
}

func TestAnErrorIsThatOfEveryWantInItsRequestAndOfNoOther(t *testing.T) {
	bad, good := &object{fails: errors.New("gone")}, new(object)
	f, arrived := fetching(t, Options{Bytes: 1 << 20, Gap: 10, Request: 1 << 16})
	f.Add(&Want{Source: bad, Offset: 0, Length: 10})
	f.Add(&Want{Source: bad, Offset: 10, Length: 10})
	f.Add(&Want{Source: good, Offset: 20, Length: 10})
	f.Request()
	for range 3 {
		if w := next(t, arrived); w.Source == Source(good) {
			holds(t, w)
		} else {
			assert.EqualError(t, w.Err, "gone")
		}
	}
}

func TestAWantThatFailedWithoutMemoryIsNotReadAgainWithALaterNeighbour(t *testing.T) {
	f, arrived := fetching(t, Options{Bytes: 1 << 60, Gap: 64, Request: 1 << 16})
	o := &object{}
	first, second := &Want{Source: o, Offset: 100, Length: 50}, &Want{Source: o, Offset: 150, Length: 50}
	f.Add(first)
	f.Request()
	require.Error(t, next(t, arrived).Err)
	f.Free(first)
	f.mu.Lock()
	f.options.Bytes = 1 << 20
	f.mu.Unlock()
	f.Add(second)
	f.Request()
	holds(t, next(t, arrived))
	f.Free(second)
	require.Equal(t, [][2]int64{{150, 50}}, o.seen())
}

func TestTheRequestLimitGrowsWhileTheRateDoesAndHalvesWhenTheStoreRefuses(t *testing.T) {
	now := time.Unix(0, 0)
	refused := int64(0)
	l := link{limit: 4, most: 100, retries: func() int64 { return refused }}
	round := func(rate float64, retries int64) {
		refused += retries
		count := l.limit
		for range count {
			l.bound = true
			now = now.Add(time.Duration(1000 / rate * float64(time.Second)))
			l.answer(now, 1000)
		}
	}
	l.answer(now, 1000)
	round(1e6, 0)
	assert.Equal(t, 8, l.limit, "twice as many after the first round")
	for _, rate := range []float64{2e6, 3e6} {
		round(rate, 0)
	}
	assert.Equal(t, 18, l.limit)
	round(3e6, 0)
	assert.Equal(t, 18, l.limit, "the link is full")
	round(3e6, 10)
	assert.Equal(t, 9, l.limit, "the store refuses")
}

func TestNeighboursWithAnotherSampleBetweenThemShareNoRequest(t *testing.T) {
	from := new(object)
	between := func(a, b *Want) bool { return b.Owner.(int)-a.Owner.(int) != 1 }
	f, arrived := fetching(t, Options{Bytes: 1 << 20, Gap: 64, Request: 1 << 16, Between: between})
	for _, i := range []int{4, 1, 2, 6, 5} {
		f.Add(&Want{Owner: i, Source: from, Offset: int64(i) * 50, Length: 40})
	}
	f.Request()
	for range 5 {
		holds(t, next(t, arrived))
	}
	assert.ElementsMatch(t, [][2]int64{{200, 140}, {50, 90}}, from.seen())
}

func TestTheFirstWantsAreRequestedAloneUntilHalfOfThemHaveArrived(t *testing.T) {
	var answers [20]chan struct{}
	var asked [20]atomic.Bool
	f, arrived := fetching(t, Options{Bytes: 1 << 20, Requests: 64, First: 4})
	add := func() {
		for i := range answers {
			answers[i] = make(chan struct{})
			asked[i].Store(false)
			f.Add(&Want{Length: 10, Direct: func(context.Context) error {
				asked[i].Store(true)
				<-answers[i]
				return nil
			}})
		}
		f.Request()
	}
	are := func(count int) func() bool {
		return func() bool {
			n := 0
			for i := range asked {
				if asked[i].Load() {
					n++
				}
			}
			return n == count
		}
	}
	for range 2 { // the second time after a Drop
		add()
		require.Eventually(t, are(4), 10*time.Second, time.Millisecond)
		close(answers[2])
		next(t, arrived)
		require.Never(t, func() bool { return !are(4)() }, 50*time.Millisecond, 5*time.Millisecond)
		close(answers[0])
		next(t, arrived)
		require.Eventually(t, are(20), 10*time.Second, time.Millisecond)
		for i := range answers {
			if i != 0 && i != 2 {
				close(answers[i])
				next(t, arrived)
			}
		}
		f.Drop()
	}
}
