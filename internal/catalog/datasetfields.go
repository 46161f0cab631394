package catalog

import "github.com/headrace/headrace/internal/fault"

// Fields returns the further values that each sample has.
func (d *Dataset) Fields() []Field {
	if d.parts != nil {
		return d.parts.fields()
	}
	if d.table != nil {
		return d.table.Fields
	}
	if d.pairs != nil {
		return []Field{d.pairs.field}
	}
	if l := d.listed(); l != nil {
		return l.fields
	}
	if d.info == nil {
		return nil
	}
	return d.info.Fields
}

// FieldValue returns the value of a field of sample i: int64, float64, string, []byte or Array.
func (d *Dataset) FieldValue(i int64, field string) (any, error) {
	return d.FieldValueBy(i, field, FieldReader{})
}

// FieldValueBy does what FieldValue does, and reads containers as its caller wants.
func (d *Dataset) FieldValueBy(i int64, field string, read FieldReader) (any, error) {
	if uint64(i) >= uint64(d.rows) {
		return nil, d.outside(i)
	}
	if d.parts != nil {
		return within(d.parts, i, func(part *Dataset, row int64) (any, error) {
			return part.FieldValueBy(row, field, d.parts.reader(i, row, read))
		})
	}
	if d.kind == Scanned || d.kind == Contained {
		return d.contained(i, field, read)
	}
	if d.pairs != nil {
		return d.pairs.value(i, field)
	}
	if l := d.listed(); l != nil {
		return l.value(i, field)
	}
	if d.index == nil {
		return nil, NewError(fault.KindArgument, d.path, "there is no field %q; a dataset that is %s has none", field, d.kind)
	}
	return d.index.field(i, field)
}

// Field describes the field with a name, and says whether there is one.
func (d *Dataset) Field(name string) (Field, bool) {
	for _, f := range d.Fields() {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// MostBytes returns the bytes of the longest value of a field. It reads the field of every sample.
func (d *Dataset) MostBytes(field string) (int64, error) {
	if d.parts != nil {
		most := int64(0)
		for _, part := range d.parts.list {
			found, err := part.MostBytes(field)
			if err != nil {
				return 0, err
			}
			most = max(most, found)
		}
		return most, nil
	}
	if d.kind == Scanned || d.kind == Contained {
		return d.mostLocated(field)
	}
	if l := d.listed(); l != nil {
		return l.mostBytes(field)
	}
	if d.index == nil {
		return 0, NewError(fault.KindArgument, d.path, "there is no field %q; a dataset that is %s has none", field, d.kind)
	}
	return d.index.mostBytes(field)
}
