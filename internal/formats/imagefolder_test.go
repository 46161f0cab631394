package formats

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func touch(t testing.TB, root string, names ...string) {
	for _, n := range names {
		path := filepath.Join(root, n)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o644))
	}
}

func paths(l *Listing) (all []string) {
	for i := range l.Len() {
		all = append(all, l.Path(i))
	}
	return all
}

func TestAnImageFolderListsFilesWithImageExtensionsInAnyCaseAndNoOthers(t *testing.T) {
	root := t.TempDir()
	touch(t, root, "c/a.jpg", "c/b.JPEG", "c/c.PnG", "c/d.ppm", "c/e.bmp", "c/f.pgm", "c/g.tif", "c/h.TIFF", "c/i.webp",
		"c/j.gif", "c/k.jpgx", "c/l", "c/.jpg", "c/m.jpg.txt", "top.jpg")
	l, err := ListImageFolder(root, false)
	require.NoError(t, err)
	require.Equal(t, []string{"c/.jpg", "c/a.jpg", "c/b.JPEG", "c/c.PnG", "c/d.ppm", "c/e.bmp", "c/f.pgm", "c/g.tif", "c/h.TIFF", "c/i.webp"}, paths(l))
}

func TestSymbolicLinksAreFollowedAndLoopsOfThemEnd(t *testing.T) {
	root, other := t.TempDir(), t.TempDir()
	touch(t, root, "a/1.jpg", "a/deep/2.jpg")
	touch(t, other, "3.jpg")
	for link, target := range map[string]string{
		"b": other, "a/deep/up": "..", "a/deep/self": ".", "a/file.jpg": "1.jpg", "a/broken.jpg": "nowhere", "a/linked": other,
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(root, link)))
	}
	l, err := ListImageFolder(root, false)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, l.Classes)
	require.Equal(t, []string{"a/1.jpg", "a/broken.jpg", "a/file.jpg", "a/deep/2.jpg", "a/linked/3.jpg", "b/3.jpg"}, paths(l))
	require.EqualValues(t, 1, l.Label(5))
}

func TestALinkToAFolderThatContainsItIsNotFollowed(t *testing.T) {
	for name, links := range map[string]map[string]string{
		"the root, from inside a class":              {"root/a/up": ".."},
		"the root, by its whole path":                {"root/a/up": "ROOT/root"},
		"the folder that contains the root":          {"root/a/deep/up": "../../.."},
		"the root, through another folder":           {"root/b": "../other", "other/back": "../root"},
		"a folder above the root, through another":   {"root/b": "../other", "other/back": ".."},
		"the folder that contains the link's target": {"root/b": "../other/inner", "other/inner/up": ".."},
		"a folder above one on the way":              {"root/b": "../other/inner", "other/inner/next": "../../third", "third/back": "../other"},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			touch(t, top, "root/a/1.jpg", "root/a/deep/2.jpg", "other/3.jpg", "other/inner/4.jpg", "third/5.jpg")
			for link, target := range links {
				require.NoError(t, os.Symlink(strings.Replace(target, "ROOT", top, 1), filepath.Join(top, link)))
			}
			l, err := ListImageFolder(filepath.Join(top, "root"), false)
			require.NoError(t, err)
			seen := map[string]bool{}
			for _, path := range paths(l) {
				real, err := filepath.EvalSymlinks(filepath.Join(top, "root", path))
				require.NoError(t, err)
				require.False(t, seen[real], "%s comes twice", real)
				seen[real] = true
			}
			require.True(t, seen[filepath.Join(top, "root/a/1.jpg")] && seen[filepath.Join(top, "root/a/deep/2.jpg")])
		})
	}
}

func TestALinkToTheRootIsAnEmptyClassSoLabelsAreTorchvisions(t *testing.T) {
	for _, target := range []string{".", "..", "../../.."} {
		root := filepath.Join(t.TempDir(), "root")
		touch(t, root, "a/1.jpg", "c/2.jpg")
		require.NoError(t, os.Symlink(target, filepath.Join(root, "b")))
		l, err := ListImageFolder(root, false)
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b", "c"}, l.Classes)
		require.Equal(t, []string{"a/1.jpg", "c/2.jpg"}, paths(l))
		require.EqualValues(t, 2, l.Label(1))
	}
	alone := t.TempDir()
	require.NoError(t, os.Symlink(".", filepath.Join(alone, "c")))
	_, err := ListImageFolder(alone, true)
	require.ErrorIs(t, err, ErrEmpty)
	require.ErrorContains(t, err, "classes c.")
}

func TestSeveralLinksToAFolderElsewhereAreAllFollowed(t *testing.T) {
	root, other := t.TempDir(), t.TempDir()
	touch(t, other, "1.jpg")
	for _, link := range []string{"a", "b"} {
		require.NoError(t, os.Symlink(other, filepath.Join(root, link)))
	}
	l, err := ListImageFolder(root, false)
	require.NoError(t, err)
	require.Equal(t, []string{"a/1.jpg", "b/1.jpg"}, paths(l))
}

func TestAClassWithoutImagesIsAnErrorUnlessAllowed(t *testing.T) {
	root := t.TempDir()
	touch(t, root, "a/1.jpg", "b/none.txt")
	_, err := ListImageFolder(root, false)
	require.ErrorIs(t, err, ErrEmpty)
	require.ErrorContains(t, err, "classes b.")
	l, err := ListImageFolder(root, true)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, l.Classes)
	_, err = ListImageFolder(t.TempDir(), true)
	require.ErrorIs(t, err, ErrEmpty)
}

func TestNamesThatAreNotUTF8SortAsPythonSortsThem(t *testing.T) {
	// Python reads byte 0xFF as U+DCFF, which sorts after all lower code points and before U+E000 and emoji.
	require.Negative(t, compareNames("a\xff", "a\U0001F600"))
	require.Positive(t, compareNames("a\xff", "aü"))
	require.Negative(t, compareNames("a\x80", "a\xff"))
	require.Zero(t, compareNames("a\xff", "a\xff"))
	require.Negative(t, compareNames("a", "a\xff"))
}

func TestKeyIsThePathWithoutItsLastExtension(t *testing.T) {
	for path, key := range map[string]string{"a/b.jpg": "a/b", "a/b.c.jpg": "a/b.c", "a/.jpg": "a/.jpg", "a.b/c": "a.b/c", "x.png": "x"} {
		require.Equal(t, key, Key(path))
	}
}
