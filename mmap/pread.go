package mmap

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// A failing disk or a network file system with trouble may answer the next try. The waits add up to 21 ms, so that a
// dead one is reported soon.
var readBackOff = [...]time.Duration{time.Millisecond, 4 * time.Millisecond, 16 * time.Millisecond}

// preadFull fills dst from offset. It continues after short reads and EINTR, and tries again with back-off after EIO.
// The end of the file is ErrTruncated, because the caller knew the size.
func preadFull(fd int, path string, dst []byte, offset int64) error {
	done, failures := 0, 0
	for done < len(dst) {
		n, err := unix.Pread(fd, dst[done:], offset+int64(done))
		switch {
		case n > 0:
			done, failures = done+n, 0
		case err == nil:
			return &Error{opRead, path, offset, offset + int64(len(dst)), endOf(fd, offset+int64(done)), ErrTruncated}
		case err == unix.EINTR:
		case (err == unix.EIO || err == unix.EAGAIN) && failures < len(readBackOff):
			time.Sleep(readBackOff[failures])
			failures++
		default:
			return &Error{opRead, path, offset + int64(done), none, none, err}
		}
	}
	return nil
}

// endOf returns the size of a file that was just seen to end at or before an offset.
func endOf(fd int, seen int64) int64 {
	var status unix.Stat_t
	if err := fstat(fd, &status); err != nil || status.Size > seen {
		return seen
	}
	return status.Size
}

// Stamp identifies a version of a small file without reading it.
type Stamp struct{ Size, MTimeNs int64 }

// ReadWhole reads one small file: open, fstat, pread, close. A file larger than maxBytes is refused before memory is
// allocated.
func ReadWhole(path string, b *Buffer, maxBytes int64, o Options) (View, error) {
	view, _, err := ReadStamped(path, b, maxBytes, o)
	return view, err
}

// ReadStamped does what ReadWhole does, and also returns which version of the file was read.
func ReadStamped(path string, b *Buffer, maxBytes int64, o Options) (View, Stamp, error) {
	return readFile(path, b, none, maxBytes, o)
}

// ReadSized does what ReadStamped does for a file whose size was recorded: another size is ErrStale before anything is
// read. The caller has to find out what another time means, because it may know the bytes' checksum.
func ReadSized(path string, b *Buffer, recorded, maxBytes int64, o Options) (View, Stamp, error) {
	return readFile(path, b, recorded, maxBytes, o)
}

func readFile(path string, b *Buffer, recorded, maxBytes int64, o Options) (View, Stamp, error) {
	if o.ReadDelay > 0 {
		time.Sleep(o.ReadDelay)
	}
	// os.File is not used, because this runs for each image, and its poller and finalizer would serve no purpose.
	fd, status, err := openRegular(path)
	if err != nil {
		return View{}, Stamp{}, err
	}
	defer unix.Close(fd)
	if recorded >= 0 && status.Size != recorded {
		return View{}, Stamp{}, &Error{opRead, path, none, recorded, status.Size, ErrStale}
	}
	view, err := readOpen(fd, path, status.Size, b, maxBytes)
	return view, Stamp{status.Size, status.Mtim.Nano()}, err
}

// check returns an error if a file is not of this version.
func (s Stamp) check(path string, status *unix.Stat_t) error {
	if status.Size != s.Size {
		return &Error{opRead, path, none, s.Size, status.Size, ErrStale}
	}
	if found := status.Mtim.Nano(); found != s.MTimeNs {
		return &Error{opTime, path, none, s.MTimeNs, found, ErrStale}
	}
	return nil
}

// readOpen reads an open file of so many bytes from beginning to end.
func readOpen(fd int, path string, size int64, b *Buffer, maxBytes int64) (View, error) {
	if size > min(maxBytes, maxInt) {
		return View{}, &Error{opRead, path, none, maxBytes, size, ErrTooLarge}
	}
	if err := b.reserve(size); err != nil {
		return View{}, at(err, path)
	}
	if err := preadFull(fd, path, b.memory[:size], 0); err != nil {
		return View{}, err
	}
	return b.Part(0, size), nil
}

// memoryOr translates the errnos that have their own meaning here.
func memoryOr(err error) error {
	switch {
	case errors.Is(err, unix.ENOMEM):
		return ErrMemory
	case errors.Is(err, errHardware):
		return ErrHardware
	}
	return err
}

// at adds the file's name to an error of a Buffer, which does not know it.
func at(err error, path string) error {
	var e *Error
	if errors.As(err, &e) {
		e.Path = path
	}
	return err
}
