package pack

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// cachedBytes is how much of a file is in the page cache.
func cachedBytes(t *testing.T, path string) int64 {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	data, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	defer unix.Munmap(data)
	page := os.Getpagesize()
	resident := make([]byte, (len(data)+page-1)/page)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)),
		uintptr(unsafe.Pointer(&resident[0])))
	require.Zero(t, errno)
	n := int64(0)
	for _, r := range resident {
		n += int64(r&1) * int64(page)
	}
	return n
}

// dropsPages reports whether the file system of dir drops pages when asked. A file system in memory cannot.
func dropsPages(t *testing.T, dir string) bool {
	path := filepath.Join(dir, "control")
	require.NoError(t, os.WriteFile(path, make([]byte, 1<<20), 0o644))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Sync())
	require.NoError(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
	return cachedBytes(t, path) == 0
}

func TestALongShardIsWholeAndIsNotLeftInThePageCache(t *testing.T) {
	checkNoLeaks(t)
	src, r := t.TempDir(), rand.NewChaCha8([32]byte{})
	for i := range 12 {
		image := append(fmt.Appendf(nil, "P6\n1000 %d\n255\n", 1000+i), make([]byte, 3000*(1000+i))...)
		r.Read(image[20:])
		put(t, src, fmt.Sprintf("class/%02d.ppm", i), image)
	}
	dst, _ := packed(t, PackConfig{Source: src})
	path := filepath.Join(dst, catalog.ShardName(0))
	shard, err := os.Open(path)
	require.NoError(t, err)
	defer shard.Close()
	info, err := shard.Stat()
	require.NoError(t, err)
	require.Greater(t, info.Size(), int64(8*windowBytes))
	cached := cachedBytes(t, path) // before the test itself reads it

	w, images := formats.NewTarWalker(shard, info.Size()), 0
	for m, err := w.Next(); !errors.Is(err, io.EOF); m, err = w.Next() {
		require.NoError(t, err)
		if filepath.Ext(m.Name) != ".ppm" {
			continue
		}
		expected, err := os.ReadFile(filepath.Join(src, m.Name))
		require.NoError(t, err)
		found := make([]byte, m.Size)
		_, err = shard.ReadAt(found, m.Offset)
		require.NoError(t, err)
		require.True(t, bytes.Equal(expected, found), m.Name)
		images++
	}
	require.Equal(t, 12, images)

	if !dropsPages(t, filepath.Dir(dst)) {
		t.Skip("the file system of temporary files keeps them in memory")
	}
	require.LessOrEqual(t, cached, int64(3*windowBytes))
}

func TestAStreamIsWrittenWhereSyncFileRangeIsUnsupported(t *testing.T) {
	checkNoLeaks(t)
	out, in, err := os.Pipe()
	require.NoError(t, err)
	defer out.Close()
	s := &stream{file: in}
	failed := make(chan error, 1)
	expected := bytes.Repeat([]byte("headrace"), windowBytes/4)
	go func() {
		_, err := s.Write(expected)
		if err == nil {
			_, err = s.Write(expected)
		}
		in.Close()
		failed <- err
	}()
	found, err := io.ReadAll(out)
	require.NoError(t, err)
	require.NoError(t, <-failed)
	require.True(t, bytes.Equal(append(expected, expected...), found))
	require.True(t, s.unassisted)
}
