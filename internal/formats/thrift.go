package formats

import (
	"encoding/binary"
	"fmt"
)

// thriftReader reads Thrift's compact protocol (thrift-compact-protocol.md), in which Parquet's metadata is written.
// parquet-go's own decoder allocates what a length or a list claims before it has read that much. Here nothing is
// allocated, and every length is compared with the bytes that are left. The first error is kept.
type thriftReader struct {
	data []byte
	at   int
	err  error
}

// These are the types of fields and elements.
const (
	thriftTrue, thriftFalse, thriftByte        = 1, 2, 3
	thriftI16, thriftI32, thriftI64            = 4, 5, 6
	thriftDouble, thriftBinary, thriftList     = 7, 8, 9
	thriftSet, thriftMap, thriftStruct         = 10, 11, 12
	maxThriftDepth                         int = 32
)

func (t *thriftReader) fail(format string, a ...any) {
	if t.err == nil {
		t.err = fmt.Errorf("%w: the metadata: "+format, append([]any{ErrBad}, a...)...)
	}
	t.at = len(t.data)
}

func (t *thriftReader) byte() byte {
	if t.at >= len(t.data) {
		t.fail("it ends too early")
		return 0
	}
	t.at++
	return t.data[t.at-1]
}

func (t *thriftReader) varint() uint64 {
	v, n := binary.Uvarint(t.data[t.at:])
	if n <= 0 {
		t.fail("a number that does not end")
		return 0
	}
	t.at += n
	return v
}

// number reads a signed integer of 16 to 64 bits, which is written in zigzag.
func (t *thriftReader) number() int64 {
	v := t.varint()
	return int64(v>>1) ^ -int64(v&1)
}

// number32 reads a number of a 32-bit type. The encoding does not limit it, so this function does. Two of them can be
// added without overflow.
func (t *thriftReader) number32() int64 {
	n := t.number()
	if n != int64(int32(n)) {
		t.fail("the number %d, which has 32 bits", n)
		return 0
	}
	return n
}

func (t *thriftReader) bytes() []byte {
	n := t.varint()
	if n > uint64(len(t.data)-t.at) {
		t.fail("%d bytes, %d are left", n, len(t.data)-t.at)
		return nil
	}
	t.at += int(n)
	return t.data[t.at-int(n) : t.at]
}

// fields calls each for every field of a struct. A field that each does not read, by returning false, is skipped.
func (t *thriftReader) fields(depth int, each func(id int, kind byte) bool) {
	id := 0
	for t.err == nil {
		head := t.byte()
		kind := head & 15
		if kind == 0 {
			return
		}
		// A field has the difference between its number and the one before, 1 to 15. If that is not possible, its number
		// follows the byte.
		if delta := int(head >> 4); delta > 0 {
			id += delta
		} else {
			id = int(t.number())
		}
		if t.err == nil && !each(id, kind) {
			t.skip(kind, depth+1)
		}
	}
}

// list calls each for every element; an element of another type than want is an error.
func (t *thriftReader) list(want byte, each func(i int)) {
	head := t.byte()
	n := uint64(head >> 4)
	if n == 15 { // a count of fifteen or more follows the byte
		n = t.varint()
	}
	if head&15 != want && n > 0 {
		t.fail("a list of type %d (expected %d)", head&15, want)
	}
	for i := 0; t.err == nil && uint64(i) < n; i++ {
		each(i)
	}
}

// skip skips a value.
func (t *thriftReader) skip(kind byte, depth int) {
	if depth > maxThriftDepth {
		t.fail("more than %d levels", maxThriftDepth)
		return
	}
	switch kind {
	case thriftTrue, thriftFalse: // a boolean field has its value in its type
	case thriftByte:
		t.byte()
	case thriftI16, thriftI32, thriftI64:
		t.varint()
	case thriftDouble:
		for range 8 {
			t.byte()
		}
	case thriftBinary:
		t.bytes()
	case thriftList, thriftSet:
		head := t.byte()
		n := uint64(head >> 4)
		if n == 15 {
			n = t.varint()
		}
		for ; t.err == nil && n > 0; n-- {
			t.element(head&15, depth)
		}
	case thriftMap:
		n := t.varint()
		if n == 0 { // an empty map has no byte of types
			return
		}
		kinds := t.byte()
		for ; t.err == nil && n > 0; n-- {
			t.element(kinds>>4, depth)
			t.element(kinds&15, depth)
		}
	case thriftStruct:
		t.fields(depth, func(int, byte) bool { return false })
	default:
		t.fail("a value of type %d", kind)
	}
}

// element skips an element of a list, in which a boolean takes a byte.
func (t *thriftReader) element(kind byte, depth int) {
	if kind == thriftTrue || kind == thriftFalse {
		kind = thriftByte
	}
	t.skip(kind, depth+1)
}
