package scan

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// column is what is known about the cells of one name. A column has one kind; whole numbers and floats together are
// floats. A cell of another kind makes it mixed. Then it cannot be a field, but it may still be the image or the label,
// because for these each cell is judged by itself (part.imageOf, part.read).
type column struct {
	name string
	kind cellKind
	seen int64 // number of samples that have it
	rows int   // rows up to the last of them
	// With alternatives, the image may be another column from sample to sample.
	images int64  // number of samples whose image it is
	labels int64  // number of samples whose label it is
	mixed  bool   // some cells are of different kinds
	gaps   bool   // some lists have a null inside
	arrays bool   // some cells are arrays
	twice  bool   // some sample has two cells of this name
	why    string // why it cannot be a field; "" if its kind says enough
	dtype  string
	shape  []int64 // of arrays; nil if their lengths differ

	// These have one entry for each row, up to the last that has the column.
	extents []catalog.Extent // places in the file, or in the block that within has for the same row
	within  []valueIn        // up to the last row whose value lies in a block; nil: all lie in the file
	blocks  []formats.Block
	ints    []int64
	floats  []float64
	texts   *formats.Names // values that are held, in addition to the places that some have; nil: none is held

	// These members say whether the values are held in memory (held.go).
	held    int64 // bytes of texts
	nowhere bool  // some value has no place, so all have to be held
	dropped bool  // the values are too large to be held
}

// valueIn is the number of the block that a value lies in, from 1 on, and the value's CRC-32C, which is 0 if the value
// is held or its checksum is not known. Both are 0 for a value in the file. It has a number instead of a pointer,
// because a container may have as many of them as samples.
type valueIn struct{ block, sum uint32 }

// These constants limit what a container's columns may take in memory.
const (
	// A hostile container may name a new column in each sample.
	maxColumns = 1024
	// catalog.CheckFields has the same limit for a field's name. This leaves room for the underscores that make names
	// differ (mergeFields).
	maxColumnName = 240

	// A row without a column takes up to this many bytes. A small file may have that many of them.
	cellBytes = 16
	leastGaps = 256 << 20
)

// note keeps a cell's value or place. An image is never held in memory.
func (p *part) note(row int, c *cell, image bool) error {
	col := p.columns[c.name]
	if col == nil {
		// A column takes memory for each row, and a hostile container may have a new column in each.
		if len(p.columns) >= maxColumns {
			return fmt.Errorf("%w: more than %d columns, %.40q is one more", formats.ErrLimit, maxColumns, c.name)
		}
		if !isColumnName(c.name) {
			return fmt.Errorf("%w: a column of the name %.40q (expected 1 to %d bytes of UTF-8 without NUL)", formats.ErrUnsupported, c.name, maxColumnName)
		}
		col = &column{name: c.name, kind: c.kind, dtype: c.dtype, shape: c.shape}
		p.columns[c.name] = col
		p.order = append(p.order, c.name)
	}
	if col.seen > 0 && col.rows == row+1 { // nothing says which of the two cells is meant
		col.twice = true
		return nil
	}
	col.seen++
	// A column that begins late is filled up to its row. Many such columns would take memory for rows times columns.
	if p.gaps += int64(row - col.rows); p.gaps*cellBytes > max(p.size, leastGaps) {
		return fmt.Errorf("%w: columns that lack %d rows together, which takes more memory than the file has bytes", formats.ErrLimit, p.gaps)
	}
	col.rows, col.gaps, col.arrays = row+1, col.gaps || c.gaps, col.arrays || c.kind == arrayCell
	if col.why == "" && c.kind == listCell {
		col.why = c.why
	}
	// This must come as soon as a row lacks the column, because later nothing shows which rows those were.
	if col.kind == intCell && len(col.ints) < row { // no whole number can mean "missing"
		col.toFloats()
	}
	switch {
	case col.kind == c.kind:
	case col.kind == intCell && c.kind == floatCell:
		col.toFloats()
	case col.kind == floatCell && c.kind == intCell:
	default:
		// The column has no single kind, so it cannot be a field. It may still be image or label, cell by cell.
		col.mixed = true
		return nil
	}
	switch col.kind {
	case arrayCell:
		col.like(c.dtype, c.shape)
		return p.noteValue(col, row, c, image)
	case bytesCell, textCell:
		return p.noteValue(col, row, c, image)
	case intCell:
		col.ints = append(grown(col.ints, row), c.int)
	case floatCell:
		v := c.number
		if c.kind == intCell {
			v = float64(c.int)
		}
		col.floats = append(grownWith(col.floats, row, math.NaN()), v)
	}
	return nil
}

// columnsJoint is between names of columns in one text. No name has it.
const columnsJoint = "\x00"

// isColumnName is true for every valid name of a field (catalog.CheckFields).
func isColumnName(name string) bool {
	return name != "" && len(name) <= maxColumnName && strings.IndexByte(name, 0) < 0 && utf8.ValidString(name)
}

// like notes an array of another type or shape. Arrays of one dimension may differ in length.
func (c *column) like(dtype string, shape []int64) {
	// The shape of an array of several axes is stored only in the field's description, so all must have the same.
	if c.dtype != dtype || max(len(c.shape), len(shape)) > 1 && !slices.Equal(c.shape, shape) {
		c.mixed = true
	}
	if !slices.Equal(c.shape, shape) {
		c.shape = nil
	}
}

// toFloats converts the column's whole numbers to floats.
func (c *column) toFloats() {
	c.kind, c.floats = floatCell, make([]float64, len(c.ints))
	for i, v := range c.ints {
		c.floats[i] = float64(v)
	}
	c.ints = nil
}

// grown returns a column with so many rows; rows that it lacked are empty.
// A column that begins late, or lacks some rows, is filled up when it appears again.
func grown[T any](values []T, rows int) []T {
	var none T
	return grownWith(values, rows, none)
}

// grownWith fills the rows that a column lacks with a value that means "missing".
func grownWith[T any](values []T, rows int, none T) []T {
	for len(values) < rows {
		values = append(values, none)
	}
	return values
}
