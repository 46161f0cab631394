package pipeline

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/parts"
)

func TestTheUsesOfSubmittedSamplesAreKnownUntilTheyAreDeliveredOrDropped(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 20))
	c := newChosen()
	begin, all := uint64(1), []int64{} // the numbers of all known uses
	for range 300 {
		switch {
		case random.IntN(20) == 0:
			begin, all = begin+uint64(len(all)), nil
			require.Equal(t, begin, c.drop())
		case len(all) > 0 && random.IntN(2) == 0:
			count := random.IntN(len(all)) + 1
			begin, all = begin+uint64(count), all[count:]
			require.Equal(t, begin, c.delivered(int64(count)))
		default:
			indices := make([]int64, random.IntN(8))
			for i := range indices {
				indices[i] = random.Int64N(6)
			}
			require.Equal(t, begin+uint64(len(all)), c.add(indices))
			all = append(all, indices...)
		}
		require.Equal(t, begin+uint64(len(all)), c.known())
		for sample := range int64(7) {
			for number := begin - 1; number <= begin+uint64(len(all)); number++ {
				want := parts.Unknown | number
				for i, one := range all {
					if at := begin + uint64(i); one == sample && at >= number {
						want = at
						break
					}
				}
				require.Equal(t, want, c.after(sample, number))
			}
		}
	}
	require.LessOrEqual(t, len(c.ends), 6)
}
