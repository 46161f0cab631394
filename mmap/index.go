package mmap

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"
)

// OpenIndex maps a whole file for Go code to read; close ends that. Meant for files that are
// written once and renamed into place, never changed. On file systems where a page may fail at
// any time (Auto would choose Pread) the file is copied to memory instead. What Go reads from
// the mapping belongs inside Guard until its checksum was seen to hold.
func OpenIndex(path string) (bytes []byte, close func() error, err error) {
	f, err := Open(path, Options{})
	if err != nil {
		return nil, nil, err
	}
	b := new(Buffer)
	if f.backend == Mapped {
		// No populate here: opening stays O(1) in the size of the index.
		b.hold(f)
		return f.mapped, func() error { b.Free(); return f.Close() }, nil
	}
	view, err := f.Read(b, 0, f.size)
	f.Close()
	if err != nil {
		b.Free()
		return nil, nil, err
	}
	return view.Bytes(), func() error { b.Free(); return nil }, nil
}

// Guard runs read, which looks at mapped bytes of the file at path, and turns a fault into an
// error. It covers Go code on this goroutine only, and only while nobody in the process has
// replaced Go's SIGBUS handler: a second line of defence behind checks at open.
func Guard(path string, read func() error) (err error) {
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
		err = &Error{opRead, path, none, none, none,
			fmt.Errorf("%w: page fault at %#x", ErrTruncated, fault.Addr())}
	}()
	return read()
}

// Populate checks that every page of a part of an index can be read, before Go reads it.
func Populate(path string, part []byte) error {
	if len(part) == 0 {
		return nil
	}
	// madvise wants a page boundary; the bytes before part belong to the same mapping.
	address := uintptr(unsafe.Pointer(unsafe.SliceData(part)))
	before := int(address & uintptr(pageSize-1))
	pages := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(part)), -before)), before+len(part))
	if err := populate(pages); err != nil && canPopulate() {
		return &Error{opRead, path, none, none, none, fmt.Errorf("%w or cannot be read: %w", ErrTruncated, memoryOr(err))}
	}
	return nil
}
