package formats

import (
	"fmt"
	"io"

	"github.com/headrace/headrace/internal/flat"
)

// arrowField is a field of the schema. All of them stand in one list depth first, as their buffers do.
type arrowField struct {
	leaf     int   // which it is, -1 for a struct and for what lies inside a list
	around   []int // the structs around a leaf: what is null there is null in it
	buffers  int   // that it has itself
	views    bool  // and so many more as its batch says
	offsets  int   // bytes of an offset of a value; 0 where values have one width
	width    int   // bytes of a value; 0: a bit
	float    bool
	unsigned bool
	wide     bool // values of a fixed size that are no numbers
}

const (
	maxArrowDepth = 64

	viewBytes  = 16
	inlineView = 12 // bytes of a value that stands in the view itself
)

// schema lists the fields and leaves, and keeps the metadata.
func (a *Arrow) schema(schema flat.Table, at int64) error {
	wrong := func(err error) error { return &WalkError{at, err} }
	if !schema.Present() {
		return wrong(fmt.Errorf("%w: the schema is missing", ErrBad))
	}
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
	schema.Tables(flat.SchemaMetadata, func(_ int, f flat.Table) {
		if len(a.Metadata) < 16 {
			a.Metadata[f.Text(flat.KeyValueKey)] = f.Text(flat.KeyValueValue)
		}
	})
	a.chunk = make([]arrowChunk, len(a.Leaves))
	return nil
}

