package order

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWindowedOrderIsABijectionExhaustively(t *testing.T) {
	for _, n := range []int64{0, 1, 2, 7, 117, 65537, 1281167} {
		for _, window := range []int64{1, 2, 16, 300, 1000, 65536, 1 << 40} {
			if n > 1e5 && window != 65536 {
				continue // 20 seconds each
			}
			o := mustOrder(t, Config{Seed: 3, Samples: n, BatchSize: 1, Shuffle: true, Window: window})
			seen := make([]bool, n)
			for position := range n {
				sample, _ := o.At(4, position)
				if seen[sample] {
					t.Fatalf("n=%d window=%d: %d comes twice", n, window, sample)
				}
				seen[sample] = true
				if position%max(1, n/5000) == 0 {
					require.Equal(t, position, o.Position(4, sample), "n=%d window=%d", n, window)
				}
			}
		}
	}
}

func TestWindowedOrderOfHugeSetsIsABijectionAtSampledPoints(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int64{1<<31 + 1, 1<<40 + 1, maxSamples} {
		for _, window := range []int64{5, 4096, 1 << 33} {
			o := mustOrder(t, Config{Seed: random.Uint64(), Samples: n, BatchSize: 1, Shuffle: true, Window: window})
			points := []int64{0, 1, n / 2, n - 2, n - 1}
			for range 2_000 {
				points = append(points, random.Int64N(n))
			}
			for _, x := range points {
				sample, _ := o.At(7, x)
				require.Equal(t, x, o.Position(7, sample), "n=%d window=%d", n, window)
				back, _ := o.At(7, o.Position(7, x))
				require.Equal(t, x, back, "n=%d window=%d", n, window)
			}
		}
	}
}

// The number of stretches bounds how many places of the storage a window is read from.
func TestTheSamplesOfAWindowLieInABoundedNumberOfStretches(t *testing.T) {
	const n, window = 200_000, 4096
	o := mustOrder(t, Config{Seed: 1, Samples: n, BatchSize: 1, Shuffle: true, Window: window})
	for _, epoch := range []int64{0, 1, 9} {
		for begin := int64(0); begin+window <= n; begin += 7 * window {
			inside := map[int64]bool{}
			for position := begin; position < begin+window; position++ {
				sample, _ := o.At(epoch, position)
				inside[sample] = true
			}
			stretches := 0
			for sample := range inside {
				if !inside[sample-1] {
					stretches++
				}
			}
			// There is one more than blocks if the window begins and ends inside a block, and there are fewer if
			// neighbouring blocks come into the same window.
			require.LessOrEqual(t, stretches, blocksPerWindow+2)
			require.Greater(t, stretches, blocksPerWindow/2)
		}
	}
}

func TestBlocksBeginAtOtherSamplesInEachEpoch(t *testing.T) {
	o := mustOrder(t, Config{Samples: 100_000, BatchSize: 1, Shuffle: true, Window: 100_000})
	begins := map[uint64]bool{}
	for epoch := range int64(20) {
		begins[o.window.shift(o.windowKey(epoch))%o.window.block] = true
	}
	require.Greater(t, len(begins), 10)
}

// Over many epochs every sample comes at every position equally often, as in a full shuffle.
func TestWindowedPositionsAreUniformOverSeedsAndEpochs(t *testing.T) {
	const n, cells = 1000, 25
	for _, window := range []int64{16, 300, 700} {
		for _, x := range []int64{0, 499, 999} {
			observed := make([]int, cells)
			for key := range int64(50_000) {
				o := mustOrder(t, Config{Seed: uint64(key / 200), Samples: n, BatchSize: 1, Shuffle: true, Window: window})
				sample, _ := o.At(key%200, x)
				observed[sample*cells/n]++
			}
			requireUniform(t, observed)
		}
	}
}

func TestWindowedEpochsAndSeedsGiveIndependentOrders(t *testing.T) {
	// In each window, two epochs put the same sample at the same position as often as by chance.
	const n, window, cells = 60_000, 6_000, 16
	keys := []struct {
		seed  uint64
		epoch int64
	}{{0, 0}, {0, 1}, {1, 0}, {1 << 63, 0}}
	for i, a := range keys {
		for _, b := range keys[:i] {
			p := mustOrder(t, Config{Seed: a.seed, Samples: n, BatchSize: 1, Shuffle: true, Window: window})
			q := mustOrder(t, Config{Seed: b.seed, Samples: n, BatchSize: 1, Shuffle: true, Window: window})
			observed := make([]int, cells*cells)
			for sample := range int64(n) {
				// Only positions inside the window count, because all samples of a block go to the same window.
				x, y := p.Position(a.epoch, sample)%window, q.Position(b.epoch, sample)%window
				observed[x*cells/window*cells+y*cells/window]++
			}
			requireUniform(t, observed)
		}
	}
}

func TestTheBlocksOfAnEpochHoldEverySampleOnce(t *testing.T) {
	for _, n := range []int64{1, 2000, 10_007} {
		o := mustOrder(t, Config{Seed: 5, Samples: n, BatchSize: 1, Shuffle: true, Window: 9 * blocksPerWindow})
		for epoch := range int64(3) {
			blocks := map[int64]int64{}
			for position := range n {
				sample, _ := o.At(epoch, position)
				first, count, window, ok := o.Block(epoch, position)
				require.True(t, ok)
				require.Equal(t, position/(9*blocksPerWindow), window)
				require.True(t, 0 <= first && first <= sample && sample < first+count && first+count <= n)
				require.LessOrEqual(t, count, int64(9))
				blocks[first] = count
			}
			all := int64(0)
			for _, count := range blocks {
				all += count
			}
			require.Equal(t, n, all, "blocks overlap or leave samples out")
		}
	}
	o := mustOrder(t, Config{Samples: 10, BatchSize: 1, Shuffle: true})
	_, _, _, ok := o.Block(0, 0)
	require.False(t, ok)
}
