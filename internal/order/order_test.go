package order

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func mustOrder(t testing.TB, c Config) *Order {
	t.Helper()
	o, err := New(c)
	require.NoError(t, err)
	return o
}

func TestEverySampleComesExactlyOnceOverAllRanks(t *testing.T) {
	for _, n := range []int64{0, 1, 2, 7, 117, 1000, 65537} {
		for _, world := range []int64{1, 2, 3, 8} {
			for _, batch := range []int64{1, 4, 256} {
				for _, shuffle := range []bool{false, true} {
					for _, drop := range []bool{false, true} {
						requireExactlyOnce(t, Config{Samples: n, WorldSize: world, BatchSize: batch, Shuffle: shuffle, DropLast: drop})
					}
				}
			}
		}
	}
}

func requireExactlyOnce(t *testing.T, c Config) {
	t.Helper()
	seen := make([]bool, c.Samples)
	delivered, steps := int64(0), int64(-1)
	for rank := range c.WorldSize {
		c.Rank = rank
		o := mustOrder(t, c)
		if steps < 0 {
			steps = o.Steps()
		}
		require.Equal(t, steps, o.Steps(), "ranks differ in steps: %+v", c)
		for step := range steps {
			first, count := o.Batch(step)
			require.LessOrEqual(t, count, c.BatchSize)
			for position := first; position < first+count; position++ {
				sample := o.At(5, position)
				require.False(t, seen[sample], "sample %d twice: %+v", sample, c)
				seen[sample] = true
				delivered++
			}
		}
	}
	global := c.BatchSize * c.WorldSize
	if c.DropLast {
		require.Equal(t, c.Samples/global*global, delivered)
	} else {
		require.Equal(t, c.Samples, delivered)
	}
}

func TestLastStepIsSplitAsEvenlyAsPossible(t *testing.T) {
	for samples := int64(1); samples < 60; samples++ {
		for world := int64(1); world <= 8; world++ {
			least, most, next := int64(math.MaxInt64), int64(0), int64(-1)
			for rank := range world {
				o := mustOrder(t, Config{Samples: samples, BatchSize: 3, Rank: rank, WorldSize: world})
				first, count := o.Batch(o.Steps() - 1)
				least, most = min(least, count), max(most, count)
				if next >= 0 {
					require.Equal(t, next, first, "ranks' parts are not contiguous")
				}
				next = first + count
			}
			require.LessOrEqual(t, most-least, int64(1))
			require.Equal(t, samples, next)
		}
	}
}

func TestWorldSizeNeverChangesTheOrder(t *testing.T) {
	one := mustOrder(t, Config{Seed: 9, Samples: 1000, BatchSize: 8, Shuffle: true})
	many := mustOrder(t, Config{Seed: 9, Samples: 1000, BatchSize: 3, Shuffle: true, Rank: 3, WorldSize: 5})
	for position := range int64(1000) {
		require.Equal(t, one.At(2, position), many.At(2, position))
	}
}

func TestPositionIsTheInverseOfAt(t *testing.T) {
	for _, shuffle := range []bool{false, true} {
		o := mustOrder(t, Config{Samples: 117, BatchSize: 4, Shuffle: shuffle})
		for epoch := range int64(20) {
			for position := range int64(117) {
				require.Equal(t, position, o.Position(epoch, o.At(epoch, position)))
			}
		}
	}
}

func TestSubstitutesAreAllOtherSamplesEachOnceAndDeterministic(t *testing.T) {
	for _, n := range []int64{2, 3, 7, 117} {
		o := mustOrder(t, Config{Seed: 4, Samples: n, BatchSize: 1})
		for sample := range n {
			seen := map[int64]bool{sample: true}
			for attempt := range n - 1 {
				s := o.Substitute(6, sample, attempt)
				require.Equal(t, s, o.Substitute(6, sample, attempt))
				require.False(t, seen[s], "sample %d attempt %d of %d", sample, attempt, n)
				seen[s] = true
			}
			require.Len(t, seen, int(n))
		}
	}
	require.Equal(t, int64(-1), mustOrder(t, Config{Samples: 1, BatchSize: 1}).Substitute(0, 0, 0))
}

func TestImpossibleConfigurationsAreRefusedByName(t *testing.T) {
	for _, c := range []struct {
		config Config
		names  string
	}{
		{Config{Samples: -1, BatchSize: 1}, "samples"},
		{Config{Samples: maxSamples + 1, BatchSize: 1}, "samples"},
		{Config{Samples: 1}, "batch_size"},
		{Config{Samples: 1, BatchSize: 1, Rank: 2, WorldSize: 2}, "rank"},
		{Config{Samples: 1, BatchSize: 1, Rank: -1}, "rank"},
		{Config{Samples: 1, BatchSize: math.MaxInt64/2 + 1, WorldSize: 2}, "batch_size"},
		{Config{Samples: 1, BatchSize: 1, Streams: 2}, "streams"},
	} {
		_, err := New(c.config)
		require.ErrorContains(t, err, c.names, "%+v", c.config)
	}
}

func TestAPositionOutsideTheSetPanics(t *testing.T) {
	o := mustOrder(t, Config{Samples: 3, BatchSize: 1, Shuffle: true})
	for _, position := range []int64{-1, 3} {
		require.Panics(t, func() { o.At(0, position) })
		require.Panics(t, func() { o.Position(0, position) })
	}
}

func BenchmarkAt(b *testing.B) {
	for _, n := range []int64{1000, 1<<20 + 1, 1281167, 1 << 40} {
		o := mustOrder(b, Config{Samples: n, BatchSize: 1, Shuffle: true})
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			position, sum := int64(0), int64(0)
			for b.Loop() {
				sum += o.At(3, position)
				if position++; position == n {
					position = 0
				}
			}
			_ = sum
		})
	}
}
