package catalog

import "encoding/binary"

// flatTable is a table of a FlatBuffer, the encoding of Arrow's metadata, in bytes from anywhere.
//
// Why not arrow-go's own reader: it takes the lengths of vectors for granted and allocates what
// they say (FuzzIndex had it ask for 377 GB over four bytes of a footer), which no recover
// catches. Here every read is bounded: what lies outside, or is no table, reads as zero or as
// empty, and the caller refuses a schema or batch in which anything is missing.
//
// Layout: https://flatbuffers.dev/internals. A table begins with the signed distance back to
// its vtable; the vtable holds its own size, the table's, and the place of each field, 0 where
// absent.
type flatTable struct {
	data []byte
	at   uint64 // of the table; 0 for none, which no real table has
}

// flatRoot is the table a buffer begins with.
func flatRoot(data []byte) flatTable {
	return flatTable{data, uint64(flatU32(data, 0))}
}

// flatU16, flatU32 and flatI64 read anywhere. The bound is compared without adding to at, which
// may be any number.
func flatU16(data []byte, at uint64) uint16 {
	if at > uint64(len(data)) || uint64(len(data))-at < 2 {
		return 0
	}
	return binary.LittleEndian.Uint16(data[at:])
}

func flatU32(data []byte, at uint64) uint32 {
	if at > uint64(len(data)) || uint64(len(data))-at < 4 {
		return 0
	}
	return binary.LittleEndian.Uint32(data[at:])
}

func flatI64(data []byte, at uint64) int64 {
	if at > uint64(len(data)) || uint64(len(data))-at < 8 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(data[at:]))
}

// field is where field n stands, 0 where it is absent.
func (t flatTable) field(n uint64) uint64 {
	if t.at == 0 {
		return 0
	}
	vtable := t.at - uint64(int64(int32(flatU32(t.data, t.at)))) // wraps to far outside where it is wrong
	if 4+2*n+2 > uint64(flatU16(t.data, vtable)) {
		return 0
	}
	offset := uint64(flatU16(t.data, vtable+4+2*n))
	if offset == 0 {
		return 0
	}
	return t.at + offset
}

func (t flatTable) u8(n uint64) uint8 {
	if at := t.field(n); at != 0 && at < uint64(len(t.data)) {
		return t.data[at]
	}
	return 0
}

// Only a present field is read: at 0 stands the root's offset.
func (t flatTable) u16(n uint64) uint16 {
	if at := t.field(n); at != 0 {
		return flatU16(t.data, at)
	}
	return 0
}

func (t flatTable) u32(n uint64) uint32 {
	if at := t.field(n); at != 0 {
		return flatU32(t.data, at)
	}
	return 0
}

func (t flatTable) i64(n uint64) int64 {
	if at := t.field(n); at != 0 {
		return flatI64(t.data, at)
	}
	return 0
}

// table follows the offset in field n.
func (t flatTable) table(n uint64) flatTable {
	at := t.field(n)
	offset := t.u32(n)
	if at == 0 || offset == 0 {
		return flatTable{}
	}
	return flatTable{t.data, at + uint64(offset)}
}

// vector is the elements of the vector in field n, each of size bytes. One that does not fit the
// data is empty.
func (t flatTable) vector(n, size uint64) (elements []byte, at uint64, count int) {
	v := t.table(n)
	if v.at == 0 {
		return nil, 0, 0
	}
	length := uint64(flatU32(v.data, v.at))
	at = v.at + 4
	if at > uint64(len(v.data)) || length > (uint64(len(v.data))-at)/size {
		return nil, 0, 0
	}
	return v.data[at : at+length*size], at, int(length)
}

// text is the string in field n.
func (t flatTable) text(n uint64) string {
	b, _, _ := t.vector(n, 1)
	return string(b)
}

// tables calls each for every table of the vector of offsets in field n.
func (t flatTable) tables(n uint64, each func(i int, t flatTable)) int {
	_, at, count := t.vector(n, 4)
	for i := range count {
		place := at + 4*uint64(i)
		each(i, flatTable{t.data, place + uint64(flatU32(t.data, place))})
	}
	return count
}
