package catalog

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/blocks"
)

// inBlocks opens an index of one container of 1,000 bytes with one sample in a block of it.
func inBlocks(t *testing.T, offset, length int64, b BlockPlace) (Sample, error) {
	return indexed(t, Sample{Offset: offset, Length: length, Verdict: Bad, Block: b})
}

func indexed(t *testing.T, s Sample) (Sample, error) {
	dir := t.TempDir()
	w, err := NewWriterInBlocks(filepath.Join(dir, IndexFileName(0)), Contained, true, nil)
	require.NoError(t, err)
	row := Row{Sample: s, Key: "k"}
	require.NoError(t, w.Append(&row))
	m, err := w.Finish()
	require.NoError(t, err)
	m.Index.Name, m.Root, m.Source = IndexFileName(0), ".", &SourceInfo{Format: "parquet", Blocks: true}
	m.Shards = []ShardInfo{{Name: "a.parquet", Size: 1000, Rows: 1, Ends: hexCRC(0)}}
	want := []int{blocksVersion, blocksReader}
	if s.newlyRaw() {
		want = []int{inBlocksVersion, inBlocksReader}
	}
	require.Equal(t, want, []int{m.Version, m.MinReader})
	data, err := m.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, ManifestName), data, 0o644))
	d, err := Open(dir, Options{})
	require.NoError(t, err)
	defer d.Release()
	return d.Sample(0)
}

func TestASampleInABlockIsReadBackFromTheIndex(t *testing.T) {
	b := BlockPlace{Stored: 900, Size: 5000, Inner: 4990, Codec: blocks.Zstd}
	s, err := inBlocks(t, 100, 10, b)
	require.NoError(t, err)
	require.Equal(t, b, s.Block)
	require.Equal(t, int64(900), s.Stored())
	require.Equal(t, blocks.Block{Offset: 100, Stored: 900, Size: 5000, Codec: blocks.Zstd}, s.InBlock())
}

func TestImpossibleBlocksOfAnIndexAreErrors(t *testing.T) {
	for what, of := range map[string]struct {
		offset, length int64
		b              BlockPlace
	}{
		"behind the container":    {101, 10, BlockPlace{Stored: 900, Size: 5000, Codec: blocks.Zstd}},
		"behind the block":        {100, 11, BlockPlace{Stored: 900, Size: 5000, Inner: 4990, Codec: blocks.Zstd}},
		"begins behind the block": {100, 0, BlockPlace{Stored: 900, Size: 5000, Inner: 5001, Codec: blocks.Zstd}},
		"sums that wrap around":   {100, 1, BlockPlace{Stored: 900, Size: 1<<32 - 1, Inner: 1<<32 - 1, Codec: blocks.Zstd}},
		"a bomb":                  {100, 1, BlockPlace{Stored: 900, Size: blocks.MostBytes + 1, Codec: blocks.Zstd}},
		"an unknown codec":        {100, 1, BlockPlace{Stored: 900, Size: 1, Codec: 99}},
	} {
		_, err := inBlocks(t, of.offset, of.length, of.b)
		require.Error(t, err, what)
	}
}

func TestAnImageWithoutAHeaderHasExactlyTheBytesOfItsSize(t *testing.T) {
	raw := func(size RawSize, length int64, b BlockPlace) (Sample, error) {
		s := Sample{Offset: 10, Length: length, Verdict: Good, Block: b}
		s.MakeRaw(size)
		s.Pixels = nil // an index has none: they follow from the size
		return indexed(t, s)
	}
	block := BlockPlace{Stored: 60, Size: 90, Inner: 10, Codec: blocks.Zstd}
	for _, of := range []struct {
		size   RawSize
		length int64
		b      BlockPlace
		want   Pixels
	}{
		{RawSize{5, 4, 3, false, false}, 60, BlockPlace{}, Pixels{4, 5, 3, 0, 15, 3, 1}},
		{RawSize{5, 4, 3, false, false}, 60, block, Pixels{4, 5, 3, 0, 15, 3, 1}},
		{RawSize{5, 4, 3, true, false}, 60, BlockPlace{}, Pixels{4, 5, 3, 40, 5, 1, -20}},
		{RawSize{5, 4, 3, true, true}, 60, BlockPlace{}, Pixels{4, 5, 3, 0, 5, 1, 20}},
		{RawSize{5, 4, 4, false, false}, 80, BlockPlace{}, Pixels{4, 5, 4, 0, 20, 4, 1}},
		{RawSize{5, 4, 4, true, true}, 80, BlockPlace{}, Pixels{4, 5, 4, 0, 5, 1, 20}},
		{RawSize{5, 4, 2, false, false}, 40, BlockPlace{}, Pixels{4, 5, 1, 0, 10, 2, 1}},
		{RawSize{5, 4, 1, true, false}, 20, BlockPlace{}, Pixels{4, 5, 1, 0, 5, 1, -20}},
	} {
		s, err := raw(of.size, of.length, of.b)
		require.NoError(t, err)
		require.Equal(t, of.want, *s.Pixels)
		require.Equal(t, of.size, s.RawSize())
		require.Equal(t, of.b, s.Block)
	}
	for what, of := range map[string]struct {
		size   RawSize
		length int64
	}{
		"fewer bytes":              {RawSize{5, 4, 3, false, false}, 59},
		"more":                     {RawSize{5, 4, 3, false, false}, 61},
		"a product that wraps":     {RawSize{1<<32 - 1, 1<<32 - 1, 3, false, false}, 3},
		"five channels":            {RawSize{5, 4, 5, false, false}, 100},
		"planes of grey and alpha": {RawSize{5, 4, 2, true, false}, 40},
		"planes with alpha of BGR": {RawSize{5, 4, 4, true, false}, 80},
		"a single plane as BGR":    {RawSize{5, 4, 1, true, true}, 20},
		"grey that is not a plane": {RawSize{5, 4, 1, false, false}, 20},
	} {
		_, err := raw(of.size, of.length, BlockPlace{})
		require.ErrorContains(t, err, "pixels without a header", what)
	}
}
