package pipeline

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuantilesOfStallsAreWithinSevenPerCent(t *testing.T) {
	var s stalls
	for i := 1; i <= 1000; i++ {
		s.batches++
		stall := time.Duration(i) * 37 * time.Microsecond
		s.longest = max(s.longest, stall)
		s.counts[stallCell(stall)]++
	}
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99} {
		want := (math.Floor(q*1000) + 1) * 37000
		require.InEpsilon(t, want, float64(s.quantile(q)), 0.07, "%v", q)
	}
	require.LessOrEqual(t, s.quantile(1), s.longest)
}

func TestEveryDurationHasACell(t *testing.T) {
	last := -1
	for _, d := range []time.Duration{-5, 0, 1, 7, 8, 9, 15, 16, 1000, time.Second, time.Hour, math.MaxInt64} {
		cell := stallCell(d)
		require.GreaterOrEqual(t, cell, last)
		require.Less(t, cell, len(stalls{}.counts))
		last = cell
	}
}

func TestAWaitInterruptedByTimeoutsIsOneStall(t *testing.T) {
	var s stalls
	none := func() int64 { return 0 }
	s.begin(time.Now().Add(-time.Second), none)
	s.begin(time.Now(), none)
	s.end(4)
	require.EqualValues(t, 1, s.batches)
	require.GreaterOrEqual(t, s.longest, time.Second)
	s.begin(time.Now().Add(-time.Hour), none)
	s.drop() // SeekTo
	s.begin(time.Now(), none)
	s.end(4)
	require.Less(t, s.longest, time.Minute)
}

func TestBytesReadBeforeTheFirstNextDoNotCountInTheRate(t *testing.T) {
	var s stalls
	s.begin(time.Now().Add(-10*time.Second), func() int64 { return 1 << 30 })
	s.end(4)
	s.begin(time.Now(), func() int64 { return 1 << 31 }) // only the first call counts
	s.end(4)
	found := Stats{BytesRead: 1<<30 + 5000}
	s.fill(&found)
	require.InEpsilon(t, 500, found.BytesPerSecond, 0.1)
}
