package scan

import (
	"fmt"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// Values that lie in compressed blocks, and vectors that are written as texts or varints, have no place in the container
// that could be read by itself, so an index holds them. That is for captions and names, not for whatever is large.
const (
	maxHeldValue = 64 << 10
	leastHeld    = 64 << 20 // bytes of a container's values that may be held, or four times its own
)

// hold keeps a value of a column, of which others may have been noted by their places.
func (p *part) hold(col *column, row int, c *cell) error {
	if col.texts == nil && !col.dropped {
		col.texts = new(formats.Names)
		for _, at := range col.extents {
			earlier := cell{name: col.name, offset: at.Offset, length: at.Length}
			if err := p.holdNext(col, int(col.texts.Len()), &earlier); err != nil {
				return err
			}
		}
		col.extents = nil
	}
	return p.holdNext(col, row, c)
}

func (p *part) holdNext(col *column, row int, c *cell) error {
	if col.dropped {
		return nil
	}
	if p.held += c.length; c.length > maxHeldValue || p.held > max(leastHeld, 4*p.size) {
		p.held -= c.length
		col.dropped, col.texts = true, new(formats.Names)
		p.warnings = append(p.warnings, fmt.Sprintf("the column %.80q has no place of its own in the file and is too large for an index (a value of %d bytes; expected at most %d, and %d together), so it is no field",
			col.name, c.length, maxHeldValue, max(leastHeld, 4*p.size)))
		return nil
	}
	data, err := p.bytes(c, maxHeldValue)
	if err != nil {
		return err
	}
	for col.texts.Len() < int64(row) {
		col.texts.Append("")
	}
	col.texts.Append(string(data))
	return nil
}

// addHeld makes a field of a column whose values are held. Parts that have it in place would have to be read
// again, so it is none then.
func addHeld(t *catalog.Table, name string, c *column, parts []*part) {
	f := catalog.Field{Name: name, Type: catalog.Bytes}
	switch c.kind {
	case textCell:
		f.Type = catalog.Str
	case arrayCell:
		f.Type, f.DType, f.Shape = catalog.ArrayType, c.dtype, c.shape
	}
	texts := new(formats.Names)
	for _, p := range parts {
		col := p.columns[c.name]
		if col != nil && col.dropped {
			return
		}
		if col != nil && col.texts == nil {
			t.Warnings = append(t.Warnings, fmt.Sprintf("the column %.80q is compressed in some containers and not in others, so it is no field", c.name))
			return
		}
		for i := range p.rows() {
			if col == nil || int64(i) >= col.texts.Len() {
				texts.Append("")
			} else {
				texts.Append(string(col.texts.Bytes(int64(i))))
			}
		}
	}
	addField(t, f, nil, nil, nil, texts)
}
