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

// Backend is how bytes become readable.
type Backend int

const (
	Auto   Backend = iota // Mapped on local file systems where the kernel can populate, else Pread
	Mapped                // bytes are read where the page cache has them
	Pread                 // bytes are copied; no fault is possible
)

func (b Backend) String() string {
	return [...]string{"auto", "mmap", "pread"}[b]
}

// Options of Open and ReadWhole.
type Options struct {
	Backend Backend
	// Sequential says that records are read in file order, where the kernel's own read-ahead is
	// best (82 us against 155 us a cold record); otherwise each read announces its extent.
	Sequential bool
	// ReadDelay is waited before every read: how a test stands for slow storage.
	ReadDelay time.Duration
}

const maxInt = math.MaxInt // also the largest mapping: mmap-go's lengths are ints

// File is an open file of fixed extent. Safe for any number of goroutines.
type File struct {
	path    string
	file    *os.File // owns the descriptor
	fd      int
	size    int64
	mapped  mapping.MMap // nil with the pread backend and for an empty file
	watch   watch        // of mapped
	backend Backend
	ahead   bool // each read announces its extent
	delay   time.Duration

	// One reference belongs to the owner until Close, one to each Buffer that shows the mapping.
	references atomic.Int64
	closed     atomic.Bool
}

// Open opens a regular file. Its size now bounds every later Read: bytes appended afterwards
// are never seen.
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

// Size, Path and Backend are what the file was opened with; of a file that changes they do not.
func (f *File) Size() int64      { return f.size }
func (f *File) Path() string     { return f.path }
func (f *File) Backend() Backend { return f.backend }

// Close ends the File for new reads. Views that are in use stay valid until their Buffers let
// go. Closing twice is harmless.
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

// ReadCopy is Read by pread, whatever the backend: nothing that happens to the file changes the View.
func (f *File) ReadCopy(b *Buffer, offset, length int64) (View, error) {
	return f.read(b, offset, length, false)
}

func (f *File) read(b *Buffer, offset, length int64, mapped bool) (View, error) {
	// Nothing here can overflow: neither size nor length is negative where one is subtracted.
	if offset < 0 || length < 0 || offset > f.size-length {
		return View{}, &Error{opRead, f.path, offset, saturatingAdd(offset, length), f.size, ErrBounds}
	}
	// Held by both backends: it also keeps the descriptor from being closed, and its number
	// from being given to another file, in the middle of a pread.
	if !b.hold(f) {
		return View{}, &Error{opRead, f.path, offset, none, none, ErrClosed}
	}
	if f.delay > 0 {
		time.Sleep(f.delay)
	}
	if length == 0 {
		return View{}, nil
	}
	// Where a mapping has zeros the file is asked, which may be whole again.
	if mapped && offset+length <= f.watch.lost() {
		return f.readMapped(b, offset, length)
	}
	return f.readCopy(b, offset, length)
}

// ReadInto copies bytes from offset on to memory of the caller's, with either backend.
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

// readCopy reads into b's own memory and, once the bytes are there, needs the File no longer.
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

// readMapped shows the mapping after the kernel has vouched for every page of the range.
func (f *File) readMapped(b *Buffer, offset, length int64) (View, error) {
	pages := f.mapped[offset&^(pageSize-1) : offset+length]
	if f.ahead {
		announce(pages)
	}
	f.watch.arm()
	err := populate(pages)
	// Asked even when populate was content: the page that holds the new end is still there, with
	// zeros behind the end.
	status, cut := f.reaches(offset, offset+length)
	if cut != nil {
		return View{}, cut
	}
	switch {
	case err == nil:
		b.offset, b.length, b.changed = offset, length, status.Mtim
		return View{unsafe.Pointer(unsafe.SliceData(f.mapped[offset:])), length}, nil
	case err == unix.EFAULT:
		// "A SIGBUS would have been generated" (madvise(2)), and the file is long enough: only
		// pread can say why, or get the bytes after all.
		return f.readCopy(b, offset, length)
	}
	return View{}, &Error{opRead, f.path, offset, none, none, memoryOr(err)}
}

// reaches fails unless the file has as many bytes as a range from offset needs.
func (f *File) reaches(offset, end int64) (status unix.Stat_t, err error) {
	if err := fstat(f.fd, &status); err != nil {
		return status, &Error{opRead, f.path, offset, none, none, err}
	}
	if status.Size < end {
		return status, &Error{opRead, f.path, offset, end, status.Size, ErrTruncated}
	}
	return status, nil
}

// saturatingAdd keeps a nonsensical range printable.
func saturatingAdd(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return max(a+b, none)
}
