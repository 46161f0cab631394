package parts

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// wanted is one part of so many bytes.
func wanted(offset, length int64) []Part {
	return []Part{{Key: KeyOf("object", offset, length), Sample: offset, Bytes: make([]byte, length)}}
}

// twoUsers returns two users of one job, which leave it when the test ends.
func twoUsers(t *testing.T) (c *Cache, first, second *User) {
	c = open(t, t.TempDir(), 8<<20)
	t.Cleanup(func() { c.Close() })
	plan := Plan{Bytes: 8 << 20, Dataset: "d", Job: "j"}
	first, second = c.Join(plan), c.Join(plan)
	t.Cleanup(first.Leave)
	t.Cleanup(second.Leave)
	return c, first, second
}

// readsUntil begins a user's read from a store that answers only when ctx ends. It returns once the store was asked;
// closed is closed when the read has ended.
func readsUntil(ctx context.Context, u *User, list []Part) (closed chan struct{}) {
	begun, closed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(closed)
		u.Read(ctx, list, func(ctx context.Context, _, _ int) error {
			close(begun)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	<-begun
	return closed
}

func TestAUserThatLeavesFinishesOnlyTheRequestsThatOthersWaitFor(t *testing.T) {
	c, first, second := twoUsers(t)
	ctx, cancel := context.WithCancel(context.Background())
	answer, asked := make(chan struct{}), make(chan error, 2)
	var requests atomic.Int64
	for _, offset := range []int64{0, 1 << 20} {
		list := wanted(offset, 5000)
		go func() {
			first.Read(ctx, list, func(ctx context.Context, _, _ int) error {
				requests.Add(1)
				select {
				case <-answer:
					content(offset, list[0].Bytes)
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			asked <- list[0].Err
		}()
	}
	require.Eventually(t, func() bool { return requests.Load() == 2 }, 10*time.Second, time.Millisecond)
	got := wanted(0, 5000)
	read := make(chan struct{})
	go func() {
		defer close(read)
		second.Read(context.Background(), got, func(context.Context, int, int) error { return errors.New("it is fetched twice") })
	}()
	require.Eventually(t, func() bool {
		found := uint32(0)
		c.with(func() {
			if e, _ := c.find(&got[0].Key); e != nil {
				found = e.waited
			}
		})
		return found == byOthers
	}, 10*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-asked, context.Canceled) // the request that nobody waits for
	close(answer)
	require.NoError(t, <-asked)
	<-read
	require.NoError(t, got[0].Err)
	want := make([]byte, 5000)
	content(0, want)
	require.Equal(t, want, got[0].Bytes)
	require.Equal(t, int64(2), requests.Load())
}

func TestAUserThatLeavesWaitsForAHangingStoreNoLongerThanOthersDo(t *testing.T) {
	_, first, second := twoUsers(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := readsUntil(ctx, first, wanted(0, 5000))
	list := wanted(0, 5000)
	second.look(list, true)
	cancel()
	select {
	case <-ended:
	case <-time.After(10 * patience):
		t.Fatal("the user still waits")
	}
}

func TestFillDoesNotWaitForAPartThatAnotherUserFetches(t *testing.T) {
	c, first, second := twoUsers(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	list := wanted(0, 5000)
	ended := readsUntil(ctx, first, list)
	for _, u := range []*User{first, second} {
		u.Fill(context.Background(), wanted(0, 5000), func(context.Context, int, int) error { return errors.New("it is fetched twice") })
	}
	var waited uint32
	c.with(func() {
		e, _ := c.find(&list[0].Key)
		waited = e.waited
	})
	require.Zero(t, waited)
	cancel()
	<-ended
}

func TestFilledPartsAreFetchedOnceAndFoundByPeek(t *testing.T) {
	c := open(t, t.TempDir(), 8<<20)
	defer c.Close()
	u := c.Join(Plan{Bytes: 8 << 20, Dataset: "d", Job: "j"})
	defer u.Leave()
	list := func() (list []Part) {
		for i := range int64(20) {
			list = append(list, Part{Key: KeyOf("points", i*3000, 3000), Sample: i, Bytes: make([]byte, 3000)})
		}
		return list
	}
	requests := 0
	fill := func(list []Part) {
		u.Fill(context.Background(), list, func(_ context.Context, from, to int) error {
			requests++
			for i := from; i < to; i++ {
				content(int64(i*3000), list[i].Bytes)
			}
			return nil
		})
	}
	one := list()[7:8]
	require.False(t, u.Peek(&one[0]))
	fill(list()[:5])
	fill(list())
	fill(list())
	require.Equal(t, 2, requests)
	require.True(t, u.Peek(&one[0]))
	want := make([]byte, 3000)
	content(7*3000, want)
	require.Equal(t, want, one[0].Bytes)
	_, err := c.data.WriteAt([]byte("other bytes"), 3072*7+100)
	require.NoError(t, err)
	require.False(t, u.Peek(&one[0]))
}

func TestAPartOfTheWholeDatasetStaysWhileTheDatasetIsUsed(t *testing.T) {
	c := open(t, t.TempDir(), 2<<20)
	defer c.Close()
	var s source
	after := func(sample int64, at uint64) uint64 { return at + 1000 - uint64(sample) }
	u := c.Join(Plan{Bytes: 2 << 20, Dataset: "d", Job: "j", After: after})
	s.one(t, u, Whole, 200_000, Never)
	for i := range int64(60) {
		s.one(t, u, i, 90_000, after(i, uint64(i)))
	}
	before := s.requests.Load()
	s.one(t, u, Whole, 200_000, Never)
	require.Equal(t, before, s.requests.Load())
	u.Leave()
	other := c.Join(Plan{Bytes: 2 << 20, Dataset: "e", Job: "k", After: after})
	defer other.Leave()
	for i := range int64(60) {
		s.one(t, other, 100+i, 90_000, after(i, uint64(i)))
	}
	before = s.requests.Load()
	s.one(t, other, Whole, 200_000, Never)
	require.Equal(t, before+1, s.requests.Load())
}

func TestACacheOpenedWithASmallerBoundHasFewerBucketsAndKeepsWhatFits(t *testing.T) {
	dir := t.TempDir()
	const large = 512 << 20
	c := open(t, dir, large)
	u := c.Join(Plan{Bytes: large, Dataset: "d", Job: "j"})
	var s source
	for i := range int64(20) {
		s.one(t, u, i, 20000, 0)
	}
	u.Leave()
	c.Close()
	const small = 2 << 20
	c = open(t, dir, small)
	defer c.Close()
	u = c.Join(Plan{Bytes: small, Dataset: "d", Job: "j"})
	defer u.Leave()
	status, err := os.Stat(filepath.Join(dir, filePrefix+"buckets"))
	require.NoError(t, err)
	require.Equal(t, 4*geometryOf(small).buckets, status.Size())
	for i := range int64(20) {
		s.one(t, u, i, 20000, 0)
	}
	require.Equal(t, int64(20), s.requests.Load())
	require.LessOrEqual(t, float64(allocated(t, dir)), 1.05*small)
}

func TestTheBoundOfAProcessThatDiedNoLongerCounts(t *testing.T) {
	c := open(t, t.TempDir(), 8<<20)
	defer c.Close()
	u := c.Join(Plan{Bytes: 8 << 20, Dataset: "d", Job: "j"})
	defer u.Leave()
	c.with(func() {
		c.head.slots[7].bound = 1 << 20 // nobody has its lock
		c.limit = withBlocks(geometryOf(1<<20), int64(c.head.blockBytes))
	})
	var s source
	for i := range int64(100) {
		s.one(t, u, i, 20000, 0)
	}
	require.Equal(t, int64(8<<20), c.limit.bound)
	require.Greater(t, u.Stats().Bytes, int64(1<<20))
}

func TestALaterSmallerBoundHarmsNeitherARequestUnderWayNorTheCache(t *testing.T) {
	dir := t.TempDir()
	const large, small = 64 << 20, 1 << 20
	c := open(t, dir, large)
	defer c.Close()
	u := c.Join(Plan{Bytes: large, Dataset: "d", Job: "j"})
	defer u.Leave()
	var s source
	// So that the next part's entry lies beyond the end of the smaller table.
	for i := range 2 * geometryOf(small).entries {
		s.one(t, u, i, 100, 0)
	}
	list := wanted(1<<50, 5000)
	begun, answer, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		u.Read(context.Background(), list, func(context.Context, int, int) error {
			close(begun)
			<-answer
			content(1<<50, list[0].Bytes)
			return nil
		})
	}()
	<-begun
	other := c.Join(Plan{Bytes: small, Dataset: "d", Job: "k"})
	c.with(func() {})
	status, err := os.Stat(filepath.Join(dir, filePrefix+"entries"))
	require.NoError(t, err)
	require.Less(t, status.Size()-4096, int64(list[0].at)*entryBytes,
		"the claim's entry is not beyond the end of the smaller table")
	close(answer)
	<-ended
	require.NoError(t, list[0].Err)
	s.one(t, other, 1<<20, 5000, 0)
	before := s.requests.Load()
	s.one(t, u, 1<<20, 5000, 0)
	require.Equal(t, before, s.requests.Load(), "the part was not kept")
	require.Empty(t, c.Warning())
	require.LessOrEqual(t, float64(allocated(t, dir)), 1.05*small)
	other.Leave()
}

func TestAClaimOfASlotsPreviousOwnerIsNotWaitedFor(t *testing.T) {
	c, first, second := twoUsers(t)
	list := wanted(0, 5000)
	second.look(list, true)
	require.Equal(t, mine, list[0].state)
	// A process that is killed leaves its claims behind, and the system releases its locks.
	c.mu.Lock()
	delete(c.users, second.number)
	c.mu.Unlock()
	require.NoError(t, unix.FcntlFlock(c.locks.Fd(), unix.F_SETLK, lockOf(unix.F_UNLCK, 1+int64(second.number))))
	successor := c.Join(Plan{Bytes: 8 << 20, Dataset: "d", Job: "j"})
	defer successor.Leave()
	require.Equal(t, second.number, successor.number)
	for _, u := range []*User{successor, first} {
		began := time.Now()
		var s source
		s.one(t, u, 0, 5000, 0)
		require.Less(t, time.Since(began), patience)
		require.Equal(t, int64(1-first.Stats().Hits), s.requests.Load())
	}
}

func TestACacheThatCouldNotGrowWhenALargerBoundCameGrowsLater(t *testing.T) {
	dir := t.TempDir()
	const small, large = 1 << 20, 64 << 20
	c := open(t, dir, small)
	defer c.Close()
	closed, err := os.Open(dir)
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	// As where there is no address space for a longer mapping.
	entries := c.entryTable.file
	c.entryTable.file = closed
	require.Same(t, c, open(t, dir, large))
	defer c.Close()
	c.entryTable.file = entries
	require.Equal(t, int64(small), c.own.bound)
	u := c.Join(Plan{Bytes: large, Dataset: "d", Job: "j"})
	defer u.Leave()
	c.with(func() {})
	require.Equal(t, int64(large), c.limit.bound)
	var s source
	for range 2 {
		for i := range int64(100) {
			s.one(t, u, i, 200_000, 0)
		}
	}
	require.Equal(t, int64(100), s.requests.Load())
}

// readsSlowly begins a user's reads of parts, each from a store that answers when the part's function is called. It
// returns once the store was asked for all. When the test ends, all are answered.
func readsSlowly(t *testing.T, u *User, offsets ...int64) (answers []context.CancelFunc) {
	var reads sync.WaitGroup
	var asked atomic.Int64
	for _, offset := range offsets {
		answered, answer := context.WithCancel(context.Background())
		answers = append(answers, answer)
		list := wanted(offset, 5000)
		reads.Go(func() {
			u.Read(context.Background(), list, func(context.Context, int, int) error {
				asked.Add(1)
				<-answered.Done()
				content(offset, list[0].Bytes)
				return nil
			})
		})
	}
	t.Cleanup(func() {
		for _, answer := range answers {
			answer()
		}
		reads.Wait()
	})
	require.Eventually(t, func() bool { return asked.Load() == int64(len(offsets)) }, 10*time.Second, time.Millisecond)
	return answers
}

func TestAPartThatTheUserItselfIsFetchingForLongIsNotFetchedTwice(t *testing.T) {
	_, first, _ := twoUsers(t)
	answers := readsSlowly(t, first, 0)
	time.AfterFunc(patience+patience/2, answers[0])
	var s source
	s.one(t, first, 0, 5000, 0)
	require.Zero(t, s.requests.Load())
}

func TestAPartOfAUserThatGoesOnFetchingOthersIsWaitedForLongerThanOneThatDoesNothing(t *testing.T) {
	for _, goesOn := range []bool{true, false} {
		_, first, second := twoUsers(t)
		answers := readsSlowly(t, first, 0, 1<<20, 2<<20)
		// The part that the other user waits for comes last.
		time.AfterFunc(patience+patience/2, answers[0])
		if goesOn {
			time.AfterFunc(patience/2, answers[1])
			time.AfterFunc(patience, answers[2])
		}
		var s source
		s.one(t, second, 0, 5000, 0)
		require.Equal(t, goesOn, s.requests.Load() == 0)
	}
}

func TestAPartWhoseFetchDoesNotEndIsWaitedForOnlySoLong(t *testing.T) {
	before := longest
	longest = patience + patience/4
	t.Cleanup(func() { longest = before })
	_, first, _ := twoUsers(t)
	readsSlowly(t, first, 0)
	var s source
	began := time.Now()
	s.one(t, first, 0, 5000, 1)
	require.Equal(t, int64(1), s.requests.Load())
	require.Greater(t, time.Since(began), patience)
}
