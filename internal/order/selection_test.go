package order

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// drawn counts how often each sample comes in an epoch, over all ranks.
func drawn(t *testing.T, s *Selection, c Config, epoch int64) []int64 {
	t.Helper()
	c.Samples, c.Selection = s.samples, s
	if c.BatchSize == 0 {
		c.BatchSize = 7
	}
	counts := make([]int64, s.samples)
	for rank := range max(1, c.WorldSize) {
		c.Rank = rank
		o := mustOrder(t, c)
		for at := int64(0); !o.Ended(at); {
			first, count, next := o.Batch(at)
			for position := first; position < first+count; position++ {
				sample, draw := o.At(epoch, position)
				if s.Repeats() {
					require.EqualValues(t, position, draw)
				} else {
					require.Zero(t, draw)
				}
				counts[sample]++
			}
			at = next
		}
	}
	return counts
}

func TestAWeightedSampleComesAsOftenAsItsShareRoundedUpOrDown(t *testing.T) {
	weights := []float64{1, 0, 2.5, 0.1, 4, 1, 1e-3, 9}
	total := 0.0
	for _, weight := range weights {
		total += weight
	}
	for _, draws := range []int64{0, 1, 8, 117, 10_007} {
		s, err := Weighted(weights, draws)
		require.NoError(t, err)
		for epoch := range int64(20) {
			for sample, count := range drawn(t, s, Config{Shuffle: true, WorldSize: 3}, epoch) {
				share := float64(draws) * weights[sample] / total
				require.InDelta(t, share, count, 1, "sample %d of %d draws", sample, draws)
				if weights[sample] == 0 {
					require.Zero(t, count)
				}
			}
		}
	}
}

func TestOnAverageOverEpochsAWeightedSampleComesAsOftenAsItsShare(t *testing.T) {
	weights := []float64{3, 0.25, 1, 0.01, 7}
	s, err := Weighted(weights, 10)
	require.NoError(t, err)
	sums := make([]float64, len(weights))
	const epochs = 20_000
	for epoch := range int64(epochs) {
		for sample, count := range drawn(t, s, Config{Shuffle: true}, epoch) {
			sums[sample] += float64(count)
		}
	}
	for sample, weight := range weights {
		share := 10 * weight / 11.26
		// Rounding is wrong by less than one in an epoch, so its standard deviation is at most a half; five of them
		// are allowed.
		require.InDelta(t, share, sums[sample]/epochs, 5*0.5/math.Sqrt(epochs), "sample %d", sample)
	}
}

func TestEqualWeightsGiveEverySampleExactlyOnce(t *testing.T) {
	for _, weight := range []float64{0.1, 1, 1e300, 1e-300} {
		for _, n := range []int{1, 2, 7, 117, 4099} {
			weights := make([]float64, n)
			for i := range weights {
				weights[i] = weight
			}
			s, err := Weighted(weights, int64(n))
			require.NoError(t, err)
			for _, count := range drawn(t, s, Config{Shuffle: true}, 3) {
				require.EqualValues(t, 1, count)
			}
		}
	}
}

func TestABalancedEpochHasEquallyManyOfEveryLabel(t *testing.T) {
	var labels []int64
	for i := range int64(500) { // classes of 1, 3, 5, ... scattered
		labels = append(labels, int64(math.Sqrt(float64(i*7%500))))
	}
	for _, draws := range []int64{500, 2300, 999} {
		s, err := Balanced(labels, draws)
		require.NoError(t, err)
		classes, inside := map[int64]int64{}, map[int64][2]int64{}
		for sample, count := range drawn(t, s, Config{Shuffle: true, WorldSize: 2}, 1) {
			label := labels[sample]
			classes[label] += count
			bounds, seen := inside[label]
			if !seen {
				bounds = [2]int64{count, count}
			}
			inside[label] = [2]int64{min(bounds[0], count), max(bounds[1], count)}
		}
		require.Len(t, classes, 23)
		for label, count := range classes {
			require.InDelta(t, float64(draws)/23, count, 1, "label %d", label)
			require.LessOrEqual(t, inside[label][1]-inside[label][0], int64(1), "samples of label %d", label)
		}
	}
}

