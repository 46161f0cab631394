package order

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func repeated(t *testing.T, samples, times, length int64) *Selection {
	t.Helper()
	s, err := Repeated(samples, times, length)
	require.NoError(t, err)
	return s
}

func TestAnEpochOfRepeatsIsAsLongAsInTimm(t *testing.T) {
	for samples, length := range map[int64]int64{0: 0, 60: 60, 255: 255, 256: 256, 257: 256, 1000: 768, 1281167: 1281024} {
		for _, times := range []int64{1, 3} {
			require.Equal(t, length, repeated(t, samples, times, -1).Length())
		}
	}
	require.EqualValues(t, 300, repeated(t, 100, 3, 300).Length())
}

func TestRepeatsAreNeighboursInTheOrderAndHaveDrawsOfTheirOwn(t *testing.T) {
	s := repeated(t, 100, 3, 299)
	for _, c := range []Config{{}, {Shuffle: true}, {Shuffle: true, Window: 16}} {
		c.Samples, c.Selection, c.BatchSize = 100, s, 4
		o := mustOrder(t, c)
		plain := mustOrder(t, Config{Samples: 100, BatchSize: 4, Shuffle: c.Shuffle, Window: c.Window})
		for position := range int64(299) {
			sample, draw := o.At(5, position)
			once, _ := plain.At(5, position/3)
			require.Equal(t, once, sample)
			require.EqualValues(t, position, draw)
		}
	}
}

// A resumed epoch's step may begin in the middle of a sample's repeats.
func TestRepeatsOfASampleFallOnDifferentRanksOfAStep(t *testing.T) {
	for times := int64(2); times < 5; times++ {
		for world := times; world < 9; world++ {
			for batch := int64(1); batch < 8; batch++ {
				for start := range times {
					s := repeated(t, 40, times, 40*times)
					for rank := range world {
						o := mustOrder(t, Config{Samples: 40, Selection: s, BatchSize: batch, Rank: rank, WorldSize: world})
						first, count, _ := o.Batch(start)
						seen := map[int64]bool{}
						for position := first; position < first+count; position++ {
							sample, _ := o.At(0, o.Spread(start, position))
							require.False(t, seen[sample], "%d times, %d ranks of %d, from %d", times, world, batch, start)
							seen[sample] = true
						}
					}
				}
			}
		}
	}
}

func TestAStepOfRepeatsIsTheSameForAnyNumberOfRanksAndHasEveryPositionOnce(t *testing.T) {
	for _, pad := range []bool{false, true} {
		for length := int64(1); length < 60; length++ {
			s := repeated(t, 20, 3, length)
			for world := int64(1); world < 7; world++ {
				c := Config{Samples: 20, Selection: s, BatchSize: 12 / world, WorldSize: world, Pad: pad}
				alone := Config{Samples: 20, Selection: s, BatchSize: c.BatchSize * world}
				for at := int64(0); at < length; {
					var stepped []int64
					var next int64
					for rank := range world {
						c.Rank = rank
						o := mustOrder(t, c)
						var first, count int64
						first, count, next = o.Batch(at)
						for position := first; position < first+count; position++ {
							stepped = append(stepped, o.Spread(at, position))
						}
					}
					if !pad {
						var expected []int64
						o := mustOrder(t, alone)
						for position := at; position < next; position++ {
							expected = append(expected, o.Spread(at, position))
						}
						require.Equal(t, expected, stepped)
					}
					seen := map[int64]bool{}
					for _, position := range stepped {
						require.False(t, seen[position])
						require.True(t, position >= at && position < at+int64(len(stepped)))
						seen[position] = true
					}
					at = next
				}
			}
		}
	}
}

func TestChainsOfWorldSizeChangesGiveEveryRepeatExactlyOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for range 500 {
		s := repeated(t, 117, 3, 351)
		c := Config{Seed: random.Uint64(), Samples: 117, Selection: s, Shuffle: true}
		samples, draws := make([]int, 117), make([]int, 351)
		for at := int64(0); at < 351; {
			c.WorldSize, c.BatchSize = 1+random.Int64N(8), 1+random.Int64N(9)
			var next int64
			for rank := range c.WorldSize {
				c.Rank = rank
				o := mustOrder(t, c)
				var first, count int64
				first, count, next = o.Batch(at)
				for position := first; position < first+count; position++ {
					sample, draw := o.At(2, o.Spread(at, position))
					samples[sample]++
					draws[draw]++
				}
			}
			at = next
		}
		for _, times := range samples {
			require.Equal(t, 3, times)
		}
		for _, times := range draws {
			require.Equal(t, 1, times)
		}
	}
}

func TestTheRefusalOfImpossibleRepeatsNamesTheArgument(t *testing.T) {
	for _, c := range []struct {
		samples, times, length int64
		names                  string
	}{
		{10, 0, -1, "times is 0"}, {10, -3, -1, "times is -3"}, {10, math.MaxInt64, -1, "times"},
		{10, 3, 31, "length is 31"}, {0, 3, 1, "length is 1"},
	} {
		_, err := Repeated(c.samples, c.times, c.length)
		require.ErrorContains(t, err, c.names)
	}
}
