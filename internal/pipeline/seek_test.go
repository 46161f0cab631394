package pipeline

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/order"
)

func TestResumingAtAnyBatchGivesTheRestOfTheStream(t *testing.T) {
	d := dataset(t, 117, nil)
	s := settings{order.Config{Seed: 3, BatchSize: 10, Shuffle: true}, Config{Threads: 2}}
	whole := consume(t, open(t, d, s), 2).batches
	l := open(t, d, settings{s.order, Config{Threads: 3}})
	for step := int64(0); step <= l.Steps(); step++ {
		s.Epoch, s.Position = 0, min(117, step*10)
		opened := open(t, d, s)
		require.Equal(t, whole[step:], consume(t, opened, 2).batches, "opened at step %d", step)
		opened.Close()
		require.NoError(t, l.SeekTo(0, min(117, step*10)))
		require.Equal(t, whole[step:], consume(t, l, 2).batches, "sought step %d", step)
	}
}

func TestSeekingToTheCurrentPositionKeepsThePrefetchedBatches(t *testing.T) {
	l := open(t, dataset(t, 8, nil), settings{order.Config{BatchSize: 2}, Config{Threads: 2, Prefetch: 3}})
	full := func() bool { return l.Stats().Ready == 3 }
	for range 4 {
		b, err := next(t, l)
		require.NoError(t, err)
		require.NoError(t, b.Release())
	}
	require.Eventually(t, full, waitLong, waitShort) // of the next epoch
	images := l.Stats().Images
	require.NoError(t, l.SeekTo(1, 0)) // before the end was told, as iter() does after a break at the last batch
	require.NoError(t, l.SeekTo(0, 8)) // the end of epoch 0 is the same place
	_, err := l.Next(0)
	require.ErrorIs(t, err, ErrEnd)
	require.NoError(t, l.SeekTo(1, 0))
	b, err := l.Next(0)
	require.NoError(t, err)
	require.EqualValues(t, 1, b.Epoch)
	require.NoError(t, b.Release())
	require.Eventually(t, full, waitLong, waitShort)
	require.Equal(t, images+2, l.Stats().Images, "nothing was made twice")
}

func TestManySeeksAtAnyMomentGiveTheRightBatches(t *testing.T) {
	d := dataset(t, 50, nil)
	s := settings{order.Config{Seed: 8, BatchSize: 4, Shuffle: true}, Config{Threads: 3, Prefetch: 2}}
	reference := map[[2]int64]string{}
	l := open(t, d, s)
	for ends := 0; ends < 3; {
		b, err := next(t, l)
		if errors.Is(err, ErrEnd) {
			ends++
			continue
		}
		require.NoError(t, err)
		reference[[2]int64{b.Epoch, b.Step}] = describe(b)
		require.NoError(t, b.Release())
	}
	l.Close()
	for _, delay := range []time.Duration{0, 2 * time.Millisecond} {
		s.Store.ReadDelay, s.ReadAhead = delay, 9
		l := open(t, d, s)
		random := rand.New(rand.NewPCG(1, uint64(delay)))
		for range 150 {
			epoch, step := random.Int64N(3), random.Int64N(l.Steps())
			require.NoError(t, l.SeekTo(epoch, 4*step))
			for range random.IntN(4) {
				b, err := next(t, l)
				if errors.Is(err, ErrEnd) {
					break
				}
				require.NoError(t, err)
				if want, ok := reference[[2]int64{b.Epoch, b.Step}]; ok {
					require.Equal(t, want, describe(b))
				}
				require.Equal(t, [2]int64{epoch, step}, [2]int64{b.Epoch, b.Step})
				step++
				require.NoError(t, b.Release())
			}
		}
		l.Close()
	}
}

func TestSeekRefusesPositionsThatDoNotExist(t *testing.T) {
	l := open(t, dataset(t, 8, nil), settings{order: order.Config{BatchSize: 2}})
	for _, place := range [][2]int64{{-1, 0}, {0, -1}, {0, 9}, {maxEpoch + 1, 0}} {
		require.Error(t, l.SeekTo(place[0], place[1]))
	}
	l.Close()
	require.ErrorIs(t, l.SeekTo(0, 0), ErrClosed)
}
