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
		mapped, closeIndex, err := OpenIndex(write(t, data))
		require.NoError(t, err)
		assert.Equal(t, data, append([]byte{}, mapped...))
		require.NoError(t, closeIndex())
	}
	_, _, err := OpenIndex(t.TempDir())
	assert.ErrorIs(t, err, ErrNotRegular)
}

func TestGuardTurnsAFaultIntoAnErrorAndLetsOtherPanicsPass(t *testing.T) {
	path := write(t, content(20_000))
	mapped, closeIndex, err := OpenIndex(path)
	require.NoError(t, err)
	defer closeIndex()
	require.NoError(t, os.Truncate(path, 4096))
	sum := 0
	for range 100 {
		err = Guard(path, func() error {
			for _, b := range mapped {
				sum += int(b)
			}
			return nil
		})
		assert.ErrorIs(t, err, ErrTruncated)
		assert.ErrorContains(t, err, path)
	}
	own := errors.New("own")
	assert.Equal(t, own, Guard(path, func() error { return own }))
	assert.NoError(t, Guard(path, func() error { return nil }))
	assert.PanicsWithValue(t, "bug", func() { _ = Guard(path, func() error { panic("bug") }) })
	assert.Panics(t, func() { _ = Guard(path, func() error { sum = int(mapped[:0][sum]); return nil }) })
	var null *File
	assert.Panics(t, func() { _ = Guard(path, func() error { sum = int(null.size); return nil }) }, "a bug is no fault of the file")
	assert.False(t, debug.SetPanicOnFault(false), "the setting is restored")
}

func TestPopulateSaysWhatAReaderWouldMeet(t *testing.T) {
	path := write(t, content(50_000))
	mapped, closeIndex, err := OpenIndex(path)
	require.NoError(t, err)
	defer closeIndex()
	require.NoError(t, Populate(path, mapped[1:1]))
	require.NoError(t, Populate(path, mapped[777:49_999]))
	require.NoError(t, os.Truncate(path, 20_000))
	require.NoError(t, Populate(path, mapped[:20_000]))
	err = Populate(path, mapped[19_000:30_000])
	assert.ErrorIs(t, err, ErrTruncated)
	assert.ErrorIs(t, err, unix.EFAULT)
}
