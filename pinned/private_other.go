//go:build unix && !linux

package pinned

import "golang.org/x/sys/unix"

// On other systems slots are plain anonymous memory, of which children get a copy, and the first touch is done by
// writing.

func mapPrivate(length int64, _ bool) (mapping []byte, apart bool, err error) {
	mapping, err = unix.Mmap(-1, 0, int(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	return mapping, false, err
}

func hide([]byte) bool { return false }

func show([]byte) error { return nil }

func populatePages([]byte) error { return unix.EINVAL }

func availableBytes() int64 { return none }
