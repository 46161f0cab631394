package pipeline

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/order"
)

func TestEveryBlockOfAWindowIsRequestedOnce(t *testing.T) {
	d := dataset(t, 60, nil)
	for _, delay := range []time.Duration{0, 4 * time.Millisecond} { // first the workers read, then the readers
		s := settings{order.Config{Seed: 5, BatchSize: 7, Shuffle: true, Window: 4 * 1024}, Config{Threads: 2, ReadAhead: 9}}
		s.Store.ReadDelay = delay
		l := open(t, d, s)
		consume(t, l, 1)
		blocks := map[int64]bool{}
		for position := range d.Len() {
			first, _, _, _ := l.order.Block(0, position)
			blocks[first] = true
		}
		l.Close()
		<-l.gone
		require.Contains(t, []int{15, 16}, len(blocks), "60 samples in blocks of 4, one of them perhaps over the end")
		l.stretches.mu.Lock()
		require.GreaterOrEqual(t, l.stretches.asked, int64(len(blocks)))
		require.LessOrEqual(t, l.stretches.asked, int64(2*16+2*16),
			"the blocks of this epoch, and those prefetched for the next")
		l.stretches.mu.Unlock()
	}
}

func TestAWindowedStreamIsTheSameForAnyThreadsAndReadAhead(t *testing.T) {
	d := dataset(t, 60, nil)
	s := settings{order.Config{Seed: 5, BatchSize: 7, Shuffle: true, Window: 20}, Config{Threads: 1}}
	want := consume(t, open(t, d, s), 2)
	for _, delay := range []time.Duration{0, 4 * time.Millisecond} {
		s.Threads, s.Store.ReadDelay, s.ReadAhead = 3, delay, 9
		require.Equal(t, want, consume(t, open(t, d, s), 2))
	}
}
