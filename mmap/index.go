package mmap

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"
)

// Index is a whole file that Go code reads. It is meant for files that are written once, renamed into place and never
// changed. On file systems where a page may fail at any time (Auto chooses Pread there) it is a copy in memory.
type Index struct {
	path   string
	bytes  []byte
	mapped *File // nil if bytes are in memory
	buffer Buffer
	last   byte // the last byte, as it was when the file was opened
}

// OpenIndex maps a whole file. Go code should read its bytes inside Guard.
func OpenIndex(path string) (*Index, error) {
	f, err := Open(path, Options{})
	if err != nil {
		return nil, err
	}
	x := &Index{path: path}
	if f.backend == Mapped {
		// Nothing is populated here, so that opening takes the same time for any size of the index.
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

// MakeIndex returns an Index of bytes that do not lie in a local file: fill writes all of them. path is their name in
// errors.
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

// Bytes returns the bytes of the file as it was opened; they are valid until Close.
func (x *Index) Bytes() []byte { return x.bytes }

// Close may be called once, when no code reads the bytes any more.
func (x *Index) Close() error {
	x.buffer.Free()
	if x.mapped == nil {
		return nil
	}
	return x.mapped.Close()
}

// Guard runs read, which looks at the bytes, and turns what may happen to a mapping into an error: the file was cut
// before or meanwhile. What read took from the bytes is then invalid.
func (x *Index) Guard(read func() error) (err error) {
	f := x.mapped
	if f == nil || f.size == 0 {
		return read()
	}
	f.watch.arm()
	defer x.recovered(debug.SetPanicOnFault(true), &err)
	err = read()
	if cut := x.whole(); cut != nil {
		return cut // err may be a consequence of it
	}
	return err
}

// whole returns nil if the file has not been cut. It looks at the last byte, which costs nothing, while fstat would
// cost 0.4 us for each row: wherever a file is cut, its last byte is a zero at once, or its last page is gone. A cut in
// the last page that is repaired while one row is read is not noticed.
func (x *Index) whole() error {
	f := x.mapped
	// The order matters: what is known to be lost must not be read if no page could take its place.
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

// recovered turns what reading zeros led to into an error: for instance rows that begin behind their end. It does the
// same with a fault for which the watch had no page, if the process has as many mappings as it may have.
func (x *Index) recovered(before bool, err *error) {
	debug.SetPanicOnFault(before)
	r := recover()
	if r == nil {
		return
	}
	if *err = x.whole(); *err != nil {
		return
	}
	// Only a memory fault has an address; every other panic is a bug.
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
	// madvise needs a page boundary; the bytes before part belong to the same mapping.
	address := uintptr(unsafe.Pointer(unsafe.SliceData(part)))
	before := int(address & uintptr(pageSize-1))
	pages := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(part)), -before)), before+len(part))
	if err := populate(pages); err != nil && canPopulate() {
		return &Error{opRead, x.path, none, none, none, fmt.Errorf("%w or cannot be read: %w", ErrTruncated, memoryOr(err))}
	}
	return nil
}
