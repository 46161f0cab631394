//go:build unix && !linux

package mmap

import (
	"os"

	"golang.org/x/sys/unix"
)

var pageSize = int64(os.Getpagesize())

const errHardware = unix.Errno(0)

// Only Linux can populate page tables and report a failure, so only pread is safe here.
func populate([]byte) error { return unix.ENOSYS }

func announce([]byte) {}

func canPopulate() bool { return false }

func backendFor(int) Backend { return Pread }
