package formats

import (
	"fmt"
	"strconv"

	"github.com/headrace/headrace/internal/flat"
)

// arrowField is a field of the schema. All fields are in one list, depth first, as their buffers are.
type arrowField struct {
	leaf     int   // its number; -1 for a struct and for a field inside a list
	around   []int // the structs around a leaf; if one is null, the leaf is null
	buffers  int   // number of its own buffers
	views    bool  // it also has as many buffers as its batch says
	offsets  int   // size of a value's offset; 0 if values have one width
	width    int   // size of a value; 0: a bit
	float    bool
	unsigned bool
	wide     bool // values have a fixed size and are no numbers
	element  int  // size of a number in a list of numbers; these are in the second buffer of the next field
	listed   int  // how many numbers each list has; 0 if lists have offsets

	dictionary *arrowDictionary // values are numbers of its entries
}

const (
	maxArrowDepth = 64

	viewBytes  = 16
	inlineView = 12 // largest size of a value that is stored in the view itself
)

// schema lists the fields and leaves, and keeps the metadata.
func (a *Arrow) schema(schema flat.Table, at int64) error {
	wrong := func(err error) error { return &WalkError{at, err} }
	if !schema.Present() {
		return wrong(fmt.Errorf("%w: the schema is missing", ErrBad))
	}
	// Such a file is valid, but few machines write one.
	if schema.U16(flat.SchemaEndianness) != 0 {
		return wrong(fmt.Errorf("%w: big-endian values", ErrUnsupported))
	}
	var err error
	schema.Tables(flat.SchemaFields, func(_ int, f flat.Table) {
		if err == nil {
			err = a.field(f, nil, nil, false)
		}
	})
	if err != nil {
		return wrong(err)
	}
	if len(a.Leaves) == 0 {
		return wrong(fmt.Errorf("%w: the schema has no column", ErrBad))
	}
	if err := a.metadata(schema); err != nil {
		return wrong(err)
	}
	a.chunk = make([]arrowChunk, len(a.Leaves))
	return nil
}

// metadata keeps the first pairs of texts. A real writer's texts do not overlap, so together they fit into the schema.
func (a *Arrow) metadata(schema flat.Table) error {
	left := schema.Size()
	schema.Tables(flat.SchemaMetadata, func(_ int, f flat.Table) {
		if len(a.Metadata) >= 16 || left < 0 {
			return
		}
		_, _, key := f.Vector(flat.KeyValueKey, 1)
		_, _, value := f.Vector(flat.KeyValueValue, 1)
		if left -= key + value; left >= 0 {
			a.Metadata[f.Text(flat.KeyValueKey)] = f.Text(flat.KeyValueValue)
		}
	})
	if left < 0 {
		return fmt.Errorf("%w: texts of the schema's metadata that overlap: together more than its %d bytes", ErrBad, schema.Size())
	}
	return nil
}

// field adds a field and those inside it. Fields inside a list do not become leaves.
func (a *Arrow) field(t flat.Table, path []string, around []int, inList bool) error {
	if len(a.fields) >= maxTableFields || len(path) >= maxArrowDepth {
		return fmt.Errorf("%w: more than %d fields, or %d levels of them", ErrLimit, maxTableFields, maxArrowDepth)
	}
	// Thousands of fields may share one text as their name.
	_, _, bytes := t.Vector(flat.FieldName, 1)
	if err := checkName(path, bytes); err != nil {
		return err
	}
	// The slice has no spare capacity, so that two children do not write into one array.
	path = append(path[:len(path):len(path)], t.Text(flat.FieldName))
	number := len(a.fields)
	f := arrowField{leaf: -1, around: around}
	kind := t.U8(flat.FieldTypeType)
	leaf := Leaf{Path: path, Kind: RefusedLeaf}
	nested, err := f.describe(kind, t.Table(flat.FieldType), &leaf)
	if err != nil {
		return fmt.Errorf("%w: the column %.80q", err, path[0])
	}
	// With a dictionary, the field's type is that of the entries (Schema.fbs, DictionaryEncoding).
	if t.Field(flat.FieldDictionary) != 0 { // the values are elsewhere, and here are their numbers
		if f, err = a.encoded(t.Table(flat.FieldDictionary), f, &leaf, !nested && !inList); err != nil {
			return fmt.Errorf("%w: the column %.80q", err, path[0])
		}
		nested, kind = false, 0
	}
	if !inList {
		f.list(kind, t, &leaf)
	}
	if kind != flat.TypeStruct && !inList {
		if len(a.Leaves) >= maxTableLeaves {
			return fmt.Errorf("%w: more than %d columns", ErrLimit, maxTableLeaves)
		}
		f.leaf = len(a.Leaves)
		a.Leaves = append(a.Leaves, leaf)
	}
	a.fields = append(a.fields, f)
	if !nested {
		return nil
	}
	if kind == flat.TypeStruct {
		around = append(around[:len(around):len(around)], number)
	}
	t.Tables(flat.FieldChildren, func(_ int, child flat.Table) {
		if err == nil {
			err = a.field(child, path, around, inList || kind != flat.TypeStruct)
		}
	})
	return err
}

