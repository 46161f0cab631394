package pipeline

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/cache"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/pack"
)

// listed reads two epochs of an image folder's files by their paths, as a program lists them.
func listed(t testing.TB, paths []string) (hash string, found, kept int64) {
	t.Helper()
	d, err := catalog.FromFiles(paths, nil, nil)
	require.NoError(t, err)
	defer d.Release()
	return learningOf(t, d, 2)
}

func filesOf(t testing.TB, root string) []string {
	files, err := filepath.Glob(filepath.Join(root, "*", "*.jpg"))
	require.NoError(t, err)
	return files
}

func indexBeside(t testing.TB, c pack.IndexConfig) {
	t.Helper()
	_, err := pack.Index(context.Background(), c, nil)
	require.NoError(t, err)
}

// streamWithoutCache is the hash of two epochs without a cache.
func streamWithoutCache(t testing.TB, paths []string) string {
	t.Helper()
	dir := os.Getenv(cache.Variable)
	t.Setenv(cache.Variable, "off")
	defer t.Setenv(cache.Variable, dir)
	hash, _, kept := listed(t, paths)
	require.Zero(t, kept)
	return hash
}

func TestFilesOfAnIndexedFolderAreDecodedWithItsSeekPointsAndNothingIsLearned(t *testing.T) {
	root := folder(t, 12)
	paths := filesOf(t, root)
	some := [][]string{paths, paths[3:7]}
	var want []string
	for _, list := range some {
		want = append(want, streamWithoutCache(t, list))
	}
	indexBeside(t, pack.IndexConfig{Source: root})
	for _, place := range []string{"off", filepath.Join(t.TempDir(), "cache")} {
		t.Setenv(cache.Variable, place)
		for i, list := range some {
			hash, found, kept := listed(t, list)
			require.Equal(t, want[i], hash)
			require.GreaterOrEqual(t, found, int64(2*len(list)))
			require.Zero(t, kept)
		}
	}
}

func TestSeekPointsAreLearnedOfFilesAddedOrChangedSinceIndexing(t *testing.T) {
	root := folder(t, 12)
	indexBeside(t, pack.IndexConfig{Source: root})
	cached(t)
	paths := filesOf(t, root)
	longer, err := os.ReadFile(paths[2])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(paths[2], append(longer, 0), 0o600))
	require.NoError(t, os.Chtimes(paths[5], time.Unix(1e9, 0), time.Unix(1e9, 0)))
	added := filepath.Join(filepath.Dir(paths[0]), "added.jpg")
	require.NoError(t, os.WriteFile(added, wide(t, 40), 0o600))
	paths = append(paths, added)
	want := streamWithoutCache(t, paths)
	hash, found, kept := listed(t, paths)
	require.Equal(t, want, hash)
	require.EqualValues(t, 3, kept)
	require.GreaterOrEqual(t, found, int64(2*len(paths)-3-meanwhile))
}

func TestAnIndexedFileThatWasReplacedWithItsSizeAndTimeKeptGivesItsOwnPixels(t *testing.T) {
	root := folder(t, 6)
	paths := filesOf(t, root)
	for i, path := range paths { // all of the same size, so that each can replace another
		data := wide(t, i)
		require.NoError(t, os.WriteFile(path, append(data, make([]byte, 60000-len(data))...), 0o600))
	}
	indexBeside(t, pack.IndexConfig{Source: root})
	old := streamWithoutCache(t, paths)
	replace(t, root, len(paths))
	want := streamWithoutCache(t, paths)
	require.NotEqual(t, old, want)
	cached(t)
	hash, _, kept := listed(t, paths)
	require.Equal(t, want, hash)
	require.EqualValues(t, len(paths), kept, "learned again")
	hash, _, kept = listed(t, paths)
	require.Equal(t, want, hash)
	require.Zero(t, kept, "learned seek points are found before those of the outdated index")
}

func TestSeekPointsAreLearnedIfTheIndexIsElsewhereOrDamaged(t *testing.T) {
	root := folder(t, 6)
	paths := filesOf(t, root)
	want := streamWithoutCache(t, paths)
	cached(t)
	indexBeside(t, pack.IndexConfig{Source: root, IndexDir: t.TempDir()})
	hash, _, kept := listed(t, paths)
	require.Equal(t, want, hash)
	require.EqualValues(t, len(paths), kept)

	for _, name := range []string{catalog.ManifestName, "headrace-index-*", "headrace-seek-*"} {
		indexBeside(t, pack.IndexConfig{Source: root})
		files, err := filepath.Glob(filepath.Join(root, name))
		require.NoError(t, err)
		require.Len(t, files, 1)
		file := files[0]
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.Remove(file)) // another file: an index is never changed in its place
		data = bytes.Clone(data)
		for at := len(data) / 3; at < len(data); at += 11 {
			data[at] ^= 0x55
		}
		require.NoError(t, os.WriteFile(file, data, 0o600))
		cached(t)
		hash, _, kept := listed(t, paths)
		require.Equal(t, want, hash, name)
		require.Positive(t, kept, name)
	}
}
