package mmap

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"
)

// Index is a whole file for Go code to read. Meant for files that are written once and renamed
// into place, never changed. On file systems where a page may fail at any time (Auto chooses
// Pread there) it is a copy in memory.
type Index struct {
	path   string
	bytes  []byte
	mapped *File // nil where bytes are memory
	buffer Buffer
	last   byte // of bytes, as it was found first
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
		if f.size > 0 {
			x.last = f.mapped[f.size-1]
		}
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

// Guard runs read, which looks at the bytes, and turns what may happen to a mapping into an error: the
// file was cut before, or meanwhile. What read took of the bytes is void then.
func (x *Index) Guard(read func() error) (err error) {
	f := x.mapped
	if f == nil || f.size == 0 {
		return read()
	}
	f.watch.arm()
	defer x.recovered(debug.SetPanicOnFault(true), &err)
	err = read()
	if cut := x.whole(); cut != nil {
		return cut // of which err may be a consequence
	}
	return err
}

// whole is nil if the file has not been cut. The last byte says so, and is had for nothing where fstat costs
// 0.4 us a row: wherever a file is cut, its last byte is a zero at once, or its last page is gone. Not
// noticed is a cut in the last page that is made good while one row is looked at.
func (x *Index) whole() error {
	f := x.mapped
	// In this order: what is known to be lost may not be looked at where no page could take its place.
	if f.size <= f.watch.lost() && x.last != 0 && f.mapped[f.size-1] == x.last {
		return nil
	}
	switch _, err := f.reaches(none, f.size); {
	case err != nil:
		return err
	case f.size > f.watch.lost():
		return &Error{opRead, x.path, none, none, none, ErrLost}
	case x.last != 0:
		return &Error{opRead, x.path, none, none, none, ErrStale}
	}
	return nil
}

// recovered makes an error of what looking at zeros led to: rows that begin behind their end, for instance.
// And of a fault that the watch had no page for, where the process has as many mappings as it may have.
func (x *Index) recovered(before bool, err *error) {
	debug.SetPanicOnFault(before)
	r := recover()
	if r == nil {
		return
	}
	if *err = x.whole(); *err != nil {
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
	*err = &Error{opRead, x.path, none, none, none,
		fmt.Errorf("%w: page fault at %#x", ErrTruncated, fault.Addr())}
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
