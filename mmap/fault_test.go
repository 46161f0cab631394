package mmap

import (
	"bytes"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestAFileCutWhileItIsOpenIsATruncationErrorAndRaisesNoSignal(t *testing.T) {
	eachBackend(t, func(t *testing.T, o Options) {
		const size = 100_000
		data := content(size)
		path, b := write(t, data), buffer(t)
		r := rand.New(rand.NewPCG(3, 3))
		for i := range 1000 {
			require.NoError(t, os.WriteFile(path, data, 0o600))
			f, err := Open(path, o)
			require.NoError(t, err)
			if i%2 == 0 { // half of the time with the pages in the page table already
				_, err = f.Read(b, 0, size)
				require.NoError(t, err)
			}
			end := r.Int64N(size)
			if i%3 == 0 {
				end &^= 4095 // on a page boundary, and 0
			}
			require.NoError(t, os.Truncate(path, end))
			offset := r.Int64N(size)
			length := 1 + r.Int64N(size-offset)
			view, err := f.Read(b, offset, length)
			if offset+length <= end {
				require.NoError(t, err)
				require.True(t, bytes.Equal(data[offset:offset+length], view.Bytes()))
			} else {
				require.Equal(t, &Error{opRead, path, offset, offset + length, end, ErrTruncated}, err)
			}
			f.Close()
			b.Empty()
		}
	})
}

func TestAFileEmptiedWhileItIsOpenIsATruncationError(t *testing.T) {
	eachBackend(t, func(t *testing.T, o Options) {
		path, b := write(t, content(10_000)), buffer(t)
		f := open(t, path, o)
		emptied, err := os.Create(path) // what "> file" does
		require.NoError(t, err)
		require.NoError(t, emptied.Close())
		_, err = f.Read(b, 100, 1000)
		assert.Equal(t, &Error{opRead, path, 100, 1100, 0, ErrTruncated}, err)
		assert.EqualError(t, err, path+": at byte 100: bad: cannot read it: file is truncated (expected 1100 bytes, found 0)")
	})
}

func TestAnOpenFileIsStillReadAfterARenameReplacedIt(t *testing.T) {
	eachBackend(t, func(t *testing.T, o Options) {
		data := content(10_000)
		path, b := write(t, data), buffer(t)
		f := open(t, path, o)
		require.NoError(t, os.WriteFile(path+".new", make([]byte, 10), 0o600))
		require.NoError(t, os.Rename(path+".new", path))
		view, err := f.Read(b, 100, 9000)
		require.NoError(t, err)
		assert.Equal(t, data[100:9100], view.Bytes())
	})
}

func TestAnOpenFileThatGrewIsReadOnlyUpToItsOldLength(t *testing.T) {
	eachBackend(t, func(t *testing.T, o Options) {
		path, b := write(t, content(100)), buffer(t)
		f := open(t, path, o)
		require.NoError(t, os.Truncate(path, 1<<20))
		_, err := f.Read(b, 0, 100)
		assert.NoError(t, err)
		_, err = f.Read(b, 0, 101)
		assert.ErrorIs(t, err, ErrBounds)
	})
}

func TestAnOpenWithoutFreeDescriptorsFailsAndLaterReadsWorkAgain(t *testing.T) {
	eachBackend(t, func(t *testing.T, o Options) {
		path, b := write(t, content(100)), buffer(t)
		var before unix.Rlimit
		require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
		low := before
		low.Cur = uint64(countDescriptors(t)) + 8
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
		var files []*File
		var failure error
		for range 100 {
			f, err := Open(path, o)
			if err != nil {
				failure = err
				break
			}
			files = append(files, f)
		}
		_, whole := ReadWhole(path, b, 100, o)
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before))
		assert.ErrorIs(t, failure, unix.EMFILE)
		assert.ErrorIs(t, whole, unix.EMFILE)
		assert.ErrorContains(t, failure, path)
		for _, f := range files {
			_, err := f.Read(b, 0, 100)
			assert.NoError(t, err)
			b.Empty()
			assert.NoError(t, f.Close())
		}
		_, err := ReadWhole(path, b, 100, o)
		assert.NoError(t, err)
	})
}

