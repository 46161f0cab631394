package mmap

import "golang.org/x/sys/unix"

// willNeed has the kernel begin to read a range into the page cache, in one piece.
func willNeed(fd int, offset, length int64) {
	// A hint: the read to come will meet whatever is wrong.
	_ = unix.Fadvise(fd, offset, length, unix.FADV_WILLNEED)
}
