package catalog

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFilesByRelativeAndAbsolutePathsAreFoundFromOneRoot(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"here/a.tar", "here/sub/b.tar", "there/c.tar", "here" + dir + "/there/c.tar"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	t.Chdir(filepath.Join(dir, "here"))
	absolute := filepath.Join(dir, "there", "c.tar") // below the working directory there is another file of this path
	for _, files := range [][]string{
		{"a.tar"}, {"a.tar", "sub/b.tar"}, {absolute}, {absolute, filepath.Join(dir, "here", "a.tar")},
		{"a.tar", absolute}, {absolute, "sub/b.tar"}, {"../there/c.tar", "a.tar"}, {"a.tar", "../there/c.tar"}, {"../there/c.tar", absolute + "x"},
	} {
		if last := len(files) - 1; files[last] == absolute+"x" {
			require.NoError(t, os.WriteFile(files[last], nil, 0o644))
		}
		root, names := CommonRoot(files)
		for i, file := range files {
			require.True(t, filepath.IsLocal(names[i]), "%v: %s below %s", files, names[i], root)
			want, err := os.Stat(file)
			require.NoError(t, err)
			found, err := os.Stat(filepath.Join(root, names[i]))
			require.NoError(t, err)
			require.True(t, os.SameFile(want, found), "%v: %s below %s", files, names[i], root)
		}
	}
}
