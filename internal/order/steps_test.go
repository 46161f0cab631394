package order

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A job is stopped at a random step and resumed with another number of ranks, five times.
func TestChainsOfWorldSizeChangesGiveEverySampleExactlyOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	worlds := []int64{1, 2, 3, 4, 8, 16}
	for range 3000 {
		c := Config{Seed: random.Uint64(), Samples: 117, Shuffle: random.IntN(4) > 0}
		if c.Shuffle && random.IntN(2) == 0 {
			c.Window = 1 + random.Int64N(150)
		}
		seen := make([]int, c.Samples)
		at := int64(0)
		for change := range 6 {
			c.WorldSize, c.BatchSize = worlds[random.IntN(len(worlds))], 1+random.Int64N(5)
			stop := at + random.Int64N(40)
			if change == 5 {
				stop = 117
			}
			next := at
			for rank := range c.WorldSize {
				c.Rank = rank
				o := mustOrder(t, c)
				for next = at; next < stop && !o.Ended(next); {
					var first, count int64
					first, count, next = o.Batch(next)
					for position := first; position < first+count; position++ {
						sample, _ := o.At(2, position)
						seen[sample]++
					}
				}
			}
			at = next
		}
		for sample, times := range seen {
			require.Equal(t, 1, times, "sample %d: %+v", sample, c)
		}
	}
}

func TestPaddingRepeatsSamplesUntilAllRanksHaveEquallyMany(t *testing.T) {
	for samples := int64(1); samples < 40; samples++ {
		for world := int64(1); world <= 9; world++ {
			for _, start := range []int64{0, samples / 2} {
				c := Config{Samples: samples, BatchSize: 3, WorldSize: world, Pad: true, Shuffle: true}
				left := samples - start
				each := (left + world - 1) / world // what DistributedSampler gives each rank
				seen := map[int64]int64{}
				for rank := range world {
					c.Rank = rank
					o := mustOrder(t, c)
					taken := int64(0)
					for at := start; !o.Ended(at); {
						first, count, next := o.Batch(at)
						require.Positive(t, count)
						for position := first; position < first+count; position++ {
							sample, draw := o.At(0, position)
							require.Equal(t, position >= samples, draw > 0, "only a repeat has a draw number")
							seen[sample]++
						}
						taken, at = taken+count, next
					}
					require.Equal(t, each, taken, "samples %d, world %d", samples, world)
				}
				if start == 0 {
					require.Len(t, seen, int(samples))
				}
			}
		}
	}
}

func TestRankOfIsTheRankWhoseBatchHasThePosition(t *testing.T) {
	for _, c := range []Config{
		{Samples: 40, BatchSize: 2, WorldSize: 4}, {Samples: 45, BatchSize: 2, WorldSize: 4}, {Samples: 42, BatchSize: 2, WorldSize: 4},
		{Samples: 45, BatchSize: 2, WorldSize: 4, Pad: true}, {Samples: 41, BatchSize: 2, WorldSize: 4, Pad: true},
		{Samples: 47, BatchSize: 3, WorldSize: 5}, {Samples: 47, BatchSize: 3, WorldSize: 5, DropLast: true}, {Samples: 9, BatchSize: 4},
	} {
		seen := int64(0)
		for rank := range max(1, c.WorldSize) {
			c.Rank = rank
			o, err := New(c)
			require.NoError(t, err)
			for at := int64(0); !o.Ended(at); {
				first, count, next := o.Batch(at)
				for p := first; p < first+count; p++ {
					require.Equal(t, rank, o.RankOf(p), "%+v: position %d", c, p)
					seen++
				}
				at = next
			}
		}
		require.GreaterOrEqual(t, seen, c.Samples/(c.BatchSize*max(1, c.WorldSize))*c.BatchSize*max(1, c.WorldSize))
	}
}
