package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
)

func TestARunOfSeekPointsHasAscendingOffsetsAndFitsItsMemory(t *testing.T) {
	places := [][2]int64{{900, 50}, {0, 0}, {950, 50}, {980, 40}, {1020, 980}, {2000, 10}, {100, 2000}, {700, 20}}
	sampleAt := func(row int64) (sample catalog.Sample, err error) {
		sample.Index, sample.Seek.Offset, sample.Seek.Length = row, places[row][0], places[row][1]
		return sample, nil
	}
	var runs [][]int64
	for row := int64(0); row < int64(len(places)); {
		var run []catalog.Sample
		run, row = runOfPoints(sampleAt, row, int64(len(places)), 1020)
		var rows []int64
		for _, sample := range run {
			rows = append(rows, sample.Index)
		}
		runs = append(runs, rows)
	}
	require.Equal(t, [][]int64{{0, 2}, {3, 4}, {5}, {7}}, runs)
}