// field takes a field and those inside it. In a list nothing becomes a leaf.
func (a *Arrow) field(t flat.Table, path []string, around []int, inList bool) error {
	if len(a.fields) >= maxTableFields || len(path) >= maxArrowDepth {
		return fmt.Errorf("%w: more than %d fields, or %d levels of them", ErrLimit, maxTableFields, maxArrowDepth)
	}
	path = append(path[:len(path):len(path)], t.Text(flat.FieldName))
	number := len(a.fields)
	f := arrowField{leaf: -1, around: around}
	kind := t.U8(flat.FieldTypeType)
	leaf := Leaf{Path: path, Kind: RefusedLeaf}
	nested, err := f.describe(kind, t.Table(flat.FieldType), &leaf)
	if err != nil {
		return fmt.Errorf("%w: the column %.80q", err, path[0])
	}
	if t.Field(flat.FieldDictionary) != 0 { // its values are elsewhere, and here stand their numbers
		f, leaf.Kind, leaf.Type, nested = arrowField{leaf: -1, buffers: 2}, RefusedLeaf, "encoded by a dictionary", false
		kind = 0
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

// describe says which buffers a type has, and what its values are; nested is true where fields lie inside it.
func (f *arrowField) describe(kind uint8, t flat.Table, leaf *Leaf) (nested bool, err error) {
	number := func(kind LeafKind, width int) { leaf.Kind, f.buffers, f.width = kind, 2, width }
	// Of absent numbers the defaults of Schema.fbs hold: DateUnit and TimeUnit are milliseconds, a time has 32 bits.
	whole := func(bits uint32) error {
		if bits != 8 && bits != 16 && bits != 32 && bits != 64 {
			return fmt.Errorf("%w: an integer of %d bits", ErrBad, bits)
		}
		number(IntLeaf, int(bits/8))
		return nil
	}
	switch kind {
	case flat.TypeNull, flat.TypeRunEndEncoded:
		leaf.Type, nested = "null or run-end-encoded", kind == flat.TypeRunEndEncoded
	case flat.TypeInt:
		if err := whole(t.U32(0)); err != nil {
			return false, err
		}
		if f.unsigned = t.U8(1) == 0; f.unsigned && f.width == 8 {
			leaf.Kind, f.float = FloatLeaf, true
		}
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
	default: // a union's buffers depend on the version of the format
		return false, fmt.Errorf("%w: a column of Arrow's type %d", ErrUnsupported, kind)
	}
	return nested, nil
}

// arrowBuffer is a stretch of a batch's body.
type arrowBuffer struct{ offset, length int64 }

// arrowBatch is a record batch: the nodes and buffers of all fields depth first.
type arrowBatch struct {
	at, body, length int64
	rows             int64
	nulls            []int64
	lengths          []int64
	first, last      []int // the buffer that each field's begin with, and the one behind them
	buffers          []arrowBuffer
}

// open reads the metadata of a batch.
func (b *arrowBatch) open(t flat.Table, fields []arrowField) error {
	if t.Field(flat.BatchCompression) != 0 {
		return fmt.Errorf("%w: the buffers of a record batch are compressed (expected an Arrow stream or file that was written without compression)", ErrUnsupported)
	}
	b.rows = t.I64(flat.BatchLength)
	if b.rows < 0 {
		return fmt.Errorf("%w: a record batch of %d rows", ErrBad, b.rows)
	}
	nodes, _, count := t.Vector(flat.BatchNodes, 16)
	buffers, _, places := t.Vector(flat.BatchBuffers, 16)
	counts, _, views := t.Vector(flat.BatchVariadicCounts, 8)
	if count != len(fields) {
		return fmt.Errorf("%w: a record batch of %d arrays (expected %d, as the schema has fields)", ErrBad, count, len(fields))
	}
	for i := range places {
		x := arrowBuffer{flat.I64(buffers, uint64(16*i)), flat.I64(buffers, uint64(16*i+8))}
		if x.offset < 0 || x.length < 0 || x.offset > b.length || x.length > b.length-x.offset {
			return fmt.Errorf("%w: a buffer at %d of %d bytes in a body of %d", ErrBad, x.offset, x.length, b.length)
		}
		b.buffers = append(b.buffers, x)
	}
	place := 0
	for i := range fields {
		b.lengths, b.nulls = append(b.lengths, flat.I64(nodes, uint64(16*i))), append(b.nulls, flat.I64(nodes, uint64(16*i+8)))
		b.first = append(b.first, place)
		place += fields[i].buffers
		if fields[i].views {
			more := int64(-1)
			if views > 0 {
				more, counts, views = flat.I64(counts, 0), counts[8:], views-1
			}
			if more < 0 || more > int64(places) {
				return fmt.Errorf("%w: a column of views with %d buffers", ErrBad, more)
			}
			place += int(more)
		}
		b.last = append(b.last, place)
	}
	if place != places {
		return fmt.Errorf("%w: a record batch of %d buffers (expected %d)", ErrBad, places, place)
	}
	return nil
}

// valid is the bitmap of the rows of a field that are not null, nil where none is.
func (b *arrowBatch) valid(r io.ReaderAt, field int, from, rows int64) ([]byte, error) {
	if b.lengths[field] != b.rows {
		return nil, fmt.Errorf("%w: an array of %d values in a batch of %d rows", ErrBad, b.lengths[field], b.rows)
	}
	bits := b.buffers[b.first[field]]
	if bits.length == 0 && b.nulls[field] == 0 {
		return nil, nil
	}
	return b.stretch(r, bits, from/8, (rows+7)/8)
}

// stretch reads a part of a buffer.
func (b *arrowBatch) stretch(r io.ReaderAt, x arrowBuffer, from, bytes int64) ([]byte, error) {
	if from > x.length || bytes > x.length-from {
		return nil, fmt.Errorf("%w: a buffer of %d bytes (expected at least %d for %d rows)", ErrBad, x.length, from+bytes, b.rows)
	}
	data := make([]byte, bytes)
	return data, readAt(r, data, b.body+x.offset+from)
}

// read fills a chunk with rows of a field. Rows begin at a multiple of 8.
func (b *arrowBatch) read(r io.ReaderAt, c *arrowChunk, field int, from, rows int64, want bool) (err error) {
	f := c.field
	c.valid, c.data, c.first = c.valid[:0], nil, 0
	for _, n := range append(f.around[:len(f.around):len(f.around)], field) {
		bits, err := b.valid(r, n, from, rows)
		if err != nil {
			return err
		}
		c.valid = append(c.valid, bits)
	}
	second := b.buffers[b.first[field]+1]
	if f.offsets == 0 {
		width := int64(f.width)
		switch c.values = second; { // rows are fewer than the file's bytes (tooManyRows): those of numbers cannot overflow
		case f.wide && from+rows > second.length/width:
			return fmt.Errorf("%w: a buffer of %d bytes (expected %d values of %d)", ErrBad, second.length, from+rows, width)
		case f.wide:
			c.first = from * width
		case f.views:
			c.first, c.views = from*width, b.buffers[b.first[field]+2:b.last[field]]
			c.raw, err = b.stretch(r, second, from*width, rows*width)
		case width == 0:
			c.raw, err = b.stretch(r, second, from/8, (rows+7)/8)
		default:
			c.raw, err = b.stretch(r, second, from*width, rows*width)
		}
		return err
	}
	width := int64(f.offsets)
	if c.raw, err = b.stretch(r, second, from*width, (rows+1)*width); err != nil {
		return err
	}
	c.values = b.buffers[b.first[field]+2]
	if want {
		first, last := f.offset(c.raw, 0), f.offset(c.raw, int(rows))
		if first >= 0 && last >= first && last <= c.values.length && last-first <= maxArrowChunk {
			c.first = first
			c.data, err = b.stretch(r, c.values, first, last-first)
		}
	}
	return err
}
