package pinned

import (
	"time"

	"golang.org/x/sys/unix"
)

// allocateStep is how much one fallocate asks for, about 2 ms. Older kernels undo all of a
// call's work when a signal comes and say EINTR (mm/shmem.c; 6.18 was seen not to), so that one
// call for a whole slot might never end in a process that a profiler signals.
const allocateStep = 8 << 20

// seals: nobody who opens the slot through /proc can cut or grow it, or undo this. Without them
// their ftruncate would be our SIGBUS.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// newMemfd returns a descriptor of length allocated bytes, or -1 where the system refuses
// memfd_create as such: kernels before 3.17 (ENOSYS), seccomp filters (EPERM, EACCES, ENOSYS); or
// another descriptor, which memory without one can do without (EMFILE, ENFILE).
func newMemfd(length int64) (int, error) {
	fd, err := unix.MemfdCreate("headrace-slot", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	switch err {
	case nil:
	case unix.ENOSYS, unix.EPERM, unix.EACCES, unix.EMFILE, unix.ENFILE:
		return -1, nil
	default:
		return -1, err
	}
	if err = allocate(fd, length); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// allocate reserves every page, so that a shortage is an errno here and not a signal later.
func allocate(fd int, length int64) error {
	for offset := int64(0); offset < length; {
		n := min(allocateStep, length-offset)
		err := unix.Fallocate(fd, 0, offset, n)
		switch err {
		case nil:
			offset += n
		case unix.EINTR:
		default:
			return err
		}
	}
	return nil
}

// populatePages is MADV_POPULATE_WRITE: page tables filled, contents untouched.
func populatePages(pages []byte) error {
	for try := 0; ; {
		err := unix.Madvise(pages, unix.MADV_POPULATE_WRITE)
		switch {
		case err == unix.EINTR: // what was done stays done
		case err == unix.EAGAIN && try < populateTries:
			try++
			time.Sleep(time.Millisecond)
		default:
			return err
		}
	}
}

// populateTries bounds EAGAIN, which madvise(2) allows while the kernel is short of something.
const populateTries = 10
