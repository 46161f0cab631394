package mmap

import (
	"errors"
	"os"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestIndexShowsTheWholeFileUntilItIsClosed(t *testing.T) {
	emptyWorldAfter(t)
	for _, n := range []int{0, 1, 4096, 1 << 20} {
		data := content(n)
		index, err := OpenIndex(write(t, data))
		require.NoError(t, err)
		assert.Equal(t, data, append([]byte{}, index.Bytes()...))
		require.NoError(t, index.Close())
	}
	_, err := OpenIndex(t.TempDir())
	assert.ErrorIs(t, err, ErrNotRegular)
}

func TestGuardTurnsAFaultIntoAnErrorAndLetsOtherPanicsPass(t *testing.T) {
	path := write(t, content(20_000))
	index, err := OpenIndex(path)
	require.NoError(t, err)
	defer index.Close()
	mapped := index.Bytes()
	sum := 0
	own := errors.New("own")
	assert.Equal(t, own, index.Guard(func() error { return own }))
	assert.NoError(t, index.Guard(func() error { return nil }))
	assert.PanicsWithValue(t, "bug", func() { _ = index.Guard(func() error { panic("bug") }) })
	assert.Panics(t, func() { _ = index.Guard(func() error { sum = int(mapped[:0][sum]); return nil }) })
	var null *File
	assert.Panics(t, func() { _ = index.Guard(func() error { sum = int(null.size); return nil }) }, "a bug is no fault of the file")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for try := range 100 {
		// In turns, the file is cut before the reading begins and in the midst of it.
		cut := func() { require.NoError(t, os.Truncate(path, 4096)) }
		if try%2 == 0 {
			cut()
		}
		err = index.Guard(func() error {
			cut()
			for _, b := range mapped {
				sum += int(b)
			}
			return nil
		})
		assert.ErrorIs(t, err, ErrTruncated)
		assert.ErrorContains(t, err, path)
		require.NoError(t, os.WriteFile(path, whole, 0o600))
	}
	assert.False(t, debug.SetPanicOnFault(false), "the setting is restored")
}

func TestPopulateSaysWhatAReaderWouldMeet(t *testing.T) {
	path := write(t, content(50_000))
	index, err := OpenIndex(path)
	require.NoError(t, err)
	defer index.Close()
	mapped := index.Bytes()
	require.NoError(t, index.Populate(mapped[1:1]))
	require.NoError(t, index.Populate(mapped[777:49_999]))
	require.NoError(t, os.Truncate(path, 20_000))
	require.NoError(t, index.Populate(mapped[:20_000]))
	err = index.Populate(mapped[19_000:30_000])
	assert.ErrorIs(t, err, ErrTruncated)
	assert.ErrorIs(t, err, unix.EFAULT)
}
