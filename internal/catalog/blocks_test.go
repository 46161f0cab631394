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
	require.Equal(t, []int{blocksVersion, blocksReader}, []int{m.Version, m.MinReader})
	data, err := m.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, ManifestName), data, 0o644))
	d, err := Open(dir, Options{})
	require.NoError(t, err)
	defer d.Release()
	return d.Sample(0)
}

func TestASampleInABlockIsWhatTheIndexSays(t *testing.T) {
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
		"behind the container":  {101, 10, BlockPlace{Stored: 900, Size: 5000, Codec: blocks.Zstd}},
		"behind the block":      {100, 11, BlockPlace{Stored: 900, Size: 5000, Inner: 4990, Codec: blocks.Zstd}},
		"it begins behind it":   {100, 0, BlockPlace{Stored: 900, Size: 5000, Inner: 5001, Codec: blocks.Zstd}},
		"sums that wrap around": {100, 1, BlockPlace{Stored: 900, Size: 1<<32 - 1, Inner: 1<<32 - 1, Codec: blocks.Zstd}},
		"a bomb":                {100, 1, BlockPlace{Stored: 900, Size: blocks.MostBytes + 1, Codec: blocks.Zstd}},
		"an unknown codec":      {100, 1, BlockPlace{Stored: 900, Size: 1, Codec: 99}},
	} {
		_, err := inBlocks(t, of.offset, of.length, of.b)
		require.Error(t, err, what)
	}
}

func TestAnImageWithoutAHeaderHasTheBytesOfItsPixels(t *testing.T) {
	raw := func(width, height uint32, length int64, b BlockPlace) (Sample, error) {
		s := Sample{Offset: 10, Length: length, Verdict: Good, Block: b}
		s.MakeRaw(RawSize{Width: width, Height: height, Channels: 3})
		s.Pixels = nil // an index has none: they follow from the size
		return indexed(t, s)
	}
	s, err := raw(5, 4, 60, BlockPlace{})
	require.NoError(t, err)
	require.Equal(t, &Pixels{Height: 4, Width: 5, Channels: 3, Row: 15, Pixel: 3, Channel: 1}, s.Pixels)
	for what, of := range map[string]struct {
		width, height uint32
		length        int64
		b             BlockPlace
	}{
		"fewer bytes":          {5, 4, 59, BlockPlace{}},
		"more":                 {5, 4, 61, BlockPlace{}},
		"a product that wraps": {1<<32 - 1, 1<<32 - 1, 3, BlockPlace{}},
		"in a block":           {5, 4, 60, BlockPlace{Stored: 60, Size: 60, Codec: blocks.Zstd}},
	} {
		_, err := raw(of.width, of.height, of.length, of.b)
		require.ErrorContains(t, err, "pixels without a header", what)
	}
}
