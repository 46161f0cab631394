package formats

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestObjectNamesAreListedAsTheSameFilesInAFolder(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{
		"b/2.jpg", "b/10.jpg", "b/deep/x.PNG", "b/deep/a.txt", "b/dee/p.jpg", "b/deep-/p.jpg", "a/1.jpeg", "a/\u00e9.webp", "a/.jpg",
		"a/1.avif", "a/3.AVIF", "avifs/1.avif", ".hidden/1.jpg", "B/1.tif", "loose.jpg", "notes.txt", "empty/readme.md", "a/b/c/d.bmp",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), nil, 0o644))
	}
	var names []string
	require.NoError(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, strings.TrimPrefix(path, root+"/"))
		}
		return err
	}))
	for _, more := range [][]string{nil, {".avif"}} {
		files, err := ListFolder(root, true, more)
		require.NoError(t, err)
		listed, err := ListNames(root, names, true, more)
		require.NoError(t, err)
		require.Equal(t, files.Classes, listed.Classes)
		require.Equal(t, files.Len(), listed.Len())
		for i := range files.Len() {
			require.Equal(t, files.Path(i), listed.Path(i))
			require.Equal(t, files.Label(i), listed.Label(i))
		}
		_, expected := ListFolder(root, false, more)
		_, found := ListNames(root, names, false, more)
		require.Equal(t, expected, found)
	}
}

func TestObjectNamesWithoutAClassFolderOrTooLongAreErrors(t *testing.T) {
	_, err := ListNames("s3://bucket/folder", []string{"a.jpg", "b.txt", "/c.jpg"}, true, nil)
	require.ErrorIs(t, err, ErrEmpty)
	_, err = ListNames("s3://bucket/folder", []string{"a/" + strings.Repeat("b", MaxNameBytes) + ".jpg"}, true, nil)
	require.ErrorIs(t, err, ErrLimit)
}
