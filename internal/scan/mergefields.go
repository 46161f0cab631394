package scan

import (
	"fmt"
	"math"
	"slices"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
)

// mergeFields makes fields of the columns that are neither image nor label.
// A column that was asked for but cannot be a field is an error; any other is left out.
func mergeFields(t *catalog.Table, all []*column, parts []*part, o *Options) error {
	taken := make(map[string]bool)
	for _, f := range t.Fields {
		taken[f.Name] = true
	}
	for _, name := range o.Fields {
		if !slices.ContainsFunc(all, func(c *column) bool { return c.name == name }) {
			return catalog.NewError(fault.KindArgument, where(t.Root, t.Shards), "fields: no sample has a column %q (found %s)", name, columnList(all, parts))
		}
	}
	// n is the column's place in Source.Columns as well, because chooseColumns added them in the same order.
	for n, c := range all {
		asked := slices.Contains(o.Fields, c.name)
		if c.twice {
			if asked {
				return catalog.NewError(fault.KindUnsupported, where(t.Root, t.Shards), "two columns have the name %q", c.name)
			}
			t.Warnings = append(t.Warnings, fmt.Sprintf("two columns have the name %q, so it is no field", c.name))
			continue
		}
		// A list or a mixture cannot be a field; that is an error only if the field was asked for.
		if c.mixed || c.kind == listCell {
			switch {
			case asked && c.gaps:
				return catalog.NewError(fault.KindUnsupported, where(t.Root, t.Shards), "the column %q has lists with nulls inside, which no array holds%s", c.name, packInstead)
			case c.gaps:
				t.Warnings = append(t.Warnings, fmt.Sprintf("the column %q has lists with nulls inside, so it is no field", c.name))
			case c.mixed && c.arrays && c.labels > 0 && !asked:
				t.Warnings = append(t.Warnings, fmt.Sprintf("the column %q has vectors and other values, so it is no field, and the labels are those of its numbers alone%s", c.name, packInstead))
			case asked && c.why != "":
				return catalog.NewError(fault.KindUnsupported, where(t.Root, t.Shards), "the column %q %s, and cannot be a field%s", c.name, c.why, packInstead)
			case asked:
				return catalog.NewError(fault.KindUnsupported, where(t.Root, t.Shards), "the column %q holds lists, or values of several types", c.name)
			}
			continue
		}
		vector := c.kind == arrayCell && c.labels > 0 // vectors are no classes and become the field "label", as fractions do
		if !asked && !vector && (o.Fields != nil || c.images > 0 || c.labels > 0) {
			continue
		}
		name := c.name
		if vector {
			name = "label"
		}
		// In a batch two fields of one name could not be distinguished.
		for taken[name] || !vector && slices.Contains(ofEverySample, name) {
			name += "_"
		}
		taken[name] = true
		before := len(t.Fields)
		addColumn(t, name, c, parts)
		if t.Source.Columns[n].Use == "" && len(t.Fields) > before {
			t.Source.Columns[n].Use = "field"
		}
	}
	return nil
}

// addColumn joins the parts of one column.
// A row without the column needs a value that means "missing". There is none for int64; for float64 it is NaN, for
// texts the empty text.
func addColumn(t *catalog.Table, name string, c *column, parts []*part) {
	// A sample without the vector has an empty one, so not all have the same shape.
	// Arrow has no list of the fixed length 0.
	if len(c.shape) == 1 && (c.seen < int64(len(t.Shard)) || c.shape[0] == 0) {
		c.shape = nil
	}
	switch c.kind {
	case intCell:
		if c.seen < int64(len(t.Shard)) { // no whole number can mean "missing"
			addNumbers(t, catalog.Field{Name: name, Type: catalog.Float}, nil, floatsOf(c.name, parts))
			return
		}
		var values []int64
		for _, p := range parts {
			if col := p.columns[c.name]; col != nil { // a container without a sample has no column
				values = append(values, col.ints...)
			}
		}
		addNumbers(t, catalog.Field{Name: name, Type: catalog.Int}, values, nil)
	case floatCell:
		addNumbers(t, catalog.Field{Name: name, Type: catalog.Float}, nil, floatsOf(c.name, parts))
	default:
		addValues(t, name, c, parts)
	}
}

// floatsOf returns the values of a column as floats, with NaN if a row has none. It serves whole numbers with gaps as
// well, because no whole number can mean "missing".
func floatsOf(name string, parts []*part) []float64 {
	// A float64 is exact for whole numbers up to 2^53. Larger ones in a column with gaps are rounded, as in pandas.
	var values []float64
	for _, p := range parts {
		var own []float64
		if col := p.columns[name]; col != nil {
			own = col.floats
			for _, v := range col.ints {
				own = append(own, float64(v))
			}
		}
		values = append(values, grownWith(own, p.rows(), math.NaN())...)
	}
	return values
}

// addNumbers adds a field whose values are in the index, as ints or as floats.
func addNumbers(t *catalog.Table, f catalog.Field, ints []int64, floats []float64) {
	addField(t, f, nil, ints, floats, nil)
}

// addField adds a field with its values. Only one of the lists has them.
// All lists of a table's fields grow together, so that field i is element i of each.
func addField(t *catalog.Table, f catalog.Field, extents []catalog.Extent, ints []int64, floats []float64, texts *formats.Names) {
	t.Fields = append(t.Fields, f)
	t.Extents, t.Ints = append(t.Extents, extents), append(t.Ints, ints)
	t.Numbers, t.Texts = append(t.Numbers, floats), append(t.Texts, texts)
	t.FieldBlocks = append(t.FieldBlocks, nil)
}
