// Package flat reads FlatBuffers, the encoding of Arrow's metadata, in bytes from anywhere. It knows nothing
// of what they mean, but for the numbers of fields that Arrow's schemas give them (arrow.go).
package flat

import "encoding/binary"

// Table is a table of a FlatBuffer.
//
// Why not arrow-go's own reader: it takes the lengths of vectors for granted and allocates what
// they say (FuzzIndex had it ask for 377 GB over four bytes of a footer), which no recover
// catches. Here every read is bounded: what lies outside, or is no table, reads as zero or as
// empty, and the caller refuses a schema or batch in which anything is missing.
//
// Layout: https://flatbuffers.dev/internals. A table begins with the signed distance back to
// its vtable; the vtable holds its own size, the table's, and the place of each field, 0 where
// absent.
type Table struct {
	data []byte
	at   uint64 // of the table; 0 for none, which no real table has
}

// Root is the table a buffer begins with.
func Root(data []byte) Table {
	return Table{data, uint64(u32(data, 0))}
}

// Size is how many bytes the buffer has that the table is of.
func (t Table) Size() int { return len(t.data) }

// Present is false of a table that is not there.
func (t Table) Present() bool { return t.at != 0 }

// u16 and u32 read anywhere, as I64 does. The bound is compared without adding to at, which
// may be any number.
func u16(data []byte, at uint64) uint16 {
	if at > uint64(len(data)) || uint64(len(data))-at < 2 {
		return 0
	}
	return binary.LittleEndian.Uint16(data[at:])
}

func u32(data []byte, at uint64) uint32 {
	if at > uint64(len(data)) || uint64(len(data))-at < 4 {
		return 0
	}
	return binary.LittleEndian.Uint32(data[at:])
}

// I64 is the number at a place, 0 outside the data.
func I64(data []byte, at uint64) int64 {
	if at > uint64(len(data)) || uint64(len(data))-at < 8 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(data[at:]))
}

// Field is where field n stands, 0 where it is absent.
func (t Table) Field(n uint64) uint64 {
	if t.at == 0 {
		return 0
	}
	vtable := t.at - uint64(int64(int32(u32(t.data, t.at)))) // wraps to far outside where it is wrong
	if 4+2*n+2 > uint64(u16(t.data, vtable)) {
		return 0
	}
	offset := uint64(u16(t.data, vtable+4+2*n))
	if offset == 0 {
		return 0
	}
	return t.at + offset
}

// U8 is the number in field n, 0 where it is absent, as U16, U32 and I64 are.
func (t Table) U8(n uint64) uint8 {
	if at := t.Field(n); at != 0 && at < uint64(len(t.data)) {
		return t.data[at]
	}
	return 0
}

// U16 is a number as U8: only a present field is read, for at 0 stands the root's offset.
func (t Table) U16(n uint64) uint16 {
	if at := t.Field(n); at != 0 {
		return u16(t.data, at)
	}
	return 0
}

// U32 is a number as U8.
func (t Table) U32(n uint64) uint32 {
	if at := t.Field(n); at != 0 {
		return u32(t.data, at)
	}
	return 0
}

// I64 is a number as U8.
func (t Table) I64(n uint64) int64 {
	if at := t.Field(n); at != 0 {
		return I64(t.data, at)
	}
	return 0
}

// Table follows the offset in field n.
func (t Table) Table(n uint64) Table {
	at := t.Field(n)
	offset := t.U32(n)
	if at == 0 || offset == 0 {
		return Table{}
	}
	return Table{t.data, at + uint64(offset)}
}

// Vector is the elements of the vector in field n, each of size bytes. One that does not fit the
// data is empty.
func (t Table) Vector(n, size uint64) (elements []byte, at uint64, count int) {
	v := t.Table(n)
	if v.at == 0 {
		return nil, 0, 0
	}
	length := uint64(u32(v.data, v.at))
	at = v.at + 4
	if at > uint64(len(v.data)) || length > (uint64(len(v.data))-at)/size {
		return nil, 0, 0
	}
	return v.data[at : at+length*size], at, int(length)
}

// Text is the string in field n, a copy. Strings may overlap: who copies many bounds their lengths, which
// Vector tells.
func (t Table) Text(n uint64) string {
	b, _, _ := t.Vector(n, 1)
	return string(b)
}

// Tables calls each for every table of the vector of offsets in field n.
func (t Table) Tables(n uint64, each func(i int, t Table)) int {
	_, at, count := t.Vector(n, 4)
	for i := range count {
		place := at + 4*uint64(i)
		each(i, Table{t.data, place + uint64(u32(t.data, place))})
	}
	return count
}
