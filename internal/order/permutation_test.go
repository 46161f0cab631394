package order

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPermutationIsABijectionExhaustively(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 4, 5, 7, 16, 17, 117, 65537, 1281167} {
		p := newPermutation(n, 1, 2)
		seen := make([]bool, n)
		for x := range n {
			y := p.at(x)
			if y >= n || seen[y] || p.inverse(y) != x { // not with require, of which millions of calls take seconds
				t.Fatalf("n=%d: %d goes to %d, which is outside, comes twice or has the inverse %d", n, x, y, p.inverse(y))
			}
			seen[y] = true
		}
	}
}

func TestPermutationOfHugeRangesIsABijectionAtSampledPoints(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []uint64{1<<31 + 1, 1 << 40, 1<<40 + 1, maxSamples - 1, maxSamples} {
		p := newPermutation(n, random.Uint64(), random.Uint64())
		points := []uint64{0, 1, n / 2, n - 2, n - 1}
		for range 20_000 {
			points = append(points, random.Uint64N(n))
		}
		for _, x := range points {
			if p.at(x) >= n || p.inverse(p.at(x)) != x || p.at(p.inverse(x)) != x {
				t.Fatalf("n=%d: %d goes to %d, which has the inverse %d; its own is %d", n, x, p.at(x), p.inverse(p.at(x)), p.inverse(x))
			}
		}
	}
}

// A Feistel network with too few rounds shows its structure in small domains.
func TestEveryPermutationOfASmallRangeIsEquallyLikely(t *testing.T) {
	for _, n := range []uint64{2, 3, 4, 5, 6} {
		counts := map[uint64]int{}
		const keys = 200_000
		for key := range uint64(keys) {
			p := newPermutation(n, 7, key)
			code := uint64(0)
			for x := range n {
				code = code*n + p.at(x)
			}
			counts[code]++
		}
		factorial := int(math.Round(math.Gamma(float64(n) + 1)))
		require.Len(t, counts, factorial)
		observed := make([]int, 0, factorial)
		for _, c := range counts {
			observed = append(observed, c)
		}
		requireUniform(t, observed)
	}
}

func TestPositionsAreUniformOverSeedsAndEpochs(t *testing.T) {
	const n, cells = 1000, 50
	for _, x := range []uint64{0, 1, 499, 999} {
		observed := make([]int, cells)
		for key := range uint64(100_000) {
			p := newPermutation(n, 3, key/300, key%300)
			observed[p.at(x)*cells/n]++
		}
		requireUniform(t, observed)
	}
}

func TestNeighboursDoNotStayNeighbours(t *testing.T) {
	const n, cells = 65537, 64
	p := newPermutation(n, 11)
	observed := make([]int, cells)
	for x := range uint64(n - 1) {
		distance := (p.at(x+1) + n - p.at(x)) % n
		observed[distance*cells/n]++
	}
	requireUniform(t, observed)
}

func TestEpochsAndSeedsGiveIndependentOrders(t *testing.T) {
	const n, side = 50_000, 16
	keys := [][]uint64{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {1 << 63, 0}, {0, 1 << 63}}
	for i, a := range keys {
		for _, b := range keys[:i] {
			p, q := newPermutation(n, a...), newPermutation(n, b...)
			observed := make([]int, side*side)
			for x := range uint64(n) {
				observed[p.at(x)*side/n*side+q.at(x)*side/n]++
			}
			requireUniform(t, observed)
		}
	}
}

// requireUniform is a chi-square test at p > 1e-6, by the normal approximation of Wilson and
// Hilferty (1931), good to a few per cent from five degrees of freedom up; for one degree it
// is stricter than exact.
func requireUniform(t *testing.T, observed []int) {
	t.Helper()
	total := 0
	for _, o := range observed {
		total += o
	}
	expected := float64(total) / float64(len(observed))
	chi := 0.0
	for _, o := range observed {
		chi += (float64(o) - expected) * (float64(o) - expected) / expected
	}
	freedom := float64(len(observed) - 1)
	z := (math.Cbrt(chi/freedom) - (1 - 2/(9*freedom))) / math.Sqrt(2/(9*freedom))
	require.Less(t, z, 4.76, "chi-square %.1f with %.0f degrees of freedom", chi, freedom)
}
