package mmap

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

var pageSize = int64(os.Getpagesize())

// errHardware: MADV_POPULATE_READ met a page that the kernel marked as damaged memory.
const errHardware = unix.EHWPOISON

// populateTries bounds the tries after EAGAIN, which madvise(2) may return while the kernel is short of a resource.
const populateTries = 10

// populate faults in every page of the range for reading. It returns the errno in place of the signal that touching the
// page would have raised. The range begins on a page.
func populate(pages []byte) error {
	for try := 0; ; {
		err := unix.Madvise(pages, unix.MADV_POPULATE_READ)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN && try < populateTries:
			try++
			time.Sleep(time.Millisecond)
		default:
			return err
		}
	}
}

// announce tells the kernel the extent of a coming read. Without it a cold populate reads around every fault: five
// times the bytes and twice the time for records in random order (321 against 145 us for a record of 110 kB). If the
// pages are cached it costs 3 us. MADV_RANDOM, the obvious hint, is the wrong one: populate then reads page by page
// (1,873 us).
func announce(pages []byte) {
	// This is only a hint: populate will report whatever is wrong.
	_ = unix.Madvise(pages, unix.MADV_WILLNEED)
}

// canPopulate is found out once, on a page of our own: kernels before 5.14 return EINVAL, and a seccomp filter may
// return anything.
var canPopulate = sync.OnceValue(func() bool {
	page, err := unix.Mmap(-1, 0, int(pageSize), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return false
	}
	defer unix.Munmap(page)
	return populate(page) == nil
})

// File systems whose pages come from another machine or process, which may vanish or hang between a populate and an
// access. The values are from linux/magic.h and statfs(2); the last four are from the out-of-tree modules themselves.
// Overlay (0x794c7630) is as good as the file system below it.
var remoteFileSystems = map[uint32]string{
	0x00006969: "nfs", 0x65735546: "fuse", 0x0000517b: "smb", 0xff534d42: "cifs",
	0xfe534d42: "smb2", 0x01021997: "9p", 0x00c36400: "ceph", 0x5346414f: "afs",
	0x73757245: "coda", 0x6b414653: "kafs", 0x0bd00bd0: "lustre", 0x47504653: "gpfs",
	0x786f4256: "vboxsf", 0x19830326: "beegfs", 0x20030528: "orangefs",
}

// backendFor chooses the backend for an open file.
func backendFor(fd int) Backend {
	var status unix.Statfs_t
	for {
		err := unix.Fstatfs(fd, &status)
		if err == unix.EINTR {
			continue
		}
		// An unknown file system gets the backend that cannot fault.
		if err != nil || !canPopulate() {
			return Pread
		}
		break
	}
	if _, remote := remoteFileSystems[uint32(status.Type)]; remote {
		return Pread
	}
	return Mapped
}
