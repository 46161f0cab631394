package formats

import (
	"fmt"

	"github.com/parquet-go/parquet-go/format"
)

// parquetElement is SchemaElement (parquet.thrift): a field, or a group of fields.
type parquetElement struct {
	name       string
	leaf       bool // it has a type, and no fields inside
	typ        format.Type
	width      int64
	repetition int64 // 0 required, 1 optional, 2 repeated
	children   int64
	text       bool
	unsigned   bool
	half       bool   // a float of two bytes
	refused    string // why its values are refused, such as "of decimals"; empty if they are read
	list       bool   // the group around a repeated element, whose name is that of the list
	time       bool   // a date or a time
	bits       int64  // bits of an integer that has fewer than are stored; 0: as many
}

// readElement reads one element, and the parts of its logical type that change the meaning of values. Both the older
// converted_type and the newer logicalType have it; either is enough.
func readElement(t *thriftReader) parquetElement {
	var e parquetElement
	t.fields(1, func(id int, kind byte) bool {
		switch {
		case id == 1 && kind == thriftI32:
			e.leaf, e.typ = true, format.Type(t.number32())
		case id == 2 && kind == thriftI32:
			e.width = t.number32()
		case id == 3 && kind == thriftI32:
			e.repetition = t.number32()
		case id == 4 && kind == thriftBinary:
			e.name = string(t.bytes())
		case id == 5 && kind == thriftI32:
			e.children = t.number32()
		case id == 6 && kind == thriftI32:
			e.converted(t.number32())
		case id == 10 && kind == thriftStruct:
			t.fields(2, func(id int, kind byte) bool { return e.logical(t, id, kind) })
		default:
			return false
		}
		return true
	})
	return e
}

// converted applies a ConvertedType.
func (e *parquetElement) converted(n int64) {
	switch n {
	case 0, 4, 19: // UTF8, ENUM, JSON
		e.text = true
	// This is a group around a repeated element, whose own name the writer may choose ("Nested Types" in LogicalTypes.md).
	case 1, 2, 3: // MAP, MAP_KEY_VALUE, LIST
		e.list = true
	case 5:
		e.refused = "of decimals"
	case 6, 7, 8, 9, 10: // DATE to TIMESTAMP_MICROS
		e.time = true
	case 11, 12, 13, 14: // UINT_8 to UINT_64
		e.unsigned, e.bits = true, 8<<(n-11)
	case 15, 16, 17, 18: // INT_8 to INT_64
		e.bits = 8 << (n - 15)
	case 21:
		e.refused = "of intervals"
	}
}

// logical applies a member of the union LogicalType.
func (e *parquetElement) logical(t *thriftReader, id int, kind byte) bool {
	switch id {
	case 1, 4, 12: // STRING, ENUM, JSON
		e.text = true
	case 2, 3: // MAP, LIST
		e.list = true
	case 5:
		e.refused = "of decimals"
	case 6, 7, 8: // DATE, TIME, TIMESTAMP
		e.time = true
	// FLOAT16 is stored as FIXED_LEN_BYTE_ARRAY(2).
	case 15:
		e.half = true
	case 10:
		if kind != thriftStruct {
			return false
		}
		t.fields(3, func(id int, kind byte) bool {
			e.unsigned = e.unsigned || id == 2 && kind == thriftFalse
			if id == 1 && kind == thriftByte {
				e.bits = int64(t.byte())
				return true
			}
			return false
		})
		return true
	}
	return false
}

// schema makes columns and leaves of the schema's elements, which are in depth-first order.
func (p *Parquet) schema(all []parquetElement) error {
	if len(all) == 0 || p.columns != nil {
		return fmt.Errorf("%w: the schema is missing", ErrBad)
	}
	next := 1
	for range max(all[0].children, 0) {
		if err := p.element(all, &next, nil, 0, false, false); err != nil {
			return err
		}
	}
	// Elements that belong to no group would shift the columns of row groups, which have no names.
	if next != len(all) || len(p.columns) == 0 {
		return fmt.Errorf("%w: a schema of %d fields, of which %d belong to others", ErrBad, len(all), next)
	}
	return nil
}

// element reads the next element and those inside it. present is the definition level of a value if none of its structs
// is null. Inside a list only the list itself becomes a leaf. named is true inside the group that is marked as a list.
func (p *Parquet) element(all []parquetElement, next *int, path []string, present int, inList, named bool) error {
	if *next >= len(all) || len(path) >= maxParquetDepth {
		return fmt.Errorf("%w: a schema of %d fields that has more, or more than %d levels", ErrBad, len(all), maxParquetDepth)
	}
	e := &all[*next]
	*next++
	if err := checkName(path, len(e.name)); err != nil {
		return err
	}
	path = append(path[:len(path):len(path)], e.name)
	switch {
	case e.repetition < 0 || e.repetition > 2 || e.leaf && e.children > 0:
		return fmt.Errorf("%w: the field %.80q of repetition %d with %d fields in it", ErrBad, e.name, e.repetition, e.children)
	// Each optional level on the way raises the definition level of a value that exists.
	case e.repetition == 1:
		present++
	case e.repetition == 2 && !inList:
		inList = true
		list := path
		if named {
			list = path[:len(path)-1]
		}
		if number, behind := listedNumber(all, *next-1, list); number != nil {
			*next = behind
			return p.numbers(list, number, present)
		}
		if err := p.leaf(Leaf{Path: list, Kind: RefusedLeaf, Type: ListType}); err != nil {
			return err
		}
	}
	if !e.leaf {
		for range max(e.children, 0) {
			if err := p.element(all, next, path, present, inList, e.list); err != nil {
				return err
			}
		}
		return nil
	}
	c := parquetColumn{leaf: -1, present: present, width: e.fixedWidth(), half: e.half, typ: e.typ, unsigned: e.unsigned}
	if !inList {
		leaf := Leaf{Path: path}
		leaf.Kind, leaf.Type = e.kind()
		c.leaf = len(p.Leaves)
		if err := p.leaf(leaf); err != nil {
			return err
		}
	}
	p.columns = append(p.columns, c)
	return nil
}

func (p *Parquet) leaf(l Leaf) error {
	if len(p.Leaves) >= maxTableLeaves {
		return fmt.Errorf("%w: more than %d columns", ErrLimit, maxTableLeaves)
	}
	p.Leaves = append(p.Leaves, l)
	return nil
}

// fixedWidth returns the size of a value; 0 if sizes vary, and for booleans, which are bits.
func (e *parquetElement) fixedWidth() int64 {
	switch e.typ {
	case format.Int32, format.Float:
		return 4
	case format.Int64, format.Double:
		return 8
	case format.Int96:
		return 12
	case format.FixedLenByteArray:
		return e.width
	}
	return 0
}

// kind returns the kind of the element's values; the text says why they are refused.
func (e *parquetElement) kind() (LeafKind, string) {
	switch {
	case e.refused != "":
		return RefusedLeaf, e.refused
	case e.half && e.typ == format.FixedLenByteArray && e.width == 2:
		return FloatLeaf, ""
	}
	switch e.typ {
	case format.Boolean, format.Int32:
		return IntLeaf, ""
	case format.Int64:
		return IntLeaf, ""
	case format.Float, format.Double:
		return FloatLeaf, ""
	case format.ByteArray, format.FixedLenByteArray:
		if e.typ == format.FixedLenByteArray && e.width < 1 {
			return RefusedLeaf, "of a fixed size that is not positive"
		}
		if e.text {
			return TextLeaf, ""
		}
		return BytesLeaf, ""
	}
	return RefusedLeaf, fmt.Sprintf("of the type %v", e.typ)
}
