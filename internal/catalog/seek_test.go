package catalog

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/headrace/headrace/internal/fault"
	"github.com/stretchr/testify/require"
)

// openFails opens a dataset that cannot be opened.
func openFails(t *testing.T, dir string) *Error {
	_, err := Open(dir, Options{})
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, filepath.Join(dir, SeekFileName(0)), e.File)
	return e
}

func TestASeekFileThatIsMissingOrHasAnotherLengthOrHeaderIsAnErrorAtOpen(t *testing.T) {
	dir := writeDataset(t, 10)
	path := filepath.Join(dir, SeekFileName(0))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, size := range []int{0, 1, SeekHeadBytes, len(whole) - 1} {
		require.NoError(t, os.WriteFile(path, whole[:size], 0o644))
		require.Equal(t, fault.KindTruncated, openFails(t, dir).Kind, "%d bytes", size)
	}
	require.NoError(t, os.WriteFile(path, append(bytes.Clone(whole), 0), 0o644))
	require.Equal(t, fault.KindBadFile, openFails(t, dir).Kind)
	for at := range SeekHeadBytes {
		data := bytes.Clone(whole)
		data[at] ^= 1
		require.NoError(t, os.WriteFile(path, data, 0o644))
		require.Equal(t, fault.KindBadFile, openFails(t, dir).Kind, "byte %d", at)
	}
	require.NoError(t, os.Remove(path))
	require.Equal(t, fault.KindIO, openFails(t, dir).Kind)
	require.NoError(t, os.Mkdir(path, 0o755))
	openFails(t, dir)
}

func TestSeekPointsWithoutASeekFileAreAnErrorThatNamesTheRecord(t *testing.T) {
	dir := writeDataset(t, 10)
	m, _ := load(t, dir)
	m.Seek = nil
	writeManifest(t, dir, m)
	d, err := Open(dir, Options{})
	require.NoError(t, err)
	defer d.Release()
	_, err = d.Sample(5)
	require.ErrorContains(t, err, "record 0")
	require.ErrorContains(t, err, "no seek file")
}

func TestAnOpenSeekFileIsStillReadAfterItWasRemoved(t *testing.T) {
	dir := writeDataset(t, 10)
	d, err := Open(dir, Options{})
	require.NoError(t, err)
	defer d.Release()
	require.NoError(t, os.Remove(filepath.Join(dir, SeekFileName(0))))
	require.NoError(t, checkSeekFile(d.SeekFile(), SeekHeadBytes+10*seekStride))
}
