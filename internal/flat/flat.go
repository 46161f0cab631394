// Package flat reads FlatBuffers, the encoding of Arrow's metadata, in bytes from any source. It knows nothing of their
// meaning, except the numbers that Arrow's schemas give to fields (arrow.go).
package flat

import "encoding/binary"

// Table is a table of a FlatBuffer.
//
// Why not arrow-go's own reader? It trusts the lengths of vectors and allocates what they state (FuzzIndex made it ask
// for 377 GB because of four bytes of a footer), and no recover catches that. Here every read is bounded: what lies
// outside, or is not a table, reads as zero or as empty, and the caller refuses a schema or batch in which anything is
// missing.
//
// Layout: https://flatbuffers.dev/internals. A table begins with the signed distance back to its vtable. The vtable
// holds its own size, the table's size, and the place of each field, 0 if the field is absent.
type Table struct {
	data []byte
	at   uint64 // of the table; 0 for none, which no real table has
}

// Root returns the table with which a buffer begins.
func Root(data []byte) Table {
	return Table{data, uint64(u32(data, 0))}
}

// Size returns the bytes of the buffer that contains the table.
func (t Table) Size() int { return len(t.data) }

// Present is false for a table that is not there.
func (t Table) Present() bool { return t.at != 0 }

// u16 and u32 read at any place, as I64 does. The bound is compared without adding to at, which may be any number.
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

// I64 returns the number at a place; 0 outside the data.
func I64(data []byte, at uint64) int64 {
	if at > uint64(len(data)) || uint64(len(data))-at < 8 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(data[at:]))
}

// Field returns where field n is; 0 if it is absent.
func (t Table) Field(n uint64) uint64 {
	if t.at == 0 {
		return 0
	}
	vtable := t.at - uint64(int64(int32(u32(t.data, t.at)))) // a wrong distance wraps to far outside
	if 4+2*n+2 > uint64(u16(t.data, vtable)) {
		return 0
	}
	offset := uint64(u16(t.data, vtable+4+2*n))
	if offset == 0 {
		return 0
	}
	return t.at + offset
}

// U8 returns the number in field n, 0 if it is absent. U16, U32 and I64 do the same.
func (t Table) U8(n uint64) uint8 {
	if at := t.Field(n); at != 0 && at < uint64(len(t.data)) {
		return t.data[at]
	}
	return 0
}

// U16 returns a number like U8. Only a present field is read, because the root's offset is at 0.
func (t Table) U16(n uint64) uint16 {
	if at := t.Field(n); at != 0 {
		return u16(t.data, at)
	}
	return 0
}

// U32 returns a number like U8.
func (t Table) U32(n uint64) uint32 {
	if at := t.Field(n); at != 0 {
		return u32(t.data, at)
	}
	return 0
}

// I64 returns a number like U8.
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

// Vector returns the elements of the vector in field n, each with size bytes. A vector that does not fit the data is
// empty.
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

// Text returns a copy of the string in field n. Strings may overlap, so a caller that copies many has to bound their
// lengths, which Vector tells.
func (t Table) Text(n uint64) string {
	b, _, _ := t.Vector(n, 1)
	return string(b)
}

// Tables calls each for every table in the vector of offsets in field n.
func (t Table) Tables(n uint64, each func(i int, t Table)) int {
	_, at, count := t.Vector(n, 4)
	for i := range count {
		place := at + 4*uint64(i)
		each(i, Table{t.data, place + uint64(u32(t.data, place))})
	}
	return count
}
