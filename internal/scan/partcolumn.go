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

// column is what is known of the cells of one name. A column has one kind; whole numbers and floats together are
// floats. A cell of another kind makes it mixed. It is no field then, and may still be the image or the label, for which each
// cell is looked at by itself (part.imageOf, part.read).
type column struct {
	name string
	kind cellKind
	seen int64 // samples that have it
	rows int   // up to the last of them
	// How often it was chosen: with alternatives the image is another column from sample to sample.
	images int64 // samples whose image it is
	labels int64 // samples whose label it is
	mixed  bool  // cells of kinds that go not together
	gaps   bool  // lists of which some number is null
	arrays bool  // some are arrays
	twice  bool  // a sample has two cells of the name
	dtype  string
	shape  []int64 // of arrays; nil where their lengths differ

	// One entry a row up to the last that has the column.
	extents []catalog.Extent // of values in the file, or in the block that the same row of within says
	within  []valueIn        // up to the last that lies in a block; nil: all lie in the file
	blocks  []formats.Block
	ints    []int64
	floats  []float64
	texts   *formats.Names // values that are held, beside the places of those that have one; nil: none is

	// Whether its values are in memory (held.go).
	held    int64 // bytes of texts
	nowhere bool  // some value has no place, so all have to be held
	dropped bool  // for which they are too large
}

// valueIn is the number of the block that a value lies in, from 1, and the value's CRC-32C, 0 while that is held or not
// known; all 0 of one in the file. A number and no pointer: a container may have as many of them as samples.
type valueIn struct{ block, sum uint32 }

// Bounds of what a container may have us hold for its columns.
const (
	// A hostile container may name another column in each sample.
	maxColumns = 1024
	// As catalog.CheckFields has it of a field, with room for the underscores that tell two names apart (mergeFields).
	maxColumnName = 240

	// A row that a column lacks takes up to so many bytes, and a small file may have so many of them.
	cellBytes = 16
	leastGaps = 256 << 20
)

// note keeps a cell's value or place. An image is never held in memory.
func (p *part) note(row int, c *cell, image bool) error {
	col := p.columns[c.name]
	if col == nil {
		// A column takes memory for each row, and a hostile container may have another one in each.
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
	if col.seen > 0 && col.rows == row+1 { // which of the two is meant no word can say
		col.twice = true
		return nil
	}
	col.seen++
	// A column that comes late is filled up to its row: many such would take rows times columns.
	if p.gaps += int64(row - col.rows); p.gaps*cellBytes > max(p.size, leastGaps) {
		return fmt.Errorf("%w: columns that lack %d rows together, which takes more memory than the file has bytes", formats.ErrLimit, p.gaps)
	}
	col.rows, col.gaps, col.arrays = row+1, col.gaps || c.gaps, col.arrays || c.kind == arrayCell
	// As soon as a row lacks it: later no place tells which rows those were.
	if col.kind == intCell && len(col.ints) < row { // what is missing could not be told from any other whole number
		col.toFloats()
	}
	switch {
	case col.kind == c.kind:
	case col.kind == intCell && c.kind == floatCell:
		col.toFloats()
	case col.kind == floatCell && c.kind == intCell:
	default:
		// What it is cannot be said, so it is no field; as image or label it still may be, cell by cell.
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

// isColumnName is true of whatever may be a field's name (catalog.CheckFields).
func isColumnName(name string) bool {
	return name != "" && len(name) <= maxColumnName && strings.IndexByte(name, 0) < 0 && utf8.ValidString(name)
}

// like notes that arrays of another type or shape are there: those of one dimension may differ in length.
func (c *column) like(dtype string, shape []int64) {
	// An array of several axes has its shape in the field's description alone.
	if c.dtype != dtype || max(len(c.shape), len(shape)) > 1 && !slices.Equal(c.shape, shape) {
		c.mixed = true
	}
	if !slices.Equal(c.shape, shape) {
		c.shape = nil
	}
}

// toFloats makes floats of whole numbers.
func (c *column) toFloats() {
	c.kind, c.floats = floatCell, make([]float64, len(c.ints))
	for i, v := range c.ints {
		c.floats[i] = float64(v)
	}
	c.ints = nil
}

// grown is a column of so many rows, those that it lacked empty.
// A column that comes late, or is missing in some rows, is filled up when it is seen again.
func grown[T any](values []T, rows int) []T {
	var none T
	return grownWith(values, rows, none)
}

// grownWith fills the rows that a column lacks with a value that stands for nothing.
func grownWith[T any](values []T, rows int, none T) []T {
	for len(values) < rows {
		values = append(values, none)
	}
	return values
}
