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

func TestAnOpenIndexHasTheBytesOfItsWholeFile(t *testing.T) {
	checkNoLeaks(t)
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

func TestGuardTurnsAReadOfACutFileIntoAnErrorAndPassesOtherPanicsOn(t *testing.T) {
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
	assert.Panics(t, func() { _ = index.Guard(func() error { sum = int(null.size); return nil }) },
		"a bug is not reported as an error of the file")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for try := range 100 {
		// In every second try the file is cut before it is read, in the others only while it is read.
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

func TestZerosReadWhereAMappedFileWasCutAreReportedAfterTheRead(t *testing.T) {
	checkNoLeaks(t)
	data := content(3 * 4096)
	for _, end := range []int64{0, 100, 4096, 5000, 2 * 4096, 3*4096 - 1} {
		path := write(t, data)
		f, err := Open(path, Options{Backend: Mapped})
		require.NoError(t, err)
		var b Buffer
		view, err := f.Read(&b, 10, 3*4096-10)
		require.NoError(t, err)
		require.NoError(t, b.Intact())
		require.NoError(t, os.Truncate(path, end))
		want := append(append([]byte{}, data[:end]...), make([]byte, 3*4096-end)...)
		require.Equal(t, want[10:], append([]byte{}, view.Bytes()...), "no signal")
		require.Equal(t, &Error{opRead, path, 10, 3 * 4096, end, ErrTruncated}, b.Intact())

		// The file is whole again. What was read before stays invalid, and is read again.
		require.NoError(t, os.WriteFile(path, data, 0o600))
		if end <= 2*4096 { // a page of zeros replaced one of the file
			require.ErrorIs(t, b.Intact(), ErrLost)
		} else {
			require.ErrorIs(t, b.Intact(), ErrStale)
		}
		view, err = f.Read(&b, 10, 3*4096-10)
		require.NoError(t, err)
		require.Equal(t, data[10:], append([]byte{}, view.Bytes()...))
		require.NoError(t, b.Intact())
		b.Empty()
		require.NoError(t, b.Intact())
		require.NoError(t, f.Close())
		b.Free()
	}
}

func TestBytesBeforeACutStayValidAndAPanicCausedByZerosBehindItIsAnError(t *testing.T) {
	checkNoLeaks(t)
	data := content(5 * 4096)
	path := write(t, data)
	f, err := Open(path, Options{Backend: Mapped})
	require.NoError(t, err)
	defer f.Close()
	var before, behind Buffer
	defer before.Free()
	defer behind.Free()
	right, err := f.Read(&before, 0, 2*4096)
	require.NoError(t, err)
	wrong, err := f.Read(&behind, 3*4096, 4096)
	require.NoError(t, err)
	x, err := OpenIndex(path)
	require.NoError(t, err)
	defer x.Close()
	require.NoError(t, os.Truncate(path, 2*4096+5))
	require.Zero(t, wrong.Bytes()[7])
	require.ErrorIs(t, behind.Intact(), ErrTruncated)
	require.Equal(t, data[:2*4096], append([]byte{}, right.Bytes()...))
	require.NoError(t, before.Intact())

	err = x.Guard(func() error {
		end := int(x.Bytes()[4*4096])
		_ = x.Bytes()[1000:end]
		return nil
	})
	require.ErrorIs(t, err, ErrTruncated)
}

func TestACutFileFailsWhileOtherMappingsStayReadable(t *testing.T) {
	checkNoLeaks(t)
	kept, gone := write(t, content(4096)), write(t, content(4096))
	whole, err := OpenIndex(kept)
	require.NoError(t, err)
	defer whole.Close()
	for range 200 {
		require.NoError(t, os.WriteFile(gone, content(4096), 0o600))
		cut, err := OpenIndex(gone)
		require.NoError(t, err)
		var one byte
		read := func(x *Index) error {
			return x.Guard(func() error { one += x.Bytes()[7]; return nil })
		}
		require.NoError(t, read(cut))
		err = cut.Guard(func() error {
			require.NoError(t, os.Truncate(gone, 0))
			one += cut.Bytes()[7]
			return nil
		})
		require.ErrorIs(t, err, ErrTruncated)
		require.NoError(t, read(whole))
		require.NoError(t, cut.Close())
	}
}

func TestPopulateFailsForPagesBehindTheEndOfACutFile(t *testing.T) {
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
