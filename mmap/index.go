package mmap

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Index is a whole file for Go code to read. Meant for files that are written once and renamed
// into place, never changed. On file systems where a page may fail at any time (Auto chooses
// Pread there) it is a copy in memory.
type Index struct {
	path   string
	bytes  []byte
	mapped *File // nil where bytes are memory
	buffer Buffer
}

// OpenIndex maps a file whole. What Go reads of its bytes belongs inside Guard.
func OpenIndex(path string) (*Index, error) {
	f, err := Open(path, Options{})
	if err != nil {
		return nil, err
	}
	x := &Index{path: path}
	if f.backend == Mapped {
		// No populate here: opening stays O(1) in the size of the index.
		x.buffer.hold(f)
		x.mapped, x.bytes = f, f.mapped
		return x, nil
	}
	view, err := f.Read(&x.buffer, 0, f.size)
	f.Close()
	if err != nil {
		x.buffer.Free()
		return nil, err
	}
	x.bytes = view.Bytes()
	return x, nil
}

// MakeIndex is an Index of bytes that do not lie in a file here: fill writes all of them. path is what
// errors call it.
func MakeIndex(path string, size int64, fill func(to []byte) error) (*Index, error) {
	x := &Index{path: path}
	room, err := x.buffer.Reserve(size)
	if err != nil {
		return nil, at(err, path)
	}
	if err := fill(room); err != nil {
		x.buffer.Free()
		return nil, err
	}
	x.bytes = room
	return x, nil
}

// Bytes are those of the file as it was opened, until Close.
func (x *Index) Bytes() []byte { return x.bytes }

// Close may be called once, when nobody reads any more.
func (x *Index) Close() error {
	x.buffer.Free()
	if x.mapped == nil {
		return nil
	}
	return x.mapped.Close()
}

// unchanged is nil while the file still has the size it was opened with.
func (x *Index) unchanged() error {
	if x.mapped == nil {
		return nil
	}
	var status unix.Stat_t
	if err := fstat(x.mapped.fd, &status); err != nil {
		return &Error{opRead, x.path, none, none, none, err}
	}
	if status.Size < x.mapped.size {
		return &Error{opRead, x.path, none, x.mapped.size, status.Size, ErrTruncated}
	}
	return nil
}

// Guard runs read, which looks at the bytes, and turns what may happen to a mapping into an
// error: the file was cut before (one fstat, 0.2 us), or is cut, or a page fails, meanwhile. The
// latter covers Go code on this goroutine only, and only while nobody in the process has replaced
// Go's SIGBUS handler, as Python's faulthandler does.
func (x *Index) Guard(read func() error) (err error) {
	if err := x.unchanged(); err != nil {
		return err
	}
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		r := recover()
		if r == nil {
			return
		}
		// Only a memory fault has an address; every other panic is somebody's bug.
		fault, ok := r.(interface {
			runtime.Error
			Addr() uintptr
		})
		if !ok {
			panic(r)
		}
		err = &Error{opRead, x.path, none, none, none,
			fmt.Errorf("%w: page fault at %#x", ErrTruncated, fault.Addr())}
	}()
	return read()
}

// Populate checks that every page of a part of the bytes can be read, before Go reads it.
func (x *Index) Populate(part []byte) error {
	if len(part) == 0 || x.mapped == nil {
		return nil
	}
	// madvise wants a page boundary; the bytes before part belong to the same mapping.
	address := uintptr(unsafe.Pointer(unsafe.SliceData(part)))
	before := int(address & uintptr(pageSize-1))
	pages := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(part)), -before)), before+len(part))
	if err := populate(pages); err != nil && canPopulate() {
		return &Error{opRead, x.path, none, none, none, fmt.Errorf("%w or cannot be read: %w", ErrTruncated, memoryOr(err))}
	}
	return nil
}
