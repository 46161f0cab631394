package formats

import (
	"fmt"

	"github.com/parquet-go/parquet-go/format"
)

const maxPageHeader = 1 << 20

// pageHeader has PageHeader (parquet.thrift) and the needed members of the headers in it.
type pageHeader struct {
	typ                  format.PageType
	stored, size         int64 // size of the body, compressed and not
	crc                  uint32
	hasCRC               bool
	values               int64
	encoding             format.Encoding
	levelEncoding        format.Encoding
	repeatEncoding       format.Encoding
	definition, repeated int64 // size of the levels, in version 2
	compressed           bool
}

// readHeader reads the header of the next page, and returns where the body begins.
func (c *parquetColumn) readHeader() (h pageHeader, begin int64, err error) {
	// A header has some tens of bytes, or hundreds if it has the least and the greatest value. At most eight times as many
	// are read in vain.
	for most := int64(512); ; most = min(8*most, maxPageHeader) {
		raw := make([]byte, min(most, c.chunk.end-c.at))
		if err := readAt(c.r, raw, c.at); err != nil {
			return h, 0, err
		}
		t := &thriftReader{data: raw}
		h = pageHeader{typ: -1, stored: -1, size: -1, values: -1}
		t.fields(0, func(id int, kind byte) bool { return h.field(t, id, kind) })
		begin = c.at + int64(t.at)
		switch {
		case t.err != nil && most < maxPageHeader && int64(len(raw)) == most:
			continue
		case t.err != nil:
			return h, 0, t.err
		case h.stored < 0 || h.size < 0 || h.stored > c.chunk.end-begin:
			return h, 0, fmt.Errorf("%w: a page of %d bytes, %d once it is decoded, in a column that has %d left", ErrBad, h.stored, h.size, c.chunk.end-begin)
		// With two sizes it would be unclear where the next page begins.
		case c.chunk.codec == format.Uncompressed && h.size != h.stored:
			return h, 0, fmt.Errorf("%w: an uncompressed page of two sizes, %d and %d", ErrBad, h.stored, h.size)
		}
		return h, begin, nil
	}
}

func (h *pageHeader) field(t *thriftReader, id int, kind byte) bool {
	switch {
	case kind == thriftI32 && id == 1:
		h.typ = format.PageType(t.number32())
	case kind == thriftI32 && id == 2:
		h.size = t.number32()
	case kind == thriftI32 && id == 3:
		h.stored = t.number32()
	case kind == thriftI32 && id == 4:
		h.crc, h.hasCRC = uint32(t.number()), true // 32 bits, even if a writer treated them as unsigned
	case kind == thriftStruct && (id == 5 || id == 7 || id == 8):
		v2 := id == 8
		h.compressed = v2 // if the header says nothing else
		t.fields(1, func(id int, kind byte) bool {
			if v2 && id == 7 && (kind == thriftTrue || kind == thriftFalse) {
				h.compressed = kind == thriftTrue
				return true
			}
			if kind != thriftI32 {
				return false
			}
			switch n := t.number32(); {
			case id == 1:
				h.values = n
			case id == 2 && !v2, id == 4 && v2:
				h.encoding = format.Encoding(n)
			case id == 3 && !v2:
				h.levelEncoding = format.Encoding(n)
			case id == 4 && !v2:
				h.repeatEncoding = format.Encoding(n)
			case id == 5 && v2:
				h.definition = n
			case id == 6 && v2:
				h.repeated = n
			}
			return true
		})
	default:
		return false
	}
	return true
}
