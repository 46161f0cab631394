package store

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/mmap"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// openAll opens the concatenation of some sets.
func openAll(t *testing.T, o mmap.Options, sets ...set) (*Store, *catalog.Dataset, set) {
	t.Helper()
	var list []*catalog.Dataset
	var all set
	for _, one := range sets {
		d, err := catalog.Open(one.root, catalog.Options{})
		require.NoError(t, err)
		list = append(list, d)
		all.bytes = append(all.bytes, one.bytes...)
		all.points = append(all.points, slices.Concat(one.points, make([][]byte, len(one.bytes)-len(one.points)))...)
	}
	d, err := catalog.Concat(list, nil)
	require.NoError(t, err)
	s, err := Open(d, Options{Options: o, MaxRecordBytes: 1 << 20})
	require.NoError(t, err)
	for _, one := range append(list, d) {
		one.Release()
	}
	t.Cleanup(s.Close)
	return s, d, all
}

func TestBytesAndSeekPointsOfAConcatenationAreThoseOfItsParts(t *testing.T) {
	eachBackend(t, func(t *testing.T, o mmap.Options) {
		before := countDescriptors(t)
		s, d, want := openAll(t, o, newPacked(t, 3, 4), newIndexed(t, 5), newPacked(t, 2, 6))
		s.shards.most = 2 // of the shards of all parts together
		var group sync.WaitGroup
		for g := range 8 {
			group.Go(func() {
				var b, points mmap.Buffer
				defer b.Free()
				defer points.Free()
				for i := range 100 {
					n := (g*31 + i*17) % len(want.bytes)
					found, err := d.Sample(int64(n))
					if !assert.NoError(t, err) {
						return
					}
					view, err := s.Read(found, &b)
					if !assert.NoError(t, err) || !assert.True(t, bytes.Equal(want.bytes[n], view.Bytes()), "sample %d", n) {
						return
					}
					seek, err := s.ReadSeek(found, &points)
					if !assert.NoError(t, err) || !assert.Equal(t, string(want.points[n]), string(seek.Bytes()), "sample %d", n) {
						return
					}
				}
			})
		}
		group.Wait()
		s.WillNeed(0, d.Len()) // over the ends of shards and parts
		s.Close()
		require.LessOrEqual(t, countDescriptors(t), before)
	})
}

func TestAFaultInAPartNamesThePartsShardAndTheConcatenationsRecord(t *testing.T) {
	eachBackend(t, func(t *testing.T, o mmap.Options) {
		cut := newPacked(t, 2, 5)
		path := filepath.Join(cut.root, catalog.ShardName(1))
		require.NoError(t, os.Truncate(path, 20_000))
		s, d, _ := openAll(t, o, newIndexed(t, 3), newPacked(t, 1, 4), cut)
		b := buffer(t)
		_, err := s.Read(sample(t, d, 7), b) // its first shard is whole
		require.NoError(t, err)
		_, err = s.Read(sample(t, d, 3+4+9), b)
		var e *catalog.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, path, e.File)
		assert.Equal(t, fault.KindTruncated, e.Kind)
		assert.Equal(t, int64(16), e.Record)
		assert.Equal(t, key(1, 4), e.Key)
		assert.True(t, s.Lost(sample(t, d, 16)))
		assert.False(t, s.Lost(sample(t, d, 0)))
	})
}
