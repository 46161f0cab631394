package pipeline

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/mmap"
)

// submitting are settings for a loader whose batches the test chooses.
func submitting(batch int64, c Config) settings {
	c.Submitted = true
	return settings{order.Config{Seed: 5, BatchSize: batch}, c}
}

// submitEpoch submits the batches of an epoch that another loader would make by itself.
func submitEpoch(t *testing.T, l *Loader, o *order.Order, epoch int64) {
	t.Helper()
	for at := int64(0); !o.Ended(at); {
		first, count, next := o.Batch(at)
		indices := make([]int64, count)
		for i := range indices {
			indices[i], _ = o.At(epoch, first+int64(i))
		}
		at = next
		require.NoError(t, l.Submit(indices, nil))
	}
	require.NoError(t, l.EndEpoch())
}

// received is what Next gives within waitLong: a description of the batch, or the error.
func received(l *Loader) string {
	b, err := l.Next(waitLong)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = b.Release() }()
	return fmt.Sprintf("%d/%d %v", b.Epoch, b.Step, b.Indices())
}

func TestSubmittedBatchesGiveTheSameStreamForAnyThreadsPrefetchAndBackend(t *testing.T) {
	d := dataset(t, 60, nil)
	own := settings{order.Config{Seed: 5, BatchSize: 7, Shuffle: true}, Config{Threads: 2}}
	l := open(t, d, own)
	want := consume(t, l, 2)
	for _, threads := range []int{1, 3, 7} {
		for _, prefetch := range []int{1, 8} {
			for _, reading := range []mmap.Options{{}, {Backend: mmap.Pread}, {ReadDelay: 4 * time.Millisecond}} {
				submitted := open(t, d, submitting(7, Config{Threads: threads, Prefetch: prefetch, ReadAhead: 20, Store: reading}))
				for epoch := range int64(2) {
					submitEpoch(t, submitted, l.order, epoch)
				}
				require.Equal(t, want, consume(t, submitted, 2), "%d threads, prefetch %d, %+v", threads, prefetch, reading)
				submitted.Close()
			}
		}
	}
}

func TestASubmittedBatchMayHaveAnyLength(t *testing.T) {
	d := dataset(t, 40, nil)
	l := open(t, d, submitting(4, Config{Threads: 2}))
	random := rand.New(rand.NewPCG(3, 1))
	for step, length := range []int{4, 0, 1, 9, 100, 3, 0, 64, 5} {
		indices := make([]int64, length)
		for i := range indices {
			indices[i] = random.Int64N(40)
		}
		require.NoError(t, l.Submit(indices, nil))
		b, err := next(t, l)
		require.NoError(t, err)
		require.EqualValues(t, step, b.Step)
		require.Equal(t, indices, append([]int64{}, b.Indices()...))
		alone := open(t, d, submitting(int64(max(1, length)), Config{Threads: 1}))
		require.NoError(t, alone.SeekTo(0, int64(step)))
		require.NoError(t, alone.Submit(indices, nil))
		same, err := next(t, alone)
		require.NoError(t, err)
		require.Equal(t, describe(same), describe(b), "length %d", length)
		require.NoError(t, same.Release())
		require.NoError(t, b.Release())
		alone.Close()
	}
	require.EqualValues(t, 4, l.Layout().BatchSize)
}

func TestLongBatchesReuseTheirMemory(t *testing.T) {
	l := open(t, dataset(t, 8, nil), submitting(2, Config{Threads: 1}))
	for range 30 {
		require.NoError(t, l.Submit(make([]int64, 20), nil))
		b, err := next(t, l)
		require.NoError(t, err)
		require.NoError(t, b.Release())
	}
	require.LessOrEqual(t, l.long.pool.Stats().Made, int64(2))
}

func TestASampleThatIsDrawnTwiceIsAugmentedInTwoWays(t *testing.T) {
	l := open(t, dataset(t, 8, nil), submitting(6, Config{Threads: 2}))
	require.NoError(t, l.Submit([]int64{3, 3, 3, 3, 5, 3}, []uint64{0, 1, 1 << 63, 1, 0, 0}))
	require.NoError(t, l.Submit([]int64{3}, nil))
	b, err := next(t, l)
	require.NoError(t, err)
	pixels, size := string(b.pixels()), l.Layout().Fields[0].SampleBytes
	at := func(i int64) string { return pixels[i*size : (i+1)*size] }
	require.NotEqual(t, at(0), at(1))
	require.NotEqual(t, at(0), at(2))
	require.NotEqual(t, at(1), at(2))
	require.Equal(t, at(1), at(3))
	require.Equal(t, at(0), at(5))
	require.NoError(t, b.Release())
	b, err = next(t, l)
	require.NoError(t, err)
	require.Equal(t, at(0), string(b.pixels()), "without draw numbers all are 0")
	require.NoError(t, b.Release())
}