func TestAMixHasItsPartsInProportion(t *testing.T) {
	parts := []Part{{First: 0, Stride: 1, Count: 900}, {List: []int64{950, 901, 999}}, {First: 998, Stride: -2, Count: 20}}
	s, err := Mix(1000, parts, []float64{0.5, 0.3, 0.2}, 1000)
	require.NoError(t, err)
	for epoch := range int64(5) {
		counts := drawn(t, s, Config{Shuffle: true}, epoch)
		sum := func(part Part) (n int64) {
			for i := range part.size() {
				n += counts[part.at(i)]
			}
			return n
		}
		require.InDelta(t, 500, sum(parts[0]), 1)
		require.InDelta(t, 300, sum(parts[1]), 1)
		require.InDelta(t, 200, sum(parts[2]), 1)
	}
}

func TestASubsetComesExactlyOnceShuffledOrNot(t *testing.T) {
	for _, part := range []Part{
		{List: []int64{5, 99, 0, 40, 41}}, {List: []int64{}}, {First: 10, Stride: 3, Count: 30}, {First: 99, Stride: -1, Count: 100},
	} {
		s, err := Subset(100, part)
		require.NoError(t, err)
		for _, c := range []Config{{}, {Shuffle: true}, {Shuffle: true, Window: 8}, {WorldSize: 3, Shuffle: true}} {
			counts := drawn(t, s, c, 2)
			for i := range part.size() {
				require.EqualValues(t, 1, counts[part.at(i)])
				counts[part.at(i)] = 0
			}
			require.Equal(t, make([]int64, 100), counts)
		}
		o := mustOrder(t, Config{Samples: 100, Selection: s, BatchSize: 1})
		for i := range part.size() {
			sample, _ := o.At(0, i)
			require.Equal(t, part.at(i), sample)
		}
	}
}

func TestSubstitutesComeFromTheSelection(t *testing.T) {
	s, err := Subset(100, Part{First: 3, Stride: 7, Count: 12})
	require.NoError(t, err)
	o := mustOrder(t, Config{Samples: 100, Selection: s, BatchSize: 1})
	for i := range int64(12) {
		seen := map[int64]bool{3 + 7*i: true}
		for attempt := range int64(11) {
			substitute := o.Substitute(1, 3+7*i, attempt)
			require.False(t, seen[substitute])
			require.Zero(t, (substitute-3)%7)
			seen[substitute] = true
		}
	}
	require.EqualValues(t, 11, o.Others())
	one, err := Subset(100, Part{List: []int64{4}})
	require.NoError(t, err)
	require.EqualValues(t, -1, mustOrder(t, Config{Samples: 100, Selection: one, BatchSize: 1}).Substitute(0, 4, 0))
}

func TestTheRefusalOfAnImpossibleSelectionSaysWhatIsWrong(t *testing.T) {
	refused := func(err error, names string) {
		t.Helper()
		require.ErrorContains(t, err, names)
	}
	_, err := Weighted([]float64{1, -1}, 2)
	refused(err, "weight 1 is -1")
	_, err = Weighted([]float64{math.NaN()}, 2)
	refused(err, "NaN")
	_, err = Weighted([]float64{math.Inf(1)}, 2)
	refused(err, "Inf")
	_, err = Weighted([]float64{0, 0}, 2)
	refused(err, "above 0")
	_, err = Weighted(nil, 2)
	refused(err, "above 0")
	_, err = Weighted([]float64{1}, -1)
	refused(err, "draws")
	_, err = Mix(10, []Part{{Count: 0}}, []float64{1}, 5)
	refused(err, "no sample")
	_, err = Mix(10, []Part{{List: []int64{10}}}, []float64{1}, 5)
	refused(err, "sample 10")
	_, err = Mix(10, nil, []float64{1}, 5)
	refused(err, "weights")
	_, err = Mix(maxWeighted+1, []Part{{Stride: 1, Count: maxWeighted + 1}}, []float64{1}, 5)
	refused(err, "more than 1073741824 samples")
	for _, part := range []Part{
		{List: []int64{-1}}, {List: []int64{3, 3}}, {Count: -1}, {First: 5, Stride: 1, Count: 6}, {First: 5, Count: 2},
		{First: 0, Stride: 1 << 61, Count: 9}, {First: 1, Stride: math.MinInt64, Count: 2}, {First: 10, Count: 1},
	} {
		_, err = Subset(10, part)
		require.Error(t, err, "%+v", part)
	}
	s, err := Weighted([]float64{1, 1}, 2)
	require.NoError(t, err)
	for _, c := range []Config{{Samples: 3, Shuffle: true}, {Samples: 2}, {Samples: 2, Shuffle: true, Window: 2}} {
		c.Selection, c.BatchSize = s, 1
		_, err = New(c)
		require.Error(t, err)
	}
}
