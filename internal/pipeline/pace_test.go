package pipeline

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func readsUntilTurned(p *pace, took ...time.Duration) int {
	for n := 1; n <= 10_000; n++ {
		if p.workerRead(took[n%len(took)]) {
			return n
		}
	}
	return -1
}

func TestReadersTakeOverAfterTwoReadsOfAStoreAndAFewOfADisk(t *testing.T) {
	require.Equal(t, 2, readsUntilTurned(new(pace), 20*time.Millisecond))
	require.Equal(t, paceReads/4+1, readsUntilTurned(new(pace), 300*time.Microsecond))
}

func TestWorkersKeepReadingFromThePageCacheIfSingleReadsAreSlow(t *testing.T) {
	reads := make([]time.Duration, 25)
	for i := range reads {
		reads[i] = 30 * time.Microsecond
	}
	reads[3] = 4 * time.Millisecond
	require.Equal(t, -1, readsUntilTurned(new(pace), reads...))
}

func TestWorkersTryToReadAgainEverMoreRarelyWhileReadsAreSlow(t *testing.T) {
	p := new(pace)
	for want := firstTrial; want <= 8*firstTrial; want *= 2 {
		require.Positive(t, readsUntilTurned(p, 20*time.Millisecond))
		require.True(t, p.slow())
		n := 1
		for !p.readerRead() {
			n++
		}
		require.Equal(t, want, n)
		require.False(t, p.slow())
	}
}
