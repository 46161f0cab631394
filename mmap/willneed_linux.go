package mmap

import "golang.org/x/sys/unix"

// willNeed makes the kernel begin to read a range into the page cache as one piece.
func willNeed(fd int, offset, length int64) {
	// This is only a hint: the coming read will report whatever is wrong.
	_ = unix.Fadvise(fd, offset, length, unix.FADV_WILLNEED)
}
