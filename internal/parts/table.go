package parts

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/mmap"
)

// growBy bytes a table is made longer at once, an eighth of what it may have at most.
const growBy = 1 << 20

// table is a file that is mapped whole, and has disk under it as far as it was grown: a write to a mapping
// that finds no room on the disk would end the process.
type table struct {
	file   *os.File
	memory []byte
	watch  mmap.Table // somebody else may cut the file
	length int64
	limit  int64 // no more than is needed is taken behind it
}

func (t *table) open(dir *os.Root, name string, most int64) (err error) {
	if t.file, err = openIn(dir, name); err != nil {
		return err
	}
	return t.widen(most)
}

// widen maps a table for so many bytes, and for all that its file has. What was mapped for fewer lies at another address
// then.
func (t *table) widen(most int64) error {
	status, err := t.file.Stat()
	if err != nil {
		return err
	}
	// For all it may ever have, so that it need not be mapped anew whenever it grows.
	most = max(most, status.Size())
	if most <= int64(len(t.memory)) {
		return nil
	}
	if t.memory != nil && !t.watch.Whole() {
		return unix.EIO // the watch that goes knows of it, and guarded asks the one that is there
	}
	memory, err := unix.Mmap(int(t.file.Fd()), 0, int(most), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	// A fault in the mapping, where somebody cuts the file, is an error of guarded and no signal that ends the
	// program.
	var watch mmap.Table
	if err := watch.Watch(memory); err != nil {
		_ = unix.Munmap(memory)
		return err
	}
	t.unmap()
	t.memory, t.watch = memory, watch
	return nil
}

func (t *table) unmap() {
	if t.memory != nil {
		t.watch.End()
		_ = unix.Munmap(t.memory)
	}
	t.memory = nil
}

// filePrefix begins the names of a cache's files, so that they are no others of a directory.
const filePrefix = "headrace-cache."

func openIn(dir *os.Root, name string) (*os.File, error) {
	// No link is followed and no FIFO waited for, whatever lies there.
	f, err := dir.OpenFile(filePrefix+name, os.O_RDWR|os.O_CREATE|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if status, err := f.Stat(); err != nil || !status.Mode().IsRegular() {
		f.Close()
		return nil, errors.Join(err, unix.EINVAL)
	}
	return f, nil
}

func (t *table) close() {
	t.unmap()
	if t.file != nil {
		t.file.Close()
	}
	t.file = nil
}

// grow makes sure of so many bytes of disk, and some more.
func (t *table) grow(length int64) error {
	if length <= t.length {
		return nil
	}
	most := int64(len(t.memory))
	if length > most {
		return unix.ENOSPC
	}
	to := max(length, min(t.limit, t.length+min(growBy, most/8)))
	// Disk for all of it from the beginning: what was punched or cut by somebody is there again.
	err := unix.Fallocate(int(t.file.Fd()), 0, 0, to)
	if err != nil && to > length { // there may be room for what is needed now
		to = length
		err = unix.Fallocate(int(t.file.Fd()), 0, 0, to)
	}
	if err == nil {
		t.length = to
	}
	return err
}

// bound gives back what a table has behind its limit, and looks anew at how long it is when it next grows: another
// process may have cut it.
func (t *table) bound(used, limit int64) {
	// 0: another process may have cut what this one has grown.
	t.length, t.limit = 0, limit
	if status, err := t.file.Stat(); err == nil && status.Size() > max(used, limit) {
		_ = t.file.Truncate(max(used, limit))
	}
}

func view[T any](t *table) []T {
	var one T
	return unsafe.Slice((*T)(unsafe.Pointer(&t.memory[0])), len(t.memory)/int(unsafe.Sizeof(one)))
}