// maxListed limits the numbers in a list of fixed length, so that their places cannot overflow.
const maxListed = 1 << 16

// list makes an array of a list whose only field is a number.
func (f *arrowField) list(kind uint8, t flat.Table, leaf *Leaf) {
	var inside []arrowField
	element := Leaf{}
	t.Tables(flat.FieldChildren, func(_ int, child flat.Table) {
		var x arrowField
		if kind := child.U8(flat.FieldTypeType); kind != flat.TypeInt && kind != flat.TypeFloat || child.Field(flat.FieldDictionary) != 0 {
			x.wide = true
		} else if _, err := x.describe(kind, child.Table(flat.FieldType), &element); err != nil {
			x.wide = true
		}
		if len(inside) < 2 {
			inside = append(inside, x)
		}
	})
	if len(inside) != 1 || inside[0].wide {
		return
	}
	number := &inside[0]
	switch size := int32(t.Table(flat.FieldType).U32(0)); {
	case kind == flat.TypeList:
		f.offsets = 4
	case kind == flat.TypeLargeList:
		f.offsets = 8
	case kind == flat.TypeFixedSizeList && size > 0 && size <= maxListed:
		f.listed = int(size)
	default:
		return
	}
	name := "int"
	switch {
	case number.unsigned:
		name = "uint"
	case number.float:
		name = "float"
	}
	f.element, leaf.Kind, leaf.Type, leaf.Element = number.width, ArrayLeaf, ListType, name+strconv.Itoa(8*number.width)
}

// describe finds a type's buffers and the kind of its values; nested is true if there are fields inside it.
func (f *arrowField) describe(kind uint8, t flat.Table, leaf *Leaf) (nested bool, err error) {
	number := func(kind LeafKind, width int) { leaf.Kind, f.buffers, f.width = kind, 2, width }
	// If numbers are absent, the defaults of Schema.fbs apply: DateUnit and TimeUnit are milliseconds, a time has 32 bits.
	whole := func(bits uint32) error {
		if bits != 8 && bits != 16 && bits != 32 && bits != 64 {
			return fmt.Errorf("%w: an integer of %d bits", ErrBad, bits)
		}
		number(IntLeaf, int(bits/8))
		return nil
	}
	switch kind {
	case flat.TypeNull:
		leaf.Type, leaf.Empty = "null", true
	case flat.TypeRunEndEncoded:
		leaf.Type, nested = "run-end-encoded", true
	case flat.TypeInt:
		if err := whole(t.U32(0)); err != nil {
			return false, err
		}
		f.unsigned = t.U8(1) == 0
	case flat.TypeFloat:
		precision := t.U16(0)
		if precision > 2 {
			return false, fmt.Errorf("%w: a float of precision %d", ErrBad, precision)
		}
		number(FloatLeaf, 2<<precision)
		f.float = true
	case flat.TypeBool:
		number(IntLeaf, 0)
	case flat.TypeDate:
		number(IntLeaf, 8)
		// DateUnit.DAY has 32 bits, the default MILLISECOND has 64.
		if t.Field(0) != 0 && t.U16(0) == 0 {
			f.width = 4
		}
	case flat.TypeTime:
		if t.Field(1) == 0 {
			number(IntLeaf, 4)
			return false, nil
		}
		return false, whole(t.U32(1))
	case flat.TypeTimestamp, flat.TypeDuration:
		number(IntLeaf, 8)
	case flat.TypeBinary, flat.TypeUtf8, flat.TypeLargeBinary, flat.TypeLargeUtf8:
		leaf.Kind, f.buffers, f.offsets = BytesLeaf, 3, 4
		if kind == flat.TypeUtf8 || kind == flat.TypeLargeUtf8 {
			leaf.Kind = TextLeaf
		}
		if kind == flat.TypeLargeBinary || kind == flat.TypeLargeUtf8 {
			f.offsets = 8
		}
	case flat.TypeFixedSizeBinary:
		if width := int32(t.U32(0)); width > 0 {
			number(BytesLeaf, int(width))
			f.wide = true
			return false, nil
		}
		return false, fmt.Errorf("%w: values of a fixed size that is not positive", ErrBad)
	case flat.TypeDecimal, flat.TypeInterval:
		f.buffers, leaf.Type = 2, "of decimals or intervals"
	case flat.TypeStruct, flat.TypeFixedSizeList:
		f.buffers, leaf.Type, nested = 1, ListType, true
	case flat.TypeList, flat.TypeLargeList, flat.TypeMap:
		f.buffers, leaf.Type, nested = 2, ListType, true
	case flat.TypeListView, flat.TypeLargeListView:
		f.buffers, leaf.Type, nested = 3, ListType, true
	case flat.TypeBinaryView, flat.TypeUtf8View:
		number(BytesLeaf, viewBytes)
		if f.views = true; kind == flat.TypeUtf8View {
			leaf.Kind = TextLeaf
		}
	default: // the number of a union's buffers depends on the version of the format
		return false, fmt.Errorf("%w: a column of Arrow's type %d", ErrUnsupported, kind)
	}
	return nested, nil
}
