package mmap

import (
	"os"

	"golang.org/x/sys/unix"
)

// OpenRegular opens a regular file that is read by os.File's methods. Anything else with the name is an error at once,
// even a FIFO to which nobody writes.
func OpenRegular(path string) (*os.File, error) {
	fd, _, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openRegular opens a file without waiting: a FIFO without a writer would block open, and a device could block read.
// O_NONBLOCK has no effect on a regular file.
func openRegular(path string) (int, unix.Stat_t, error) {
	var status unix.Stat_t
	fd, err := openRetry(path)
	if err == nil {
		if err = fstat(fd, &status); err == nil && status.Mode&unix.S_IFMT != unix.S_IFREG {
			err = ErrNotRegular
		}
		if err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		return -1, status, &Error{opOpen, path, none, none, none, err}
	}
	return fd, status, nil
}

func openRetry(path string) (int, error) {
	for {
		// On a slow network file system open may be interrupted (open(2), EINTR).
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func fstat(fd int, status *unix.Stat_t) error {
	for {
		if err := unix.Fstat(fd, status); err != unix.EINTR {
			return err
		}
	}
}
