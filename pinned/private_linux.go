package pinned

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapPrivate maps zeroed memory that belongs to this process alone. It also returns whether the memory is apart: a
// mapping that the kernel joins with no neighbour.
//
// It maps /dev/zero, which gives anonymous memory (drivers/char/mem.c) with two differences. Each mapping has its own
// file, so hiding one slot does not split a mapping of several slots, which may fail (vm.max_map_count). And
// /proc/PID/maps shows it. If there is no /dev/zero, or no descriptor is left, memory without a name serves as well
// except for these differences.
func mapPrivate(length int64, noDevZero bool) (mapping []byte, apart bool, err error) {
	fd := -1
	if !noDevZero {
		fd = openDevZero()
	}
	if fd >= 0 {
		// The mapping keeps the file. A descriptor for each batch would limit the batches that a caller may hold, to
		// 1,024 or 4,096 on many machines.
		defer unix.Close(fd)
		mapping, err = unix.Mmap(fd, 0, int(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
		if err == nil || err == unix.ENOMEM {
			return mapping, true, err
		}
	}
	mapping, err = unix.Mmap(-1, 0, int(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	return mapping, false, err
}

// openDevZero returns a descriptor of /dev/zero, -1 if there is none. A chroot may have a file in its place, and a
// mapping of that would end with the file.
func openDevZero() int {
	fd, err := unix.Open("/dev/zero", unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1
	}
	var status unix.Stat_t
	// Devices 1:5: Documentation/admin-guide/devices.txt of Linux.
	if unix.Fstat(fd, &status) != nil || status.Mode&unix.S_IFMT != unix.S_IFCHR || status.Rdev != unix.Mkdev(1, 5) {
		unix.Close(fd)
		return -1
	}
	return fd
}

// hide keeps memory out of children that are forked from now on. It returns false if the memory stays in them, which
// costs page tables and copies but does no harm.
func hide(mapping []byte) bool { return advise(mapping, unix.MADV_DONTFORK) == 0 }

// show undoes hide.
func show(mapping []byte) error {
	if errno := advise(mapping, unix.MADV_DOFORK); errno != 0 {
		return errno
	}
	return nil
}

// advise calls madvise(2) for advice that takes microseconds. The scheduler is not told of the call: while all its
// threads decode, a goroutine that comes back from a call that it was told of may have to wait for a thread.
func advise(mapping []byte, advice int) unix.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_MADVISE, uintptr(unsafe.Pointer(unsafe.SliceData(mapping))), uintptr(len(mapping)), uintptr(advice))
	return errno
}

// populatePages calls MADV_POPULATE_WRITE, which fills page tables and leaves contents untouched.
func populatePages(pages []byte) error {
	for try := 0; ; {
		err := unix.Madvise(pages, unix.MADV_POPULATE_WRITE)
		switch {
		case err == unix.EINTR: // what was populated stays populated
		case err == unix.EAGAIN && try < populateTries:
			try++
			time.Sleep(time.Millisecond)
		default:
			return err
		}
	}
}

// populateTries bounds the tries after EAGAIN, which madvise(2) may return while the kernel is short of a resource.
const populateTries = 10
