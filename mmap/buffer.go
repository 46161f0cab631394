package mmap

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// smallestBuffer holds a typical photograph, so that most buffers are allocated only once.
const smallestBuffer = 256 << 10

// bufferBytes is the memory held by all Buffers of the process. A test reads it to see that nothing leaks, because the
// garbage collector does not know of this memory.
var bufferBytes atomic.Int64

// BufferBytes returns how much memory all Buffers hold together.
func BufferBytes() int64 { return bufferBytes.Load() }

// Buffer holds the bytes of one read: in its own anonymous memory with the pread backend, otherwise by a reference on
// the mapping. The zero value is ready. It must not be copied.
type Buffer struct {
	memory []byte
	file   *File // the file whose mapping the last View shows; nil if it shows memory
	// These are of that View, in file, and when the file was last changed.
	offset, length int64
	changed        unix.Timespec
}

// Intact returns nil if the last View's bytes were those of the file all the time until now. If a mapped file was cut
// meanwhile, zeros were read, and whatever was made of them is invalid.
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
	case status.Size >= f.size && status.Mtim != b.changed: // cut in a page of the View, and whole again
		return &Error{opRead, f.path, b.offset, none, none, ErrStale}
	}
	return nil
}

// Free gives all memory back. The Buffer may be used again.
func (b *Buffer) Free() {
	b.Empty()
	if b.memory == nil {
		return
	}
	bufferBytes.Add(-int64(len(b.memory)))
	// Mmap returned this range, so munmap cannot fail.
	_ = unix.Munmap(b.memory)
	b.memory = nil
}

// Size returns how much memory the Buffer itself holds.
func (b *Buffer) Size() int { return len(b.memory) }

// Empty ends the last View, lets go of its File, and keeps the memory for the next read.
func (b *Buffer) Empty() {
	if b.file != nil {
		b.file.release()
		b.file = nil
	}
}

// hold makes the Buffer a holder of f instead of what it showed before.
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

// reserve makes room for length bytes; the former contents of the Buffer are lost. Sizes are powers of two, so that a
// stream of ever larger records costs few allocations. The memory is private and anonymous, because its first touch
// costs half as much as that of shared memory.
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

// Reserve makes room for length bytes, which the caller writes and Part shows. The former contents of the Buffer are
// lost.
func (b *Buffer) Reserve(length int64) ([]byte, error) {
	if err := b.reserve(length); err != nil {
		return nil, err
	}
	return b.memory[:length], nil
}

// Part shows the bytes [from, to) of what Reserve returned.
func (b *Buffer) Part(from, to int64) View {
	if from == to {
		return View{}
	}
	return View{Pointer: unsafe.Pointer(&b.memory[from]), Length: to - from}
}

// View is a range of readable bytes; see "Life of a View". Pointer is nil if Length is 0.
type View struct {
	Pointer unsafe.Pointer
	Length  int64
}

// Bytes shows the View to Go code. It may be used only for views in a Buffer's memory or inside Guard; otherwise a
// fault on a mapping that Go reads ends the process.
func (v View) Bytes() []byte { return unsafe.Slice((*byte)(v.Pointer), v.Length) }
