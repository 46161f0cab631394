package scan

import (
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// An index holds the place of a value, in the container or in a compressed block. For a value in a block it may hold
// the value itself instead: then a name or caption is read without decoding a page, and takes little more room than its
// place, which is 33 bytes. Vectors that are written as text or varints have no place from which they could be read
// alone, so their values are always held.
const (
	maxHeldValue = 64 << 10
	leastHeld    = 64 << 20 // bytes of one container's values that may be held; or four times the container's size, if that is more

	// The values of a column in blocks are held as long as they have no more bytes on average, which is two or three rows
	// of an index. spareHeld is added, so that a few long values at the beginning do not decide.
	meanHeld  = 256
	spareHeld = 64 << 10
)

// noteValue keeps the place of a cell that is bytes, text or an array, or its value.
// There are three cases: a place in the file is kept; a place in a block is kept, with the value as long as the column
// is not bulky; without a place, the value is kept.
func (p *part) noteValue(col *column, row int, c *cell, image bool) error {
	// If one value has no place, the whole column is held, because all values of a field are read in one way.
	if c.held || col.nowhere {
		return p.hold(col, row, c)
	}
	// An image that is no field would be held, or take 33 more bytes in each row, for no use.
	if image && c.block != nil && !slices.Contains(p.fields, c.name) {
		return nil // the sample itself says where the image is
	}
	col.locate(row, c)
	if c.block == nil && col.texts == nil {
		return nil
	}
	// Whether to hold is decided at the first value, and given up if it turns out wrong. Holding cannot begin later,
	// because the earlier values would be missing.
	first := col.seen == 1
	if !first && col.texts == nil || image || c.block == nil ||
		c.length > maxHeldValue || tooBulky(col.held+c.length, col.seen) || p.held+c.length > p.mostHeld() {
		p.giveUp(col)
		col.sum(row, c)
		return nil
	}
	if first {
		col.texts = new(formats.Names)
	}
	return p.holdNext(col, row, c)
}

// tooBulky uses the average and not the longest value, so that a column of short names with one long one is still held.
func tooBulky(held, values int64) bool { return held > meanHeld*values+spareHeld }

// mostHeld is proportional to the container's size. In a hostile container a few bytes may be the values of many rows,
// for example as those of a dictionary.
func (p *part) mostHeld() int64 { return max(leastHeld, 4*p.size) }

// locate keeps the place of a cell.
// Earlier rows without the column get the zero extent; its length says that there is no value.
func (c *column) locate(row int, at *cell) {
	c.extents = append(grown(c.extents, row), catalog.Extent{Offset: at.offset, Length: at.length})
	if at.block == nil {
		return
	}
	// Values of one block follow each other, so the block is mostly the last one.
	if n := len(c.blocks); n == 0 || c.blocks[n-1] != *at.block {
		c.blocks = append(c.blocks, *at.block)
	}
	c.within = append(grown(c.within, row), valueIn{block: uint32(len(c.blocks))})
}

// sum keeps the checksum of a value in a block if the value is not held and its bytes are in memory.
// It is computed now, while the block is decoded, because there is no other checksum of the value.
func (c *column) sum(row int, at *cell) {
	if at.block != nil {
		c.within[row].sum = crc32.Checksum(at.data, castagnoli)
	}
}

// castagnoli is the polynomial of all checksums of an index (docs/format.md).
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// giveUp drops the values of a column that have places, but keeps their checksums. Later values are not held either.
// This is final: texts stays nil, which noteValue understands from the second value on.
func (p *part) giveUp(col *column) {
	if col.texts != nil {
		// The checksum of a dropped value is computed now, so that the block need not be decoded again.
		for row := range min(int64(len(col.within)), col.texts.Len()) {
			if in := &col.within[row]; in.block > 0 {
				in.sum = crc32.Checksum(col.texts.Bytes(row), castagnoli)
			}
		}
	}
	p.held -= col.held
	col.texts, col.held = nil, 0
}

// hold keeps a value of a column in which some value has no place. Earlier values may have been noted by their places.
// The first value without a place changes the whole column: the earlier values are read now.
func (p *part) hold(col *column, row int, c *cell) error {
	if !col.nowhere {
		col.nowhere = true
		if err := p.holdEarlier(col); err != nil {
			return err
		}
		col.extents, col.within, col.blocks = nil, nil, nil
	}
	// The user was warned of this column, and its memory was freed.
	if col.dropped {
		return nil
	}
	if c.length > maxHeldValue || p.held+c.length > p.mostHeld() {
		p.drop(col, c.length)
		return nil
	}
	return p.holdNext(col, row, c)
}

// holdEarlier reads the values that were noted by their places in the file. Values in blocks are held already, or too
// large to be held.
// If values lie in blocks and texts is nil, they were given up as bulky. A held column needs all values, so it is
// dropped.
func (p *part) holdEarlier(col *column) error {
	if col.texts != nil {
		return nil
	}
	col.texts = new(formats.Names)
	for row, at := range col.extents {
		earlier := cell{name: col.name, offset: at.Offset, length: at.Length}
		if len(col.within) > 0 || at.Length > maxHeldValue || p.held+at.Length > p.mostHeld() {
			p.drop(col, at.Length)
			return nil
		}
		if err := p.holdNext(col, row, &earlier); err != nil {
			return err
		}
	}
	return nil
}

// drop excludes a column from the fields.
// It warns and gives no error, because a dataset may do without one of its columns.
func (p *part) drop(col *column, length int64) {
	p.giveUp(col)
	col.dropped = true
	p.warnings = append(p.warnings, fmt.Sprintf("the column %.80q has no place of its own in the file and is too large for an index (a value of %d bytes; expected at most %d, and %d together), so it is no field",
		col.name, length, maxHeldValue, p.mostHeld()))
}

// holdNext appends a value to the held ones. Rows come in order, so the missing rows before it are filled first.
func (p *part) holdNext(col *column, row int, c *cell) error {
	// A value from a block or a message has its bytes in memory; others are read from the file.
	data, err := p.bytes(c, maxHeldValue)
	if err != nil {
		return err
	}
	// Rows without the column get an empty value, so that row numbers and value numbers agree.
	for col.texts.Len() < int64(row) {
		col.texts.Append("")
	}
	col.texts.Append(string(data))
	p.held, col.held = p.held+c.length, col.held+c.length
	return nil
}

// addValues makes a field of a column of bytes, texts or arrays, either of the held values or of their places.
// A field has one form for all containers: its values are held only if every container that has values holds them.
func addValues(t *catalog.Table, name string, c *column, parts []*part) {
	f := catalog.Field{Name: name, Type: catalog.Bytes}
	switch c.kind {
	case textCell:
		f.Type = catalog.Str
	case arrayCell:
		f.Type, f.DType, f.Shape = catalog.ArrayType, c.dtype, c.shape
	}
	// The columns are in the order of the containers, as parts are.
	columns := make([]*column, len(parts)) // nil for a container without the column
	nowhere, whole, held, values := false, false, int64(0), int64(0)
	for i, p := range parts {
		// A container without the column does not matter.
		if columns[i] = p.columns[c.name]; columns[i] == nil {
			continue
		}
		nowhere, whole = nowhere || columns[i].nowhere, whole || columns[i].texts != nil
		held, values = held+columns[i].held, values+columns[i].seen
	}
	for _, col := range columns {
		whole = whole && (col == nil || col.texts != nil || col.rows == 0)
	}
	if whole && (nowhere || !tooBulky(held, values)) {
		addHeld(t, f, columns, parts)
		return
	}
	if !nowhere {
		addLocated(t, f, columns, parts)
		return
	}
	if !slices.ContainsFunc(columns, func(col *column) bool { return col != nil && col.dropped }) { // a dropped column was warned of already
		t.Warnings = append(t.Warnings, fmt.Sprintf("the column %.80q has values without a place of their own in some containers, and in others not, so it is no field", c.name))
	}
}

// addHeld adds a field whose values are held.
// A row without a value gets the empty one, as with values that are read from their places.
func addHeld(t *catalog.Table, f catalog.Field, columns []*column, parts []*part) {
	texts := new(formats.Names)
	for n, p := range parts {
		col := columns[n]
		for i := range int64(p.rows()) {
			if col == nil || i >= col.texts.Len() {
				texts.Append("")
			} else {
				texts.Append(string(col.texts.Bytes(i)))
			}
		}
	}
	addField(t, f, nil, nil, nil, texts)
}

// addLocated adds a field whose values are read from their places.
// It first drops the held values, which computes the checksums of those in blocks.
func addLocated(t *catalog.Table, f catalog.Field, columns []*column, parts []*part) {
	var extents []catalog.Extent
	var places []catalog.ValuePlace
	f.Located = true
	f.Blocks = slices.ContainsFunc(columns, func(col *column) bool { return col != nil && col.within != nil })
	for n, p := range parts {
		var own []catalog.Extent
		var within []valueIn
		col := columns[n]
		if col != nil {
			p.giveUp(col)
			own, within = col.extents, col.within
		}
		first := len(extents)
		extents = append(extents, grown(own, p.rows())...)
		if !f.Blocks {
			continue
		}
		places = append(places, make([]catalog.ValuePlace, p.rows())...)
		// The extent's offset becomes that of the block. The value's offset inside the block goes to the row of places.
		for row, in := range within {
			if in.block > 0 {
				at, to := &extents[first+row], &places[first+row]
				to.BlockPlace, at.Offset = placeIn(&col.blocks[in.block-1], at.Offset)
				to.CRC32C = in.sum
			}
		}
	}
	addField(t, f, extents, nil, nil, nil)
	t.FieldBlocks[len(t.FieldBlocks)-1] = places
}

// placeIn returns the place of a value in a block, and the block's offset in the container. Blocks are at most 256 MiB.
func placeIn(b *formats.Block, inner int64) (place catalog.BlockPlace, offset int64) {
	return catalog.BlockPlace{Stored: uint32(b.Stored), Size: uint32(b.Size), Inner: uint32(min(inner, math.MaxUint32)), Codec: b.Codec}, b.Offset
}
