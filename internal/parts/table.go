package parts

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/mmap"
)

// A table is made longer by growBy bytes at a time, or by an eighth of what it may have if that is less.
const growBy = 1 << 20

// table is a file that is mapped whole. It has disk space under it as far as it was grown, because a write to a mapping
// for which the disk has no room would end the process.
type table struct {
	file   *os.File
	memory []byte
	watch  mmap.Table // another program may cut the file
	length int64
	limit  int64 // beyond it, only what is needed is taken
}

func (t *table) open(dir *os.Root, name string, most int64) (err error) {
	if t.file, err = openIn(dir, name); err != nil {
		return err
	}
	return t.widen(most)
}

// widen maps a table for so many bytes, and for everything that its file has. If it was mapped for fewer bytes, it
// moves to another address.
func (t *table) widen(most int64) error {
	status, err := t.file.Stat()
	if err != nil {
		return err
	}
	// The mapping has room for everything that it may ever have, so that it need not be mapped again whenever it grows.
	most = max(most, status.Size())
	if most <= int64(len(t.memory)) {
		return nil
	}
	if t.memory != nil && !t.watch.Whole() {
		return unix.EIO // only the old watch knows of the fault, but guarded asks the new one
	}
	memory, err := unix.Mmap(int(t.file.Fd()), 0, int(most), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	// If another program cuts the file, a fault in the mapping becomes an error of guarded, and not a signal that ends
	// the program.
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

// filePrefix begins the names of a cache's files, so that they differ from other files of a directory.
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

// grow makes sure that so many bytes, and some more, have disk space.
func (t *table) grow(length int64) error {
	if length <= t.length {
		return nil
	}
	most := int64(len(t.memory))
	if length > most {
		return unix.ENOSPC
	}
	to := max(length, min(t.limit, t.length+min(growBy, most/8)))
	// This allocates disk space from the beginning: what another program punched or cut is there again.
	err := unix.Fallocate(int(t.file.Fd()), 0, 0, to)
	if err != nil && to > length { // there may be room for only what is needed now
		to = length
		err = unix.Fallocate(int(t.file.Fd()), 0, 0, to)
	}
	if err == nil {
		t.length = to
	}
	return err
}

// bound gives back what a table has behind its limit. It also forgets the known length, so that the next grow looks
// again: another process may have cut the file.
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
