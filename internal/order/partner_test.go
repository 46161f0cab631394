package order

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// This goes over every row of every step, for every way to split the step among ranks.
func TestPartnersInAStepAreTheSameForAnyNumberOfRanks(t *testing.T) {
	for _, pairing := range []Pairing{Before, Neighbours} {
		for samples := int64(1); samples < 14; samples++ {
			for _, world := range []int64{1, 2, 3, 4, 5} {
				for batch := int64(1); batch < 5; batch++ {
					for _, pad := range []bool{false, true} {
						requirePartners(t, pairing, Config{Samples: samples, BatchSize: batch, WorldSize: world, Pad: pad})
					}
				}
			}
		}
	}
}

func requirePartners(t *testing.T, pairing Pairing, c Config) {
	t.Helper()
	alone := mustOrder(t, Config{Samples: c.Samples, BatchSize: c.BatchSize * c.WorldSize})
	for at := int64(0); !alone.Ended(at); {
		_, total, after := alone.Batch(at)
		seen := int64(0)
		var step Step
		for rank := range c.WorldSize {
			c.Rank = rank
			o := mustOrder(t, c)
			first, count, next := o.Batch(at)
			require.Equal(t, after, next)
			step = o.StepAt(at)
			require.Equal(t, at, step.Begin)
			require.Equal(t, at+seen, first)
			seen += count
			foreign := pairing.Foreign(first-at, count, step.Total)
			require.LessOrEqual(t, len(foreign), 1+int(pairing))
			inside := map[int64]bool{}
			for i := range count {
				inside[first-at+i] = true
			}
			for _, place := range foreign {
				require.False(t, inside[place], "a sample of another rank is decoded twice")
				inside[place] = true
			}
			for i := range count {
				place := first - at + i
				partner := pairing.Partner(place, step.Total)
				require.True(t, inside[partner], "%+v: %d of %d takes %d", c, place, step.Total, partner)
				require.Equal(t, place, pairing.Taker(partner, step.Total))
			}
		}
		require.Equal(t, seen, step.Total)
		if !c.Pad {
			require.Equal(t, total, step.Total, "the step of all ranks is not the batch that a single rank has")
		}
		at = after
	}
}

func TestPairsOfNeighboursNeedNoSamplesOfOtherRanksIfARankHasAnEvenNumber(t *testing.T) {
	for _, first := range []int64{0, 8, 16} {
		require.Empty(t, Neighbours.Foreign(first, 8, 24))
	}
	require.Equal(t, []int64{7}, Before.Foreign(8, 8, 24))
	require.Equal(t, []int64{23}, Before.Foreign(0, 8, 24))
	require.Empty(t, Before.Foreign(0, 24, 24))
	require.Equal(t, "[2 7]", fmt.Sprint(Neighbours.Foreign(3, 4, 9)))
}
