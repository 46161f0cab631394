package mmap

import (
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// resident counts the cached pages of a file.
func resident(t *testing.T, path string) (cached, pages int) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	status, err := file.Stat()
	require.NoError(t, err)
	mapped, err := unix.Mmap(int(file.Fd()), 0, int(status.Size()), unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(mapped)) }()
	found := make([]byte, (len(mapped)+os.Getpagesize()-1)/os.Getpagesize())
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mapped[0])), uintptr(len(mapped)),
		uintptr(unsafe.Pointer(&found[0])))
	require.Zero(t, errno)
	for _, page := range found {
		cached += int(page & 1)
	}
	return cached, len(found)
}

func TestARangeThatWillBeNeededIsReadIntoThePageCache(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shard")
	require.NoError(t, os.WriteFile(path, make([]byte, 8<<20), 0o600))
	f, err := Open(path, Options{Backend: Pread})
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, unix.Fsync(f.fd))
	require.NoError(t, unix.Fadvise(f.fd, 0, 0, unix.FADV_DONTNEED))
	if cached, _ := resident(t, path); cached > 0 {
		t.Skip("this file system keeps its pages")
	}
	f.WillNeed(2<<20, 4<<20)
	want := (4 << 20) / os.Getpagesize()
	require.Eventually(t, func() bool { cached, _ := resident(t, path); return cached >= want }, 10*time.Second, time.Millisecond)
	cached, pages := resident(t, path)
	require.Less(t, cached, pages, "and not the whole file")
}

func TestWillNeedIgnoresRangesOutsideTheFileAndClosedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shard")
	require.NoError(t, os.WriteFile(path, make([]byte, 100), 0o600))
	f, err := Open(path, Options{})
	require.NoError(t, err)
	for _, place := range [][2]int64{{-1, 5}, {0, -1}, {0, 101}, {1 << 62, 1 << 62}, {0, 100}} {
		f.WillNeed(place[0], place[1])
	}
	require.NoError(t, f.Close())
	f.WillNeed(0, 100)
}
