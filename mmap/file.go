package mmap

import (
	"math"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	mapping "github.com/edsrzf/mmap-go"
	"golang.org/x/sys/unix"
)

// Backend says how bytes become readable.
type Backend int

const (
	Auto   Backend = iota // Mapped on local file systems if the kernel can populate, otherwise Pread
	Mapped                // bytes are read in the page cache
	Pread                 // bytes are copied; no fault is possible
)

func (b Backend) String() string {
	return [...]string{"auto", "mmap", "pread"}[b]
}

// Options of Open and ReadWhole.
type Options struct {
	Backend Backend
	// Sequential says that records are read in file order. The kernel's own read-ahead is then best (82 us against 155
	// us for a cold record). Otherwise each read announces its extent.
	Sequential bool
	// ReadDelay is a wait before every read, with which a test imitates slow storage.
	ReadDelay time.Duration
}

const maxInt = math.MaxInt // also the largest mapping: mmap-go's lengths are ints

// File is an open file of fixed extent. Any number of goroutines may use it.
type File struct {
	path    string
	file    *os.File // owns the descriptor
	fd      int
	size    int64
	mapped  mapping.MMap // nil with the pread backend and for an empty file
	watch   watch        // watches mapped
	backend Backend
	ahead   bool // each read announces its extent
	delay   time.Duration

	// The owner has one reference until Close, and so does each Buffer that shows the mapping.
	references atomic.Int64
	closed     atomic.Bool
}

// Open opens a regular file. Its present size bounds every later Read: bytes that are appended afterwards are never
// seen.
func Open(path string, o Options) (*File, error) {
	fd, status, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	f := &File{path: path, file: file, fd: fd, size: status.Size,
		backend: o.Backend, ahead: !o.Sequential, delay: o.ReadDelay}
	f.references.Store(1)
	switch {
	case o.Backend == Auto:
		f.backend = backendFor(fd)
	case o.Backend == Mapped && !canPopulate():
		file.Close()
		return nil, &Error{"map", path, none, none, none, ErrNoPopulate}
	}
	// mmap refuses length 0, and an empty file needs no mapping.
	if f.backend == Mapped && f.size > 0 {
		if f.size > maxInt {
			file.Close()
			return nil, &Error{opOpen, path, none, maxInt, f.size, ErrTooLarge}
		}
		f.mapped, err = mapping.MapRegion(file, int(f.size), mapping.RDONLY, 0, 0)
		if err != nil {
			file.Close()
			return nil, &Error{"map", path, none, f.size, none, memoryOr(err)}
		}
		if err := f.watch.begin(f.mapped, false); err != nil {
			_ = f.mapped.Unmap()
			file.Close()
			return nil, &Error{"map", path, none, none, none, err}
		}
	}
	return f, nil
}

// Size, Path and Backend are those with which the file was opened; they stay when the file changes.
func (f *File) Size() int64      { return f.size }
func (f *File) Path() string     { return f.path }
func (f *File) Backend() Backend { return f.backend }

// Close ends the File for new reads. Views in use stay valid until their Buffers let go. Closing twice is harmless.
func (f *File) Close() error {
	if f.closed.Swap(true) {
		return nil
	}
	return f.release()
}

// acquire adds a holder, unless the owner has closed the File.
func (f *File) acquire() bool {
	for {
		n := f.references.Load()
		if n == 0 || f.closed.Load() {
			return false
		}
		if f.references.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (f *File) release() error {
	if f.references.Add(-1) > 0 {
		return nil
	}
	var err error
	if f.mapped != nil {
		f.watch.end()
		err = f.mapped.Unmap()
	}
	if e := f.file.Close(); err == nil {
		err = e
	}
	return err
}

// Read makes [offset, offset+length) readable until b is used again or freed.
func (f *File) Read(b *Buffer, offset, length int64) (View, error) {
	return f.read(b, offset, length, f.backend == Mapped)
}

// ReadCopy does what Read does, but always by pread: later changes of the file do not change the View.
func (f *File) ReadCopy(b *Buffer, offset, length int64) (View, error) {
	return f.read(b, offset, length, false)
}

func (f *File) read(b *Buffer, offset, length int64, mapped bool) (View, error) {
	// Nothing here can overflow, because neither size nor length is negative where one is subtracted.
	if offset < 0 || length < 0 || offset > f.size-length {
		return View{}, &Error{opRead, f.path, offset, saturatingAdd(offset, length), f.size, ErrBounds}
	}
	// Both backends hold the File. This also keeps the descriptor from being closed, and its number from being given to
	// another file, in the middle of a pread.
	if !b.hold(f) {
		return View{}, &Error{opRead, f.path, offset, none, none, ErrClosed}
	}
	if f.delay > 0 {
		time.Sleep(f.delay)
	}
	if length == 0 {
		return View{}, nil
	}
	// If the mapping may have zeros, the file itself is read, because it may be whole again.
	if mapped && offset+length <= f.watch.lost() {
		return f.readMapped(b, offset, length)
	}
	return f.readCopy(b, offset, length)
}

// ReadInto copies bytes from offset on into the caller's memory, with either backend.
func (f *File) ReadInto(to []byte, offset int64) error {
	if offset < 0 || offset > f.size-int64(len(to)) {
		return &Error{opRead, f.path, offset, saturatingAdd(offset, int64(len(to))), f.size, ErrBounds}
	}
	if !f.acquire() {
		return &Error{opRead, f.path, offset, none, none, ErrClosed}
	}
	defer f.release()
	if f.delay > 0 {
		time.Sleep(f.delay)
	}
	return preadFull(f.fd, f.path, to, offset)
}

// readCopy reads into b's own memory. Once the bytes are there, it no longer needs the File.
func (f *File) readCopy(b *Buffer, offset, length int64) (View, error) {
	b.file = nil
	defer f.release()
	if err := b.reserve(length); err != nil {
		return View{}, at(err, f.path)
	}
	if err := preadFull(f.fd, f.path, b.memory[:length], offset); err != nil {
		return View{}, err
	}
	return b.Part(0, length), nil
}

// readMapped shows the mapping after the kernel has populated every page of the range.
func (f *File) readMapped(b *Buffer, offset, length int64) (View, error) {
	pages := f.mapped[offset&^(pageSize-1) : offset+length]
	if f.ahead {
		announce(pages)
	}
	f.watch.arm()
	err := populate(pages)
	// The size is checked even if populating succeeded: the page with the new end still exists, with zeros behind the
	// end.
	status, cut := f.reaches(offset, offset+length)
	if cut != nil {
		return View{}, cut
	}
	switch {
	case err == nil:
		b.offset, b.length, b.changed = offset, length, status.Mtim
		return View{unsafe.Pointer(unsafe.SliceData(f.mapped[offset:])), length}, nil
	case err == unix.EFAULT:
		// "A SIGBUS would have been generated" (madvise(2)), but the file is long enough. Only pread can say why, or
		// get the bytes after all.
		return f.readCopy(b, offset, length)
	}
	return View{}, &Error{opRead, f.path, offset, none, none, memoryOr(err)}
}

// reaches returns an error unless the file has as many bytes as the range from offset needs.
func (f *File) reaches(offset, end int64) (status unix.Stat_t, err error) {
	if err := fstat(f.fd, &status); err != nil {
		return status, &Error{opRead, f.path, offset, none, none, err}
	}
	if status.Size < end {
		return status, &Error{opRead, f.path, offset, end, status.Size, ErrTruncated}
	}
	return status, nil
}

// saturatingAdd keeps an impossible range printable.
func saturatingAdd(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return max(a+b, none)
}
