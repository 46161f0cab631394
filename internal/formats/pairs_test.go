package formats

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func pairsOf(t *testing.T, first, second string, rule PairRule) (all [][2]string) {
	t.Helper()
	a, b, err := ListPairs(first, second, rule)
	require.NoError(t, err)
	require.Equal(t, a.Len(), b.Len())
	for i := range a.Len() {
		all = append(all, [2]string{string(a.Bytes(i)), string(b.Bytes(i))})
	}
	return all
}

func TestPairsAreFilesWhosePathsDifferOnlyInSuffixAndExtension(t *testing.T) {
	first, second, other := t.TempDir(), t.TempDir(), t.TempDir()
	touch(t, first, "b-x.png", "a/z-x.JPG", "a/y-x.jpg", "a/y-other.jpg", "a-b/q-x.png", "notes.txt", "c/.jpg")
	touch(t, second, "b-y.jpg", "a/z-y.png", "a/y-y.png", "linked.png")
	touch(t, other, "q-y.png")
	require.NoError(t, os.Symlink(other, filepath.Join(second, "a-b")))
	require.NoError(t, os.Symlink("..", filepath.Join(second, "a", "up")))
	require.Equal(t, [][2]string{
		{"b-x.png", "b-y.jpg"}, {"a/y-x.jpg", "a/y-y.png"}, {"a/z-x.JPG", "a/z-y.png"}, {"a-b/q-x.png", "a-b/q-y.png"},
	}, pairsOf(t, first, second, PairRule{Suffixes: [2]string{"-x", "-y"}}))
}

func TestFilesOfOneNameInDifferentFoldersAreNoPair(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	touch(t, first, "a/1.png", "b/1.png")
	touch(t, second, "b/1.png", "c/1.png")
	_, _, err := ListPairs(first, second, PairRule{})
	require.ErrorIs(t, err, ErrBad)
	require.ErrorContains(t, err, "1 of 2 images of "+first+" have no partner in "+second+": a/1.png")
	require.Equal(t, [][2]string{{"b/1.png", "b/1.png"}}, pairsOf(t, first, second, PairRule{Skip: true}))
	touch(t, second, "a/1.png")
	_, _, err = ListPairs(first, second, PairRule{})
	require.ErrorContains(t, err, "1 of 3 images of "+second+" have no partner in "+first+": c/1.png")
}

func TestAFolderOfPairsThatIsMissingOrEmptyIsNamedAsItWasGiven(t *testing.T) {
	first, second := t.TempDir(), filepath.Join(t.TempDir(), "second")
	touch(t, first, "1.png")
	_, _, err := ListPairs(first, second, PairRule{})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, second+": no such file")
	require.NoError(t, os.Mkdir(second, 0o755))
	_, _, err = ListPairs(first, second, PairRule{})
	require.ErrorContains(t, err, "found no image in "+second+". Supported")
	_, _, err = ListPairs(first, second, PairRule{Suffixes: [2]string{"", "-y"}})
	require.ErrorContains(t, err, "found no image in "+second+` whose name ends with "-y". Supported`)
}
