package parts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
)

func modeOf(t *testing.T, path string) os.FileMode {
	t.Helper()
	status, err := os.Stat(path)
	require.NoError(t, err)
	return status.Mode() & (os.ModePerm | os.ModeSticky)
}

func TestADirectoryOfOtherFilesKeepsItsModeAndItsFiles(t *testing.T) {
	names := []string{"data", "head", "entries", "buckets", "blocks", "lock"}
	for _, mode := range []os.FileMode{0o755, 0o777 | os.ModeSticky, 0o700} {
		dir := t.TempDir()
		for _, name := range names {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("the user's own"), 0o644))
		}
		require.NoError(t, os.Chmod(dir, mode))
		c, warning, err := Open(dir, 8<<20)
		if mode == 0o700 {
			require.NoError(t, err)
			require.Empty(t, warning)
			u := c.Join(Plan{Bytes: 8 << 20, Dataset: "d", Job: "j"})
			var s source
			s.one(t, u, 1, 5000, 0)
			u.Leave()
			c.Close()
		} else {
			require.Equal(t, fault.KindArgument, fault.KindOf(err))
			require.ErrorContains(t, err, "a directory for the cache alone, or one of mode 0700: this one is open to other users (mode ")
		}
		require.Equal(t, mode, modeOf(t, dir))
		for _, name := range names {
			content, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			require.Equal(t, "the user's own", string(content))
		}
	}
}

func TestAnEmptyDirectoryAndOneOfACacheAreClosedToOtherUsers(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // the second time it holds a cache
		require.NoError(t, os.Chmod(dir, 0o755))
		c := open(t, dir, 8<<20)
		require.Equal(t, os.FileMode(0o700), modeOf(t, dir))
		c.Close()
	}
}
