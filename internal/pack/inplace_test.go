package pack

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
)

func TestAnIndexedFolderHasTheListedSamplesAndThePackedFingerprint(t *testing.T) {
	checkNoLeaks(t)
	src := testFolder(t, 12)
	listed := open(t, src)
	_, p := packed(t, PackConfig{Source: src})
	s, err := Index(context.Background(), IndexConfig{Source: src}, nil)
	require.NoError(t, err)
	require.Equal(t, p.Fingerprint, s.Fingerprint)
	d := open(t, src)
	require.Equal(t, catalog.Indexed, d.Kind())
	require.Equal(t, listed.Classes(), d.Classes())
	for i := range listed.Len() {
		a, _ := listed.Path(i)
		b, err := d.Path(i)
		require.NoError(t, err)
		require.Equal(t, a, b)
		sample, err := d.Sample(i)
		require.NoError(t, err)
		info, err := os.Stat(b)
		require.NoError(t, err)
		require.Equal(t, info.ModTime().UnixNano(), sample.MTimeNs)
		require.Equal(t, info.Size(), sample.Length)
		l, _ := listed.Sample(i)
		require.Equal(t, l.Label, sample.Label)
	}
	r, err := Verify(context.Background(), VerifyConfig{Source: src, Decode: true}, nil)
	require.NoError(t, err)
	require.True(t, r.OK, "%+v", r.Faults)
}

func TestIndexingAgainReplacesTheOldIndexAndItsReadersKeepIt(t *testing.T) {
	checkNoLeaks(t)
	src := testFolder(t, 6)
	for n := range 4 {
		put(t, src, "class 0/more"+string(rune('a'+n))+".jpg", testJPEG(uint64(n)))
		var old *catalog.Dataset
		if n > 0 {
			old = open(t, src)
		}
		s, err := Index(context.Background(), IndexConfig{Source: src}, nil)
		require.NoError(t, err)
		require.Equal(t, s.Rows, open(t, src).Len())
		if n > 0 {
			_, err := old.Sample(old.Len() - 1)
			require.NoError(t, err)
			require.Equal(t, s.Rows-1, old.Len())
		}
		found, _ := filepath.Glob(filepath.Join(src, "*headrace*"))
		hidden, _ := filepath.Glob(filepath.Join(src, ".headrace*"))
		require.Len(t, found, 3) // manifest, index, seek points
		require.Empty(t, hidden)
	}
}

func TestTheIndexOfAFolderMayBeInAnotherDirectory(t *testing.T) {
	checkNoLeaks(t)
	src, elsewhere := testFolder(t, 6), filepath.Join(t.TempDir(), "a", "b")
	s, err := Index(context.Background(), IndexConfig{Source: src, IndexDir: elsewhere}, nil)
	require.NoError(t, err)
	d, err := catalog.Open(src, catalog.Options{IndexDir: elsewhere})
	require.NoError(t, err)
	defer d.Release()
	require.Equal(t, s.Rows, d.Len())
	require.Equal(t, catalog.Listed, open(t, src).Kind())
	path, err := d.Path(0)
	require.NoError(t, err)
	require.FileExists(t, path)
}
