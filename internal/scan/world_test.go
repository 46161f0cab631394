package scan

import (
	"encoding/json"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/store"
	"github.com/headrace/headrace/mmap"
)

// sample is what the official reader of a container found.
type sample struct {
	Key     string            `json:"key"`
	Members map[string]uint32 `json:"members"` // the CRC-32 of each
}

// expected is what testdata/make.py, maketables.py, makewriters.py and makelitdata.py had the official readers find.
func expected(t *testing.T, file string) []sample {
	var all map[string][]sample
	for _, name := range []string{"expected.json", "tables.json", "writers.json", "litdata.json"} {
		require.NoError(t, json.Unmarshal(fixture(t, name), &all))
	}
	require.NotEmpty(t, all[file])
	return all[file]
}

func fixture(t testing.TB, name string) []byte {
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return data
}

// put writes files into a new folder.
func put(t testing.TB, files map[string][]byte) string {
	dir := t.TempDir()
	for name, data := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, data, 0o644))
	}
	return dir
}

func open(t testing.TB, source string, o Options) *catalog.Dataset {
	d, err := Open(source, o)
	require.NoError(t, err)
	t.Cleanup(d.Release)
	return d
}

// contents are the CRC-32 of every sample's image, read as a loader reads it.
func contents(t testing.TB, d *catalog.Dataset) []uint32 {
	s, err := store.Open(d, store.Options{MaxRecordBytes: 1 << 20})
	require.NoError(t, err)
	defer s.Close()
	var buffer mmap.Buffer
	defer buffer.Free()
	var all []uint32
	for i := range d.Len() {
		at, err := d.Sample(i)
		require.NoError(t, err)
		view, err := s.Read(at, &buffer)
		require.NoError(t, err)
		all = append(all, crc32.ChecksumIEEE(view.Bytes()))
	}
	return all
}

func keys(t testing.TB, d *catalog.Dataset) (all []string) {
	for i := range d.Len() {
		key, err := d.Key(i)
		require.NoError(t, err)
		all = append(all, key)
	}
	return all
}

func labels(t testing.TB, d *catalog.Dataset) (all []int64) {
	for i := range d.Len() {
		s, err := d.Sample(i)
		require.NoError(t, err)
		all = append(all, s.Label)
	}
	return all
}