// The limit is on the address space and leaves 1 GiB. If every call of mmap failed, the Go runtime's calls
// would fail, too: it maps memory for a thread whenever it likes, and ends the process if it cannot.
func TestAReadWithoutEnoughMemoryFailsAndLaterReadsWorkAgain(t *testing.T) {
	checkNoLeaks(t)
	path, b := write(t, content(50_000)), buffer(t)
	require.NoError(t, os.Truncate(path, 4<<30)) // a hole takes no room
	f := open(t, path, Options{Backend: Pread})
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_AS, &before))
	low := before
	low.Cur = addressSpace(t) + 1<<30
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_AS, &low))
	_, failure := f.Read(b, 4000, 3<<30)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_AS, &before))
	assert.Equal(t, &Error{opAlloc, path, none, 3 << 30, none, ErrMemory}, failure)
	assert.ErrorContains(t, failure, "not enough memory (3221225472 bytes)")
	view, err := f.Read(b, 4000, 40_000)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(content(50_000)[4000:44_000], view.Bytes()))
}

func TestReadWholeGivesTheBytesOfFilesUpToTheLimit(t *testing.T) {
	checkNoLeaks(t)
	b := buffer(t)
	for _, n := range []int{0, 1, 4096, 262_144, 262_145, 1 << 20, 3} {
		data := content(n)
		path := write(t, data)
		view, err := ReadWhole(path, b, int64(n), Options{})
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, view.Bytes()))
		if n > 0 {
			_, err = ReadWhole(path, b, int64(n-1), Options{})
			assert.Equal(t, &Error{opRead, path, none, int64(n - 1), int64(n), ErrTooLarge}, err)
		}
	}
	_, err := ReadWhole(filepath.Join(t.TempDir(), "absent"), b, 1, Options{})
	assert.ErrorIs(t, err, fs.ErrNotExist)
	_, err = ReadWhole("a\x00b", b, 1, Options{})
	assert.ErrorIs(t, err, unix.EINVAL)
}

func TestAFileOfAnotherSizeIsStaleAndTheErrorNamesBothSizes(t *testing.T) {
	path, b := write(t, content(100)), buffer(t)
	status, err := os.Stat(path)
	require.NoError(t, err)
	recorded := Stamp{100, status.ModTime().UnixNano()}
	_, found, err := ReadSized(path, b, 100, 100, Options{})
	require.NoError(t, err)
	assert.Equal(t, recorded, found)
	_, _, err = ReadSized(path, b, 99, 100, Options{})
	assert.ErrorIs(t, err, ErrStale)
	assert.ErrorContains(t, err, "(expected 99 bytes, found 100)")
}

func TestABufferGrowsByPowersOfTwoAndItsBytesAreCounted(t *testing.T) {
	checkNoLeaks(t)
	before := BufferBytes()
	var b Buffer
	for _, c := range [][2]int64{{1, 262_144}, {262_144, 262_144}, {524_288, 524_288}, {5, 524_288}, {524_289, 1 << 20}, {3 << 20, 4 << 20}} {
		require.NoError(t, b.reserve(c[0]))
		assert.Equal(t, c[1], BufferBytes()-before)
	}
	// More than any machine has: an error that says how much, and the Buffer works afterwards.
	for _, n := range []int64{1 << 61, 1<<62 + 1} {
		err := b.reserve(n)
		assert.ErrorIs(t, err, ErrMemory)
		assert.Equal(t, n, err.(*Error).Expected)
	}
	require.NoError(t, b.reserve(1))
	b.Free()
	b.Free()
	assert.Equal(t, before, BufferBytes())
}
