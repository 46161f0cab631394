package mmap

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Source is one small file that is read whole.
type Source struct {
	Path       string    // the file to open; with a Descriptor only its name in errors
	Descriptor int       // of a file that is already open and stays open; negative for none
	Identity   *Identity // the file must have this identity; nil for any
}

// Identity tells a version of a file from every other file and version.
type Identity struct {
	Device, Inode uint64
	Stamp
}

// ReadSource does what ReadStamped does, for a Source. With an Identity, another file is ErrStale, and so is a file
// that is written to while it is read.
func ReadSource(s Source, b *Buffer, maxBytes int64, o Options) (View, Stamp, error) {
	if o.ReadDelay > 0 {
		time.Sleep(o.ReadDelay)
	}
	fd, status, err := s.open()
	if err != nil {
		return View{}, Stamp{}, err
	}
	if s.Descriptor < 0 {
		defer unix.Close(fd)
	}
	name, stamp := s.Name(), Stamp{status.Size, status.Mtim.Nano()}
	if s.Identity == nil {
		view, err := readOpen(fd, name, status.Size, b, maxBytes)
		return view, stamp, err
	}
	if err := s.Identity.check(name, &status); err != nil {
		return View{}, stamp, err
	}
	view, err := readOpen(fd, name, status.Size, b, maxBytes)
	if err != nil {
		return View{}, stamp, err
	}
	// The bytes may come from two versions, which would look like a damaged image.
	if err := fstat(fd, &status); err != nil {
		return View{}, stamp, &Error{opRead, name, none, none, none, err}
	}
	return view, stamp, s.Identity.check(name, &status)
}

// Name returns the file's name in errors.
func (s Source) Name() string {
	if s.Path == "" && s.Descriptor >= 0 {
		return fmt.Sprintf("descriptor %d", s.Descriptor)
	}
	return s.Path
}

// open returns the descriptor of a regular file: the caller's own, or one to close.
func (s Source) open() (fd int, status unix.Stat_t, err error) {
	if s.Descriptor < 0 {
		return openRegular(s.Path)
	}
	err = fstat(s.Descriptor, &status)
	// A pipe or a device could block read for ever.
	if err == nil && status.Mode&unix.S_IFMT != unix.S_IFREG {
		err = ErrNotRegular
	}
	if err != nil {
		return -1, status, &Error{opRead, s.Name(), none, none, none, err}
	}
	return s.Descriptor, status, nil
}

func (i *Identity) check(name string, status *unix.Stat_t) error {
	if device := uint64(status.Dev); device != i.Device || status.Ino != i.Inode {
		return &Error{opRead, name, none, none, none, fmt.Errorf("%w (expected inode %d of device %d, found inode %d of device %d)",
			ErrStale, i.Inode, i.Device, status.Ino, device)}
	}
	return i.Stamp.check(name, status)
}
