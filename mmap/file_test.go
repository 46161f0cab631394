package mmap

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// eachBackend runs one test over both backends, which must behave the same.
func eachBackend(t *testing.T, test func(t *testing.T, o Options)) {
	for _, backend := range []Backend{Mapped, Pread} {
		t.Run(backend.String(), func(t *testing.T) {
			if backend == Mapped && !canPopulate() {
				t.Skip("this kernel cannot populate")
			}
			checkNoLeaks(t)
			test(t, Options{Backend: backend})
		})
	}
}

// content is recognisable at every offset, so that a shifted view cannot pass.
func content(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func write(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shard-00000.tar")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

func open(t *testing.T, path string, o Options) *File {
	t.Helper()
	f, err := Open(path, o)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func buffer(t *testing.T) *Buffer {
	b := new(Buffer)
	t.Cleanup(b.Free)
	return b
}

func TestEveryRangeIsReadAsTheBytesOfTheFile(t *testing.T) {
	eachBackend(t, func(t *testing.T, o Options) {
		data := content(40_961)
		for _, o.Sequential = range []bool{false, true} {
			f, b := open(t, write(t, data), o), buffer(t)
			assert.Equal(t, o.Backend, f.Backend())
			assert.EqualValues(t, len(data), f.Size())
			edges := []int64{0, 1, 4095, 4096, 4097, 40_959, 40_960, 40_961}
			for _, begin := range edges {
				for _, end := range edges {
					if begin > end {
						continue
					}
					view, err := f.Read(b, begin, end-begin)
					require.NoError(t, err)
					require.True(t, bytes.Equal(data[begin:end], view.Bytes()), "[%d, %d)", begin, end)
				}
			}
		}
	})
}

func TestARangeOutsideTheFileIsAnErrorWithPathAndOffset(t *testing.T) {
	eachBackend(t, func(t *testing.T, o Options) {
		f, b := open(t, write(t, content(100)), o), buffer(t)
		for _, r := range [][2]int64{{-1, 1}, {0, -1}, {0, 101}, {100, 1}, {101, 0}, {99, 2}, {1, math.MaxInt64},
			{math.MaxInt64, math.MaxInt64}, {math.MinInt64, 1}, {math.MinInt64, math.MinInt64}, {50, math.MinInt64}} {
			_, err := f.Read(b, r[0], r[1])
			var e *Error
			require.ErrorAs(t, err, &e, "%v", r)
			assert.ErrorIs(t, err, ErrBounds)
			assert.Equal(t, f.Path(), e.Path)
			assert.Equal(t, r[0], e.Offset)
			assert.EqualValues(t, 100, e.Found)
		}
	})
}

func TestAnEmptyFileOpensAndHasNoBytes(t *testing.T) {
	eachBackend(t, func(t *testing.T, o Options) {
		f, b := open(t, write(t, nil), o), buffer(t)
		assert.Zero(t, f.Size())
		view, err := f.Read(b, 0, 0)
		require.NoError(t, err)
		assert.Zero(t, view)
		_, err = f.Read(b, 0, 1)
		assert.ErrorIs(t, err, ErrBounds)
	})
}

func TestAnythingButARegularFileIsRefusedAtOnce(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	eachBackend(t, func(t *testing.T, o Options) {
		for _, path := range []string{fifo, t.TempDir(), "/dev/zero", "/dev/null"} {
			begin := time.Now()
			_, err := Open(path, o)
			assert.ErrorIs(t, err, ErrNotRegular, path)
			_, err = ReadWhole(path, buffer(t), 1<<20, o)
			assert.ErrorIs(t, err, ErrNotRegular, path)
			assert.Less(t, time.Since(begin), time.Second)
		}
		_, err := Open(filepath.Join(t.TempDir(), "absent"), o)
		assert.ErrorIs(t, err, fs.ErrNotExist)
	})
}

func TestCloseLeavesViewsInUseReadableAndRefusesNewReads(t *testing.T) {
	eachBackend(t, func(t *testing.T, o Options) {
		data := content(1 << 20)
		f := open(t, write(t, data), o)
		var held [8]Buffer
		var views [8]View
		for i := range held {
			var err error
			views[i], err = f.Read(&held[i], int64(i)*1000, 4000)
			require.NoError(t, err)
		}
		require.NoError(t, f.Close())
		require.NoError(t, f.Close())
		for i := range held {
			assert.Equal(t, data[i*1000:i*1000+4000], views[i].Bytes())
			_, err := f.Read(&held[i], 0, 1)
			assert.ErrorIs(t, err, ErrClosed)
			held[i].Free()
		}
	})
}

func TestReadersRacingWithCloseGetTheirBytesOrErrClosed(t *testing.T) {
	eachBackend(t, func(t *testing.T, o Options) {
		data := content(300_000)
		path := write(t, data)
		for range 50 {
			f := open(t, path, o)
			var group sync.WaitGroup
			for g := range 8 {
				group.Go(func() {
					var b Buffer
					defer b.Free()
					for i := 0; ; i++ {
						at := int64((g*7919 + i*104_729) % 200_000)
						view, err := f.Read(&b, at, 100_000)
						if errors.Is(err, ErrClosed) {
							return
						}
						if !assert.NoError(t, err) || !assert.True(t, bytes.Equal(data[at:at+100_000], view.Bytes())) {
							return
						}
					}
				})
			}
			time.Sleep(time.Millisecond)
			f.Close()
			group.Wait()
		}
	})
}

func TestReadsAllocateNothingOnTheGoHeap(t *testing.T) {
	eachBackend(t, func(t *testing.T, o Options) {
		f, b := open(t, write(t, content(1<<20)), o), buffer(t)
		allocations := testing.AllocsPerRun(100, func() {
			if _, err := f.Read(b, 5000, 110_000); err != nil {
				panic(err)
			}
		})
		assert.Zero(t, allocations)
	})
}

func TestEveryReadWaitsForTheReadDelay(t *testing.T) {
	eachBackend(t, func(t *testing.T, o Options) {
		o.ReadDelay = 20 * time.Millisecond
		path, b := write(t, content(100)), buffer(t)
		begin := time.Now()
		_, err := open(t, path, o).Read(b, 0, 100)
		require.NoError(t, err)
		_, err = ReadWhole(path, b, 100, o)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(begin), 40*time.Millisecond)
	})
}
