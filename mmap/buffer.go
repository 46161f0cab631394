package mmap

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// smallestBuffer holds a typical photograph, so that most buffers are allocated once.
const smallestBuffer = 256 << 10

// bufferBytes is the memory held by all Buffers of the process; a test reads it to see that
// nothing leaks, for the garbage collector does not know of this memory.
var bufferBytes atomic.Int64

// BufferBytes returns how much memory all Buffers hold together.
func BufferBytes() int64 { return bufferBytes.Load() }

// Buffer is where the bytes of one read stand: its own anonymous memory with the pread backend,
// a reference on the mapping otherwise. The zero value is ready. It must not be copied.
type Buffer struct {
	memory []byte
	file   *File // whose mapping the last View shows; nil when it shows memory
	// Of that View, in file; and when that was changed last.
	offset, length int64
	changed        unix.Timespec
}

// Intact is nil if the last View's bytes were those of the file for as long as they were looked at, until
// now. Where a mapped file was cut meanwhile, zeros were read, and whatever was made of them is void.
func (b *Buffer) Intact() error {
	f := b.file
	if f == nil || b.length == 0 {
		return nil
	}
	status, err := f.reaches(b.offset, b.offset+b.length)
	switch {
	case err != nil:
		return err
	case b.offset+b.length > f.watch.lost():
		return &Error{opRead, f.path, b.offset, none, none, ErrLost}
	case status.Size >= f.size && status.Mtim != b.changed: // cut in a page of the View's, and whole again
		return &Error{opRead, f.path, b.offset, none, none, ErrStale}
	}
	return nil
}

// Free gives everything back. The Buffer may be used again.
func (b *Buffer) Free() {
	b.Empty()
	if b.memory == nil {
		return
	}
	bufferBytes.Add(-int64(len(b.memory)))
	// The range is one that Mmap returned, so munmap has nothing to object to.
	_ = unix.Munmap(b.memory)
	b.memory = nil
}

// Size is how much memory the Buffer holds of its own.
func (b *Buffer) Size() int { return len(b.memory) }

// Empty ends the last View and lets go of its File, and keeps the memory for the next read.
func (b *Buffer) Empty() {
	if b.file != nil {
		b.file.release()
		b.file = nil
	}
}

// hold makes the Buffer a holder of f in place of what it showed before.
func (b *Buffer) hold(f *File) bool {
	b.length = 0
	if b.file == f {
		return !f.closed.Load()
	}
	if !f.acquire() {
		return false
	}
	b.Empty()
	b.file = f
	return true
}

// reserve makes room for length bytes; what stood in the Buffer is lost. Sizes are powers of
// two, so that a stream of ever larger records costs few allocations. Private anonymous memory:
// first touch costs half of what shared memory costs.
func (b *Buffer) reserve(length int64) error {
	b.Empty()
	if length <= int64(len(b.memory)) {
		return nil
	}
	size := uint64(smallestBuffer)
	if uint64(length) > size {
		size = 1 << bits.Len64(uint64(length-1))
	}
	if size > maxInt {
		return &Error{Op: opAlloc, Offset: none, Expected: length, Found: none, Err: ErrMemory}
	}
	b.Free()
	memory, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return &Error{Op: opAlloc, Offset: none, Expected: length, Found: none, Err: ErrMemory}
	}
	b.memory = memory
	bufferBytes.Add(int64(len(memory)))
	return nil
}

// Reserve makes room for length bytes, to be written by the caller and shown by Part; what stood in the
// Buffer is lost.
func (b *Buffer) Reserve(length int64) ([]byte, error) {
	if err := b.reserve(length); err != nil {
		return nil, err
	}
	return b.memory[:length], nil
}

// Part shows the bytes from one place to before another of what Reserve gave.
func (b *Buffer) Part(from, to int64) View {
	if from == to {
		return View{}
	}
	return View{Pointer: unsafe.Pointer(&b.memory[from]), Length: to - from}
}

// View is a range of readable bytes; see "Life of a View". Pointer is nil where Length is 0.
type View struct {
	Pointer unsafe.Pointer
	Length  int64
}

// Bytes shows the View to Go code. Only for views in a Buffer's memory or inside Guard: a fault
// on a mapping that Go reads ends the process otherwise.
func (v View) Bytes() []byte { return unsafe.Slice((*byte)(v.Pointer), v.Length) }
