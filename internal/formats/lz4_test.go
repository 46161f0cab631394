package formats

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnLZ4FrameThatCannotBeReadHasTheErrorOfItsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "frame")
	require.NoError(t, os.WriteFile(file, []byte(lz4Magic), 0o644))
	f, err := os.Open(file)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = ReadLZ4(f, 0, 1000, 1000, func([]byte) bool { return true })
	require.ErrorIs(t, err, os.ErrClosed)
}
