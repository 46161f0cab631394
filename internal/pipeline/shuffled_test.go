package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/order"
)

// inBlocks is a dataset of a container that does not exist, with so many blocks of four samples.
func inBlocks(t *testing.T, count int, size uint32) *catalog.Dataset {
	table := &catalog.Table{Shards: []catalog.ShardInfo{{Name: "a.parquet", Size: 1 << 40}}}
	table.Source.Blocks = true
	for i := range 4 * count {
		table.Shard, table.Offset, table.Length = append(table.Shard, 0), append(table.Offset, int64(i/4)<<20), append(table.Length, 1000)
		table.Label = append(table.Label, 0)
		table.Blocks = append(table.Blocks, catalog.BlockPlace{Stored: 1 << 20, Size: size, Inner: uint32(1000 * i), Codec: blocks.Snappy})
		table.Keys.Append(string(rune('a' + i)))
	}
	d, err := catalog.FromTable(table)
	require.NoError(t, err)
	t.Cleanup(d.Release)
	return d
}

func TestAFullShuffleOverMoreBlocksThanAreCachedIsAWarningWithItsCost(t *testing.T) {
	before := usage(t)
	t.Cleanup(func() { requireNoLeaks(t, before) })
	large, small := inBlocks(t, 4, 200<<20), inBlocks(t, 2, 200<<20)
	l := open(t, large, settings{order.Config{Seed: 5, BatchSize: 4, Shuffle: true}, Config{Threads: 1}})
	require.Equal(t, "the images lie in more than 3 compressed blocks of 4 images and 204800 kB on average, of which 512 MB are kept: "+
		"in shuffled order nearly every image costs a whole block; shuffle=\"window\" decodes one for its neighbours, "+
		"and headrace pack makes shards, whose images cost the same in any order", l.Warning())
	told := open(t, large, settings{order.Config{BatchSize: 4}, Config{Threads: 1, Submitted: true, Scattered: true}})
	require.Contains(t, told.Warning(), `a whole block; headrace.Loader with shuffle="window" decodes one`)
	require.Empty(t, open(t, large, settings{order.Config{BatchSize: 4}, Config{Threads: 1, Submitted: true}}).Warning())
	t.Setenv("HEADRACE_CACHE_SIZE", "much")
	both := open(t, large, settings{order.Config{Seed: 5, BatchSize: 4, Shuffle: true}, Config{Threads: 1}})
	require.Regexp(t, `(?s)^[^\n]*HEADRACE_CACHE_SIZE is "much"[^\n]*\nthe images lie in[^\n]*$`, both.Warning())
	t.Setenv("HEADRACE_CACHE_SIZE", "1073741824")
	for _, quiet := range []struct {
		of *catalog.Dataset
		order.Config
	}{{large, order.Config{BatchSize: 4}}, {large, order.Config{BatchSize: 4, Shuffle: true, Window: 8}}, {small, order.Config{BatchSize: 4, Shuffle: true}}} {
		require.Empty(t, open(t, quiet.of, settings{quiet.Config, Config{Threads: 1}}).Warning())
	}
}
