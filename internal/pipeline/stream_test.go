package pipeline

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/mmap"
)

func TestTheStreamIsTheSameForAnyThreadsPrefetchAndBackend(t *testing.T) {
	d := dataset(t, 117, nil)
	want := ""
	for _, backend := range []mmap.Backend{mmap.Mapped, mmap.Pread} {
		for _, threads := range []int{1, 2, 3, 8} {
			for _, prefetch := range []int{1, 2, 8} {
				l := open(t, d, settings{order.Config{Seed: 5, BatchSize: 10, Shuffle: true},
					Config{Threads: threads, Prefetch: prefetch, VerifyCRC: true, Store: mmap.Options{Backend: backend}}})
				got := consume(t, l, 2).hash
				if want == "" {
					want = got
				}
				require.Equal(t, want, got, "%d threads, prefetch %d, %v", threads, prefetch, backend)
				l.Close()
			}
		}
	}
}

func TestTheStreamIsTheSameWhenReadersReadAhead(t *testing.T) {
	d := dataset(t, 60, nil)
	s := settings{order.Config{Seed: 5, BatchSize: 7, Shuffle: true}, Config{Threads: 2}}
	want := consume(t, open(t, d, s), 2)
	for _, depth := range []int{1, 3, 64} {
		s.Store.ReadDelay, s.ReadAhead = 10*time.Millisecond, depth
		if depth == 1 {
			s.Store.ReadDelay = 4 * time.Millisecond
		}
		l := open(t, d, s)
		require.Equal(t, want, consume(t, l, 2), "depth %d", depth)
		require.True(t, l.Stats().ReadingAhead)
	}
}

func TestTheBytesReadAheadAreBoundedWithoutADeadlock(t *testing.T) {
	d := dataset(t, 60, nil)
	s := settings{order.Config{Seed: 5, BatchSize: 3, Shuffle: true}, Config{Threads: 2}}
	want := consume(t, open(t, d, s), 2)
	for _, most := range []int64{1, 5_000, 20_000} { // a record has 1 to 5 kB
		s.Store.ReadDelay, s.ReadAhead = 4*time.Millisecond, 32
		l := open(t, d, s)
		l.mu.Lock()
		l.ahead.most = most
		l.mu.Unlock()
		over, ended := int64(0), make(chan struct{})
		go func() {
			defer close(ended)
			for seen := int64(0); seen < 120; seen = l.Stats().Samples {
				l.mu.Lock()
				records := 0
				for _, r := range l.ahead.all {
					if r.budget > 0 {
						records++
					}
				}
				if records > 1 { // one may always be read
					over = max(over, l.ahead.bytes-most)
				}
				l.mu.Unlock()
				time.Sleep(100 * time.Microsecond)
			}
		}()
		require.Equal(t, want, consume(t, l, 2))
		<-ended
		require.LessOrEqual(t, over, int64(0))
	}
}

func TestEverySampleIsDeliveredExactlyOnceWithItsLabel(t *testing.T) {
	d := dataset(t, 53, nil)
	for _, world := range []int64{1, 2, 3, 8} {
		for _, batch := range []int64{1, 4, 256} {
			for _, drop := range []bool{false, true} {
				seen := map[int64]int{}
				for rank := range world {
					l := open(t, d, settings{order: order.Config{BatchSize: batch, Rank: rank, WorldSize: world, DropLast: drop, Shuffle: true}})
					collect(t, l, seen)
				}
				want := int64(53)
				if drop {
					want -= want % (batch * world)
				}
				require.EqualValues(t, want, len(seen))
				for sample, times := range seen {
					require.Equal(t, 1, times, "sample %d", sample)
				}
			}
		}
	}
}

// collect counts the samples of one epoch.
func collect(t *testing.T, l *Loader, seen map[int64]int) {
	t.Helper()
	for {
		b, err := next(t, l)
		if errors.Is(err, ErrEnd) {
			l.Close()
			return
		}
		require.NoError(t, err)
		for i, sample := range b.Indices() {
			seen[sample]++
			require.Equal(t, sample%10, b.Labels()[i])
		}
		require.NoError(t, b.Release())
	}
}

func TestADatasetOfOneSampleGivesEmptyBatchesToTheOtherRanks(t *testing.T) {
	d := dataset(t, 1, nil)
	for rank := range int64(3) {
		l := open(t, d, settings{order: order.Config{BatchSize: 2, WorldSize: 3, Rank: rank}})
		for range 3 {
			b, err := next(t, l)
			require.NoError(t, err)
			require.Equal(t, rank == 0, b.Length == 1)
			require.NoError(t, b.Release())
			_, err = next(t, l)
			require.ErrorIs(t, err, ErrEnd)
		}
	}
}

func TestAnEpochWithoutStepsEndsAtOnce(t *testing.T) {
	l := open(t, dataset(t, 3, nil), settings{order: order.Config{BatchSize: 4, DropLast: true}})
	for epoch := range int64(3) {
		at, _ := l.Position()
		require.Equal(t, epoch, at)
		_, err := l.Next(0)
		require.ErrorIs(t, err, ErrEnd)
	}
}

func TestTheNextEpochFollowsTheEnd(t *testing.T) {
	l := open(t, dataset(t, 5, nil), settings{order: order.Config{BatchSize: 2}})
	var seen []string
	for len(seen) < 8 {
		b, err := next(t, l)
		if errors.Is(err, ErrEnd) {
			seen = append(seen, "end")
			continue
		}
		require.NoError(t, err)
		seen = append(seen, fmt.Sprintf("%d/%d:%d", b.Epoch, b.Step, b.Length))
		require.NoError(t, b.Release())
	}
	require.Equal(t, []string{"0/0:2", "0/1:2", "0/2:1", "end", "1/0:2", "1/1:2", "1/2:1", "end"}, seen)
}

func TestBatchesThatAreKeptAreNeverOverwritten(t *testing.T) {
	l := open(t, dataset(t, 40, nil), settings{order: order.Config{BatchSize: 4, Shuffle: true}})
	var held []*Batch
	var was []string
	for len(held) < 25 {
		b, err := next(t, l)
		if errors.Is(err, ErrEnd) {
			continue
		}
		require.NoError(t, err)
		held, was = append(held, b), append(was, describe(b))
	}
	l.Close()
	for i, b := range held {
		require.Equal(t, was[i], describe(b))
		require.NoError(t, b.Release())
		require.NoError(t, b.Release())
	}
}

func TestNoMoreBatchesThanPrefetchAreMadeAhead(t *testing.T) {
	for _, prefetch := range []int{1, 2, 5} {
		l := open(t, dataset(t, 40, nil), settings{order.Config{BatchSize: 2}, Config{Threads: 2, Prefetch: prefetch}})
		require.Eventually(t, func() bool { return l.Stats().Ready == max(2, prefetch) }, waitLong, waitShort)
		time.Sleep(20 * time.Millisecond)
		require.EqualValues(t, 2*max(2, prefetch), l.Stats().Images)
	}
}