func TestTheEndOfASubmittedEpochIsReturnedOnceAtItsPlace(t *testing.T) {
	l := open(t, dataset(t, 8, nil), submitting(2, Config{Threads: 2}))
	end := ErrEnd.Error()
	require.NoError(t, l.Submit([]int64{1}, nil))
	require.NoError(t, l.Submit([]int64{2, 3}, nil))
	require.NoError(t, l.EndEpoch())
	require.NoError(t, l.EndEpoch()) // an epoch without a batch
	require.NoError(t, l.Submit([]int64{4}, nil))
	for _, want := range []string{"0/0 [1]", "0/1 [2 3]", end, end, "2/0 [4]"} {
		require.Equal(t, want, received(l))
	}
	_, err := l.Next(0)
	require.ErrorIs(t, err, ErrTimeout)
	require.NoError(t, l.EndEpoch()) // everything was delivered
	epoch, step := l.Position()
	require.Equal(t, [2]int64{3, 0}, [2]int64{epoch, step})
	require.Equal(t, end, received(l))
	require.NoError(t, l.Submit([]int64{5}, nil))
	require.Equal(t, "3/0 [5]", received(l))
}

func TestTheAugmentationOfASubmittedBatchDependsOnItsEpoch(t *testing.T) {
	d := dataset(t, 8, nil)
	l := open(t, d, submitting(2, Config{Threads: 1}))
	pixels := map[string]bool{}
	for epoch := range int64(3) {
		require.NoError(t, l.SeekTo(epoch, 7))
		require.NoError(t, l.Submit([]int64{6}, nil))
		b, err := next(t, l)
		require.NoError(t, err)
		require.Equal(t, [2]int64{epoch, 7}, [2]int64{b.Epoch, b.Step})
		pixels[string(b.pixels())] = true
		require.NoError(t, b.Release())
	}
	require.Len(t, pixels, 3)
}

func TestSeekingDropsTheSubmittedBatches(t *testing.T) {
	l := open(t, dataset(t, 40, nil), submitting(4, Config{Threads: 3, Prefetch: 3}))
	random := rand.New(rand.NewPCG(9, 9))
	for round := range int64(60) {
		for range random.IntN(9) {
			require.NoError(t, l.Submit([]int64{1, 2, 3, 4}, nil))
		}
		if round%3 == 0 {
			require.NoError(t, l.EndEpoch())
		}
		require.NoError(t, l.SeekTo(round, 0))
		require.NoError(t, l.Submit([]int64{round % 40}, nil))
		require.Equal(t, fmt.Sprintf("%d/0 [%d]", round, round%40), received(l))
	}
}

func TestASubmittedIndexOutsideTheDatasetIsAnErrorAndNothingIsSubmitted(t *testing.T) {
	l := open(t, dataset(t, 8, nil), submitting(2, Config{Threads: 1}))
	for _, index := range []int64{-1, 8, 1 << 62} {
		err := l.Submit([]int64{0, 1, index}, nil)
		require.ErrorContains(t, err, fmt.Sprint(index))
		require.ErrorContains(t, err, "place 2")
	}
	require.Error(t, l.Submit([]int64{0, 1}, []uint64{0}))
	require.NoError(t, l.Submit([]int64{7}, nil))
	require.Equal(t, "0/0 [7]", received(l))
	_, err := l.Next(0)
	require.ErrorIs(t, err, ErrTimeout)
}

func TestNextWaitsForASubmission(t *testing.T) {
	l := open(t, dataset(t, 8, nil), submitting(2, Config{Threads: 2}))
	_, err := l.Next(20 * time.Millisecond)
	require.ErrorIs(t, err, ErrTimeout)
	got := make(chan string)
	go func() { got <- received(l) }()
	time.Sleep(10 * time.Millisecond)
	require.NoError(t, l.Submit([]int64{1}, nil))
	require.Equal(t, "0/0 [1]", <-got)
	go func() { got <- received(l) }()
	time.Sleep(10 * time.Millisecond)
	require.NoError(t, l.EndEpoch())
	require.Equal(t, ErrEnd.Error(), <-got)
	go func() { got <- received(l) }()
	time.Sleep(10 * time.Millisecond)
	l.Close()
	require.Equal(t, ErrClosed.Error(), <-got)
	require.ErrorIs(t, l.Submit([]int64{1}, nil), ErrClosed)
	require.ErrorIs(t, l.EndEpoch(), ErrClosed)
}

func TestTheBatchesAndSamplesSubmittedAheadAreBounded(t *testing.T) {
	l := open(t, dataset(t, 8, nil), submitting(1, Config{Threads: 1}))
	for range maxWaiting {
		require.NoError(t, l.Submit([]int64{1}, nil))
	}
	require.ErrorIs(t, l.Submit([]int64{1}, nil), ErrFull)
	require.Equal(t, "0/0 [1]", received(l))
	require.NoError(t, l.Submit([]int64{2}, nil), "delivering makes room")
	require.NoError(t, l.SeekTo(1, 0))
	require.NoError(t, l.Submit([]int64{1}, nil))
	l.mu.Lock()
	l.stream.held = maxWaitingSamples // as if it had so many
	l.mu.Unlock()
	require.ErrorIs(t, l.Submit([]int64{1}, nil), ErrFull)
	require.NoError(t, l.SeekTo(2, 0))
	require.NoError(t, l.Submit([]int64{3}, nil))
	require.Equal(t, "2/0 [3]", received(l))
}

func TestALoaderWithItsOwnOrderRefusesSubmissions(t *testing.T) {
	l := open(t, dataset(t, 8, nil), settings{order: order.Config{BatchSize: 2}})
	require.ErrorContains(t, l.Submit([]int64{1}, nil), "its own")
	require.ErrorContains(t, l.EndEpoch(), "its own")
}
