package scan

import (
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// A value in the container, or in a compressed block of it, has a place there, and that is what an index has of it. Of a
// value in a block an index may have the value as well instead: a name or a caption is read so without decoding a page, and
// takes not much more than its place, which is 33 bytes of an index. Vectors that are written as texts or varints have no
// place that could be read by itself, so they are held in any case.
const (
	maxHeldValue = 64 << 10
	leastHeld    = 64 << 20 // bytes of a container's values that may be held, or four times its own

	// The values of a column in blocks are held while they have so many bytes on average, which is two or three rows of an
	// index, and some bytes more, so that a few long values at the beginning decide nothing.
	meanHeld  = 256
	spareHeld = 64 << 10
)

// noteValue keeps the place of a cell that is bytes, text or an array, or what it holds.
// Three cases: a place in the file, which is kept; a place in a block, with the value itself as long as the column is
// not bulky; and no place, where the value is all that there is.
func (p *part) noteValue(col *column, row int, c *cell, image bool) error {
	// One value without a place, and none of the column is told by places: a field is read in one way.
	if c.held || col.nowhere {
		return p.hold(col, row, c)
	}
	// An image as a field would be held, or have 33 bytes more in each row, for nobody.
	if image && c.block != nil && !slices.Contains(p.fields, c.name) {
		return nil // it is no field, and as an image it is located by the sample
	}
	col.locate(row, c)
	if c.block == nil && col.texts == nil {
		return nil
	}
	// Decided by the first value that is seen, and given up when it turns out wrong; held from the middle on, those
	// before would be missing.
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

// tooBulky goes by the average and not by the longest: a column of short names with one long one stays held.
func tooBulky(held, values int64) bool { return held > meanHeld*values+spareHeld }

// mostHeld is in proportion to the container, for in a hostile one few bytes may be the values of many rows, as those of a
// dictionary are.
func (p *part) mostHeld() int64 { return max(leastHeld, 4*p.size) }

// locate keeps where a cell lies.
// Rows before this one that lack the column get the zero extent, whose length says that there is nothing.
func (c *column) locate(row int, at *cell) {
	c.extents = append(grown(c.extents, row), catalog.Extent{Offset: at.offset, Length: at.length})
	if at.block == nil {
		return
	}
	// Values of one block follow each other, so the last one is mostly it.
	if n := len(c.blocks); n == 0 || c.blocks[n-1] != *at.block {
		c.blocks = append(c.blocks, *at.block)
	}
	c.within = append(grown(c.within, row), valueIn{block: uint32(len(c.blocks))})
}

// sum keeps the checksum of a value in a block that is not held, where its bytes are at hand.
// It is taken now, while the block is decoded: later there is no other checksum to compare the value with.
func (c *column) sum(row int, at *cell) {
	if at.block != nil {
		c.within[row].sum = crc32.Checksum(at.data, castagnoli)
	}
}

// The polynomial of all checksums of an index (docs/format.md).
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// giveUp lets go of the values of a column that have places, but for their checksums. Those that follow are not held either.
// It is final for a column: texts stays nil, which noteValue takes for "given up" from the second value on.
func (p *part) giveUp(col *column) {
	if col.texts != nil {
		// Of values that are let go the sum is taken now, for the block is not decoded again for it.
		for row := range min(int64(len(col.within)), col.texts.Len()) {
			if in := &col.within[row]; in.block > 0 {
				in.sum = crc32.Checksum(col.texts.Bytes(row), castagnoli)
			}
		}
	}
	p.held -= col.held
	col.texts, col.held = nil, 0
}

// hold keeps a value of a column of which some value has no place. Others may have been noted by their places.
// The first value without a place changes the whole column: those before are read now, from where they lie.
func (p *part) hold(col *column, row int, c *cell) error {
	if !col.nowhere {
		col.nowhere = true
		if err := p.holdEarlier(col); err != nil {
			return err
		}
		col.extents, col.within, col.blocks = nil, nil, nil
	}
	// It was warned of, and its memory is given back.
	if col.dropped {
		return nil
	}
	if c.length > maxHeldValue || p.held+c.length > p.mostHeld() {
		p.drop(col, c.length)
		return nil
	}
	return p.holdNext(col, row, c)
}

// holdEarlier reads the values that were noted by their places in the file. Those in blocks are held already, or too
// large for that.
// Where values lie in blocks and texts is nil, they were given up as bulky. A column that is held needs them all, so it is
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

// drop makes no field of a column.
// A warning and no error: a dataset may do without one of its columns.
func (p *part) drop(col *column, length int64) {
	p.giveUp(col)
	col.dropped = true
	p.warnings = append(p.warnings, fmt.Sprintf("the column %.80q has no place of its own in the file and is too large for an index (a value of %d bytes; expected at most %d, and %d together), so it is no field",
		col.name, length, maxHeldValue, p.mostHeld()))
}

// holdNext appends a value to those that are held. Rows come in order, so what is missing between is filled up first.
func (p *part) holdNext(col *column, row int, c *cell) error {
	// A value that is read from a block or a message has its bytes at hand; others are read from the file.
	data, err := p.bytes(c, maxHeldValue)
	if err != nil {
		return err
	}
	// Rows that lack the column have an empty value, so that numbers of rows and values agree.
	for col.texts.Len() < int64(row) {
		col.texts.Append("")
	}
	col.texts.Append(string(data))
	p.held, col.held = p.held+c.length, col.held+c.length
	return nil
}

// addValues makes a field of a column of bytes, texts or arrays: of their values where these are held, else of their places.
// The choice is made once for all containers, as a field has one form: held only where every container that has values
// holds them.
func addValues(t *catalog.Table, name string, c *column, parts []*part) {
	f := catalog.Field{Name: name, Type: catalog.Bytes}
	switch c.kind {
	case textCell:
		f.Type = catalog.Str
	case arrayCell:
		f.Type, f.DType, f.Shape = catalog.ArrayType, c.dtype, c.shape
	}
	// By the number of the container, as parts are.
	columns := make([]*column, len(parts)) // a container without a sample has none
	nowhere, whole, held, values := false, false, int64(0), int64(0)
	for i, p := range parts {
		// A container without the column decides nothing.
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
	if !slices.ContainsFunc(columns, func(col *column) bool { return col != nil && col.dropped }) { // which was warned of
		t.Warnings = append(t.Warnings, fmt.Sprintf("the column %.80q has values without a place of their own in some containers, and in others not, so it is no field", c.name))
	}
}

// addHeld adds a field whose values are held.
// What a row lacks is the empty value, as for values that are read where they lie.
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

// addLocated adds a field whose values are read where they lie.
// The texts are let go first, which takes the checksums of those in blocks.
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
		// The extent's offset becomes that of the block, and the value's place inside of it goes to the row of places.
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

// placeIn is the place of what begins at that byte of a block, and the block's own in the container. Blocks are at most 256 MiB.
func placeIn(b *formats.Block, inner int64) (place catalog.BlockPlace, offset int64) {
	return catalog.BlockPlace{Stored: uint32(b.Stored), Size: uint32(b.Size), Inner: uint32(min(inner, math.MaxUint32)), Codec: b.Codec}, b.Offset
}
