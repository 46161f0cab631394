package mmap

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func identityOf(t *testing.T, path string) *Identity {
	t.Helper()
	var status unix.Stat_t
	require.NoError(t, unix.Stat(path, &status))
	return &Identity{status.Dev, status.Ino, Stamp{status.Size, status.Mtim.Nano()}}
}

func TestAnOpenFileIsReadFromItsBeginningAndKeepsItsOffset(t *testing.T) {
	checkNoLeaks(t)
	data := content(50_000)
	path, b := write(t, data), buffer(t)
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	_, err = file.Seek(777, 0)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	for range 2 {
		view, _, err := ReadSource(Source{path, int(file.Fd()), nil}, b, 50_000, Options{})
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, view.Bytes()))
	}
	_, _, err = ReadSource(Source{path, int(file.Fd()), nil}, b, 49_999, Options{})
	assert.ErrorIs(t, err, ErrTooLarge)
	at, err := file.Seek(0, 1)
	require.NoError(t, err)
	assert.EqualValues(t, 777, at)
}

func TestAFileWhoseIdentityDiffersIsStale(t *testing.T) {
	checkNoLeaks(t)
	path, b := write(t, content(100)), buffer(t)
	right := identityOf(t, path)
	_, _, err := ReadSource(Source{path, -1, right}, b, 100, Options{})
	require.NoError(t, err)
	for want, wrong := range map[string]*Identity{
		"expected inode ":    {right.Device, right.Inode + 1, right.Stamp},
		" of device ":        {right.Device + 1, right.Inode, right.Stamp},
		"expected 101 bytes": {right.Device, right.Inode, Stamp{101, right.MTimeNs}},
		"ns, found ":         {right.Device, right.Inode, Stamp{100, right.MTimeNs - 1}},
	} {
		_, _, err := ReadSource(Source{path, -1, wrong}, b, 100, Options{})
		assert.ErrorIs(t, err, ErrStale)
		assert.ErrorContains(t, err, path+": bad: ")
		assert.ErrorContains(t, err, want)
	}
	other := filepath.Join(filepath.Dir(path), "other")
	require.NoError(t, os.WriteFile(other, content(100), 0o600))
	require.NoError(t, os.Rename(other, path))
	_, _, err = ReadSource(Source{path, -1, right}, b, 100, Options{})
	assert.ErrorIs(t, err, ErrStale)
}

func TestADescriptorOfAnythingButAnOpenRegularFileIsAnError(t *testing.T) {
	checkNoLeaks(t)
	b := buffer(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	_, _, err = ReadSource(Source{"", int(r.Fd()), nil}, b, 100, Options{})
	assert.ErrorIs(t, err, ErrNotRegular)
	assert.ErrorContains(t, err, "descriptor ")
	fd := int(r.Fd())
	require.NoError(t, r.Close())
	_, _, err = ReadSource(Source{"a name", fd, nil}, b, 100, Options{})
	assert.ErrorIs(t, err, unix.EBADF)
	assert.ErrorContains(t, err, "a name: ")
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	_, _, err = ReadSource(Source{fifo, -1, nil}, b, 100, Options{})
	assert.ErrorIs(t, err, ErrNotRegular)
}
