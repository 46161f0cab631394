package catalog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/blocks"
)

// tableOf is a dataset of one container whose samples lie in the blocks at these offsets, 0 for none.
func tableOf(t *testing.T, inBlocks bool, offsets ...int64) *Dataset {
	table := &Table{Shards: []ShardInfo{{Name: "a.parquet", Size: 1 << 20}}}
	table.Source.Blocks = inBlocks
	for i, offset := range offsets {
		place := BlockPlace{}
		if offset > 0 {
			place = BlockPlace{Stored: 10, Size: uint32(1000 * offset), Inner: uint32(i), Codec: blocks.Zstd}
		}
		table.Shard, table.Offset, table.Length = append(table.Shard, 0), append(table.Offset, offset), append(table.Length, 1)
		table.Label, table.Blocks = append(table.Label, 0), append(table.Blocks, place)
		table.Keys.Append(string(rune('a' + i)))
	}
	d, err := FromTable(table)
	require.NoError(t, err)
	t.Cleanup(d.Release)
	return d
}

func TestSamplesOfOneBlockBelongToOneStretchWhateverTheirIndices(t *testing.T) {
	s, err := tableOf(t, true, 1, 1, 2, 1, 0, 0, 3, 2, 0).Stretches()
	require.NoError(t, err)
	require.Equal(t, &Stretches{Of: []uint32{0, 0, 1, 0, 2, 2, 3, 1, 4}, Bytes: []int64{1000, 2000, 0, 3000, 0}}, s)
	s, err = tableOf(t, true, make([]int64, looseNeighbours+1)...).Stretches()
	require.NoError(t, err)
	require.Equal(t, []int64{0, 0}, s.Bytes, "a stretch has at most looseNeighbours samples without a block")
}

func TestOnlyDatasetsInBlocksHaveStretches(t *testing.T) {
	plain, packed := tableOf(t, false, 1, 2), tableOf(t, true, 1, 2)
	s, err := plain.Stretches()
	require.NoError(t, err)
	require.Nil(t, s)
	both, err := Concat([]*Dataset{plain, packed, packed}, nil)
	require.NoError(t, err)
	defer both.Release()
	s, err = both.Stretches()
	require.NoError(t, err)
	require.Equal(t, []uint32{0, 1, 2, 3, 4, 5}, s.Of, "containers of several datasets do not share stretches")
}

func TestBlocksThatSamplesShareAreCountedUpToAGivenSize(t *testing.T) {
	d := tableOf(t, true, 1, 1, 2, 1, 0, 3, 2, 4)
	for _, c := range []struct {
		enough int64
		want   SharedBlocks
	}{{1 << 40, SharedBlocks{4, 10000, 7, false}}, {10000, SharedBlocks{4, 10000, 7, false}}, {2999, SharedBlocks{2, 3000, 4, true}}} {
		s, err := d.SharedBlocks(c.enough)
		require.NoError(t, err)
		require.Equal(t, c.want, s)
	}
	both, err := Concat([]*Dataset{tableOf(t, false, 1, 2), d, d}, nil)
	require.NoError(t, err)
	defer both.Release()
	s, err := both.SharedBlocks(1 << 40)
	require.NoError(t, err)
	require.Equal(t, SharedBlocks{8, 20000, 14, false}, s)
}

func TestABlockOfOneSampleOrOfJoinedPartsIsNotShared(t *testing.T) {
	alone, joined := tableOf(t, true, 1, 2), tableOf(t, true, 1, 1)
	whole := tableOf(t, true, 1, 1)
	for i := range 2 {
		joined.table.Blocks[i].Codec = blocks.RecordIO
		whole.table.Length[i] = whole.table.Blocks[i].Size
	}
	for _, d := range []*Dataset{alone, joined, whole, tableOf(t, false, 1, 1)} {
		s, err := d.SharedBlocks(1 << 40)
		require.NoError(t, err)
		require.Equal(t, SharedBlocks{}, s)
	}
}

func TestACompressedChunkOfAnArrayIsAStretch(t *testing.T) {
	d, err := FromArrays(chunked(t), nil, nil)
	require.NoError(t, err)
	defer d.Release()
	s, err := d.Stretches()
	require.NoError(t, err)
	require.Equal(t, &Stretches{Of: []uint32{0, 0, 0, 0, 0, 0, 1, 1, 1, 1}, Bytes: []int64{360, 360}}, s)
	shared, err := d.SharedBlocks(0)
	require.NoError(t, err)
	require.Equal(t, SharedBlocks{2, 720, 10, false}, shared)
}
