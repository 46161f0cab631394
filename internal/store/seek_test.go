package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/mmap"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheSeekPointsOfEverySampleAreReadAsTheirBytes(t *testing.T) {
	eachBackend(t, func(t *testing.T, o mmap.Options) {
		want := newPacked(t, 2, 9)
		s, d := openSet(t, want.root, o)
		b := buffer(t)
		for i := range d.Len() {
			view, err := s.ReadSeek(sample(t, d, i), b)
			require.NoError(t, err)
			require.Equal(t, string(want.points[i]), string(view.Bytes()), "sample %d", i)
		}
	})
}

func TestSeekPointsAreReadAfterANewIndexRemovedTheirFile(t *testing.T) {
	want := newPacked(t, 1, 4)
	d, err := catalog.Open(want.root, catalog.Options{})
	require.NoError(t, err)
	defer d.Release()
	require.NoError(t, os.Remove(filepath.Join(want.root, catalog.SeekFileName(0))))
	s, err := Open(d, Options{MaxRecordBytes: 1 << 20})
	require.NoError(t, err)
	defer s.Close()
	view, err := s.ReadSeek(sample(t, d, 1), buffer(t))
	require.NoError(t, err)
	assert.Equal(t, want.points[1], view.Bytes())
}

func TestSeekPointsOutsideTheFileOrOverTheLimitAreErrorsThatNameTheRecord(t *testing.T) {
	want := newPacked(t, 1, 4)
	s, d := openSet(t, want.root, mmap.Options{})
	b := buffer(t)
	for text, place := range map[string]catalog.SeekPlace{
		"max_record_bytes": {Offset: 16, Length: 1<<20 + 1},
		"record":           {Offset: int64(len(want.seek)), Length: 1},
	} {
		forged := sample(t, d, 1)
		forged.Seek = place
		_, err := s.ReadSeek(forged, b)
		assert.ErrorContains(t, err, text)
		assert.ErrorContains(t, err, "record 1")
		assert.ErrorContains(t, err, catalog.SeekFileName(0))
	}
}

func TestWarmReadsOfSeekPointsAllocateNothingOnTheGoHeap(t *testing.T) {
	eachBackend(t, func(t *testing.T, o mmap.Options) {
		want := newPacked(t, 1, 6)
		s, d := openSet(t, want.root, o)
		b := buffer(t)
		found := sample(t, d, 1)
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			if _, err := s.ReadSeek(found, b); err != nil {
				panic(err)
			}
		}))
	})
}

func BenchmarkReadSeek(b *testing.B) {
	dir := b.TempDir()
	w, err := catalog.NewWriter(filepath.Join(dir, catalog.IndexFileName(0)), catalog.Packed, nil)
	require.NoError(b, err)
	const samples, length = 4096, 2000
	for i := range int64(samples) {
		require.NoError(b, w.Append(&catalog.Row{Key: key(0, int(i)), Sample: catalog.Sample{Offset: 512 * (i + 1), Length: 1,
			Verdict: catalog.Good, Facts: facts, Seek: catalog.SeekPlace{Offset: 16 + length*i, Length: length}}}))
	}
	m, err := w.Finish()
	require.NoError(b, err)
	m.Index.Name, m.Shards = catalog.IndexFileName(0), []catalog.ShardInfo{{Name: catalog.ShardName(0), Size: 1 << 30, Rows: samples}}
	m.Seek = &catalog.SeekFile{Name: catalog.SeekFileName(0), Size: 16 + length*samples, Samples: samples}
	text, err := m.Encode()
	require.NoError(b, err)
	require.NoError(b, os.WriteFile(filepath.Join(dir, m.Seek.Name), append(catalog.SeekHead(), make([]byte, length*samples)...), 0o600))
	require.NoError(b, os.WriteFile(filepath.Join(dir, catalog.ManifestName), text, 0o600))
	d, err := catalog.Open(dir, catalog.Options{})
	require.NoError(b, err)
	defer d.Release()
	s, err := Open(d, Options{MaxRecordBytes: 1 << 20})
	require.NoError(b, err)
	defer s.Close()
	buffer := new(mmap.Buffer)
	defer buffer.Free()
	for i := int64(0); b.Loop(); i++ {
		found, _ := d.Sample(i * 2654435761 % samples)
		if _, err := s.ReadSeek(found, buffer); err != nil {
			b.Fatal(err)
		}
	}
}
