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
				for _, drop := range []bool{false, true} {
					requireExactlyOnce(t, Config{Samples: n, WorldSize: world, BatchSize: batch, DropLast: drop})
					for _, window := range []int64{0, 1, 16, 1000} {
						if n > 1000 && window > 0 {
							continue // TestWindowedOrderIsABijectionExhaustively has these
						}
						requireExactlyOnce(t, Config{Samples: n, WorldSize: world, BatchSize: batch, Shuffle: true, Window: window, DropLast: drop})
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
		taken := int64(0)
		for at := int64(0); !o.Ended(at); taken++ {
			first, count, next := o.Batch(at)
			require.LessOrEqual(t, count, c.BatchSize)
			require.Equal(t, taken, o.Step(at))
			at = next
			for position := first; position < first+count; position++ {
				sample, draw := o.At(5, position)
				if seen[sample] || draw != 0 { // not with require, of which millions of calls take a minute
					t.Fatalf("sample %d twice, or draw %d is not 0: %+v", sample, draw, c)
				}
				seen[sample] = true
				delivered++
			}
		}
		require.Equal(t, steps, taken)
	}
	global := c.BatchSize * c.WorldSize
	if c.DropLast {
		require.Equal(t, c.Samples/global*global, delivered)
	} else {
		require.Equal(t, c.Samples, delivered)
	}
}

func TestTheLastStepIsSplitAsEvenlyAsPossible(t *testing.T) {
	for samples := int64(1); samples < 60; samples++ {
		for world := int64(1); world <= 8; world++ {
			least, most, next := int64(math.MaxInt64), int64(0), int64(-1)
			for rank := range world {
				o := mustOrder(t, Config{Samples: samples, BatchSize: 3, Rank: rank, WorldSize: world})
				first, count, _ := o.Batch((o.Steps() - 1) * 3 * world)
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
		a, _ := one.At(2, position)
		b, _ := many.At(2, position)
		require.Equal(t, a, b)
	}
}

func TestPositionIsTheInverseOfAt(t *testing.T) {
	for _, shuffle := range []bool{false, true} {
		o := mustOrder(t, Config{Samples: 117, BatchSize: 4, Shuffle: shuffle})
		for epoch := range int64(20) {
			for position := range int64(117) {
				sample, _ := o.At(epoch, position)
				require.Equal(t, position, o.Position(epoch, sample))
			}
		}
	}
}

func TestSubstitutesAreAllOtherSamplesOnceInADeterministicOrder(t *testing.T) {
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

func TestTheRefusalOfAnImpossibleConfigurationNamesTheOption(t *testing.T) {
	for _, c := range []struct {
		config Config
		names  string
	}{
		{Config{Samples: -1, BatchSize: 1}, "samples"},
		{Config{Samples: maxSamples + 1, BatchSize: 1}, "samples"},
		{Config{Samples: 1}, "batch_size"},
		{Config{Samples: 1, BatchSize: 1, Rank: 2, WorldSize: 2}, "rank"},
		{Config{Samples: 1, BatchSize: 1, Rank: -1}, "rank"},
		{Config{Samples: 1, BatchSize: math.MaxInt64/4 + 1, WorldSize: 2}, "batch_size"},
		{Config{Samples: 1, BatchSize: 1, Window: -1, Shuffle: true}, "window"},
		{Config{Samples: 1, BatchSize: 1, Window: 8}, "window"},
		{Config{Samples: 1, BatchSize: 1, Pad: true, DropLast: true}, "drop_last"},
		{Config{Samples: 1, BatchSize: 1, Streams: 2}, "streams"},
	} {
		_, err := New(c.config)
		require.ErrorContains(t, err, c.names, "%+v", c.config)
	}
}

func TestAPositionOutsideTheOrderPanics(t *testing.T) {
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
				sample, _ := o.At(3, position)
				sum += sample
				if position++; position == n {
					position = 0
				}
			}
			_ = sum
		})
	}
}
