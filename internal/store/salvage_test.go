package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/mmap"
)

// openSalvage is openSet for a store that reads what a truncated shard still holds.
func openSalvage(t *testing.T, root string, o mmap.Options) (*Store, *catalog.Dataset) {
	t.Helper()
	_, d := openSet(t, root, o)
	s, err := Open(d, Options{Options: o, MaxRecordBytes: 1 << 20, Salvage: true})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s, d
}

func TestTheRecordsThatATruncatedShardStillHoldsAreSalvaged(t *testing.T) {
	eachBackend(t, func(t *testing.T, o mmap.Options) {
		want := newPacked(t, 2, 5)
		path := filepath.Join(want.root, catalog.ShardName(1))
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		last := sampleOf(t, want.root, 9)
		for _, cut := range []int64{0, 1, 511, 512, 513, last.Offset - 512, last.Offset, last.Offset + 1,
			last.Offset + last.Length - 1, last.Offset + last.Length, int64(len(whole)) - 1} {
			require.NoError(t, os.WriteFile(path, whole[:cut], 0o600))
			s, d := openSalvage(t, want.root, o)
			b := buffer(t)
			for i := range int64(10) {
				at := sample(t, d, i)
				inside := at.Shard == 0 || at.Offset+at.Length <= cut
				assert.Equal(t, !inside, s.Lost(at), "sample %d, cut at %d", i, cut)
				view, err := s.Read(at, b)
				if inside {
					require.NoError(t, err, "sample %d, cut at %d", i, cut)
					require.Equal(t, want.bytes[i], view.Bytes())
					continue
				}
				var e *catalog.Error
				require.ErrorAs(t, err, &e, "sample %d, cut at %d", i, cut)
				assert.Equal(t, fault.KindTruncated, e.Kind)
				assert.Equal(t, path, e.File)
				assert.Equal(t, i, e.Record)
				assert.NotEmpty(t, e.Key)
				assert.Equal(t, cut, e.Offset, "where the file ends")
				assert.Contains(t, e.Text, "expected 32256 bytes, found")
			}
			b.Free()
			s.Close()
		}
	})
}

func sampleOf(t *testing.T, root string, i int64) catalog.Sample {
	t.Helper()
	d, err := catalog.Open(root, catalog.Options{})
	require.NoError(t, err)
	defer d.Release()
	return sample(t, d, i)
}

func TestAllRecordsOfAMissingShardAreLost(t *testing.T) {
	want := newPacked(t, 2, 3)
	require.NoError(t, os.Remove(filepath.Join(want.root, catalog.ShardName(1))))
	s, d := openSalvage(t, want.root, mmap.Options{})
	for i := range int64(6) {
		assert.Equal(t, i >= 3, s.Lost(sample(t, d, i)))
	}
}

func TestTheErrorOfASwappedShardNamesTheShardWhoseSizeItHas(t *testing.T) {
	want := newPacked(t, 3, 3)
	one, two := filepath.Join(want.root, catalog.ShardName(1)), filepath.Join(want.root, catalog.ShardName(2))
	longer := []byte("longer")
	d, err := catalog.Open(want.root, catalog.Options{})
	require.NoError(t, err)
	defer d.Release()
	s, err := Open(d, Options{MaxRecordBytes: 1 << 20})
	require.NoError(t, err)
	defer s.Close()
	// As if shard 2 had been larger: the store has its size from the manifest.
	status, err := os.Stat(two)
	require.NoError(t, err)
	s.shards.list[2].size = status.Size() + int64(len(longer))
	data, err := os.ReadFile(one)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(one, append(data, longer...), 0o600))
	_, err = s.Read(sample(t, d, 3), buffer(t))
	var e *catalog.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, fault.KindBadFile, e.Kind)
	assert.Equal(t, status.Size(), e.Offset, "where it ought to end")
	assert.Contains(t, e.Text, filepath.Base(two))
}
