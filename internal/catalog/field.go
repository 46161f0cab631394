package catalog

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
)

// maxArrayDims is NumPy's former bound; no image dataset needs more.
const maxArrayDims = 32

// dtypes are the element types of array fields by NumPy's name (bfloat16 is ml_dtypes'). Arrow stores bool as bits and
// has no bfloat16. So their columns are bytes and 16-bit words, and the manifest says what they mean.
var dtypes = map[string]arrow.FixedWidthDataType{
	"bool": &arrow.Uint8Type{}, "uint8": &arrow.Uint8Type{}, "int8": &arrow.Int8Type{},
	"uint16": &arrow.Uint16Type{}, "int16": &arrow.Int16Type{}, "uint32": &arrow.Uint32Type{},
	"int32": &arrow.Int32Type{}, "uint64": &arrow.Uint64Type{}, "int64": &arrow.Int64Type{},
	"float16": &arrow.Float16Type{}, "bfloat16": &arrow.Uint16Type{},
	"float32": &arrow.Float32Type{}, "float64": &arrow.Float64Type{},
}

// CheckFields refuses descriptions of fields that cannot be stored.
func CheckFields(fields []Field) error {
	if len(fields) > maxFields {
		return fmt.Errorf("there are %d fields (expected at most %d)", len(fields), maxFields)
	}
	seen := make(map[string]bool, len(fields))
	for i, f := range fields {
		switch {
		case f.Name == "" || len(f.Name) > maxFieldName || !utf8.ValidString(f.Name) || strings.IndexByte(f.Name, 0) >= 0:
			return fmt.Errorf("fields[%d].name is %.80q (expected 1 to %d bytes of UTF-8)", i, f.Name, maxFieldName)
		case seen[f.Name]:
			return fmt.Errorf("field %q stands there twice", f.Name)
		case f.Located && f.Type != Str && f.Type != Bytes && f.Type != ArrayType:
			return fmt.Errorf("field %q of type %s is located in its container; only texts, bytes and arrays are", f.Name, f.Type)
		// The columns of blocks follow those of the place.
		case f.Blocks && !f.Located:
			return fmt.Errorf("field %q lies in blocks and is not located in its container", f.Name)
		case f.Type == ArrayType:
			if dtypes[f.DType] == nil {
				return fmt.Errorf("field %q has the unknown dtype %.40q", f.Name, f.DType)
			}
			if n, err := elements(f.Shape); err != nil || n == 0 {
				return fmt.Errorf("field %q: shape %v is empty or too large (%v)", f.Name, f.Shape, err)
			}
		case f.Type != Int && f.Type != Float && f.Type != Str && f.Type != Bytes:
			return fmt.Errorf("field %q has the unknown type %.40q", f.Name, f.Type)
		case f.DType != "" || len(f.Shape) > 0:
			return fmt.Errorf("field %q of type %s has a dtype or shape; only arrays do", f.Name, f.Type)
		}
		seen[f.Name] = true
	}
	return nil
}

// elements returns the product of a shape. It stays below 2^31, which is Arrow's bound for a list.
func elements(shape []int64) (int64, error) {
	if len(shape) > maxArrayDims {
		return 0, fmt.Errorf("a shape of %d dimensions (expected at most %d)", len(shape), maxArrayDims)
	}
	n := int64(1)
	for _, d := range shape { // two factors below 2^31: the product cannot overflow
		if d < 0 || d > math.MaxInt32 || n*d > math.MaxInt32 {
			return 0, fmt.Errorf("the shape %v has a negative side or more than %d elements", shape, math.MaxInt32)
		}
		n *= d
	}
	return n, nil
}

// fixed is true for arrays that all have one shape, so that their rows need no offsets.
func (f *Field) fixed() bool { return f.Type == ArrayType && len(f.Shape) > 0 }

// column is the name of the field's column, and shapeColumn that of the shapes of an array of variable shape.
func (f *Field) column() string      { return fieldPrefix + f.Name }
func (f *Field) shapeColumn() string { return "s." + f.Name }

const (
	fieldPrefix  = "f."
	lengthPrefix = "l." // length of a located field; its offset is in the field's own column
)

// blockPrefixes begin the names of the columns of a located field in blocks. They say for its value what blockColumns
// say for the image.
var blockPrefixes = [...]string{"block_stored.", "block_size.", "block_inner.", "block_codec."}

const checksumPrefix = "crc32c." // checksum of the value of a located field in blocks

// arrowFields returns the field's columns: usually one, two for an array of variable shape and for a located field,
// seven for one in blocks.
func (f *Field) arrowFields() []arrow.Field {
	one := func(t arrow.DataType) []arrow.Field { return []arrow.Field{{Name: f.column(), Type: t}} }
	if f.Located {
		columns := []arrow.Field{
			{Name: f.column(), Type: arrow.PrimitiveTypes.Uint64},
			{Name: lengthPrefix + f.Name, Type: arrow.PrimitiveTypes.Uint64},
		}
		if f.Blocks {
			for n, prefix := range blockPrefixes {
				columns = append(columns, arrow.Field{Name: prefix + f.Name, Type: blockColumns[n].Type})
			}
			columns = append(columns, arrow.Field{Name: checksumPrefix + f.Name, Type: arrow.PrimitiveTypes.Uint32})
		}
		return columns
	}
	switch f.Type {
	case Int:
		return one(arrow.PrimitiveTypes.Int64)
	case Float:
		return one(arrow.PrimitiveTypes.Float64)
	case Str:
		return one(arrow.BinaryTypes.String)
	case Bytes:
		return one(arrow.BinaryTypes.Binary)
	}
	element := arrow.Field{Name: "item", Type: dtypes[f.DType]}
	if f.fixed() {
		n, _ := elements(f.Shape)
		return one(arrow.FixedSizeListOfField(int32(n), element))
	}
	return []arrow.Field{
		{Name: f.column(), Type: arrow.ListOfField(element)},
		{Name: f.shapeColumn(), Type: arrow.ListOfField(arrow.Field{Name: "item", Type: arrow.PrimitiveTypes.Int64})},
	}
}

// encode appends value to the field's columns, or returns why it does not fit.
func (f *Field) encode(value any, to []*column) error {
	if f.Located {
		return f.encodePlace(value, to)
	}
	switch v := value.(type) {
	case Extent, BlockExtent:
		return fmt.Errorf("field %q: a place and a value are not the same", f.Name)
	case int64:
		if f.Type == Int {
			to[0].fixed(binary.LittleEndian.AppendUint64(nil, uint64(v)))
			return nil
		}
		// A whole number may be given for a float, because Python often writes 1 for 1.0. Beyond 2^53 a float would be
		// another number, so that is refused.
		if f.Type == Float && int64(float64(v)) == v {
			return f.encode(float64(v), to)
		}
	case float64:
		if f.Type == Float {
			to[0].fixed(binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)))
			return nil
		}
	case string:
		if f.Type == Str {
			if !utf8.ValidString(v) {
				return fmt.Errorf("field %q: the text is not UTF-8", f.Name)
			}
			return f.variable(to[0], []byte(v))
		}
	case []byte:
		if f.Type == Bytes {
			return f.variable(to[0], v)
		}
	case Array:
		if f.Type == ArrayType {
			return f.encodeArray(v, to)
		}
	case nil:
		return fmt.Errorf("field %q is missing; every sample has every field", f.Name)
	}
	return fmt.Errorf("field %q is of type %s, the value is %s", f.Name, f.Type, typeName(value))
}

// encodePlace appends where the value of a located field lies.
func (f *Field) encodePlace(value any, to []*column) error {
	at, ok := value.(Extent)
	in, inBlocks := value.(BlockExtent)
	if inBlocks {
		at, ok = in.Extent, true
	}
	if !ok || inBlocks != f.Blocks {
		return fmt.Errorf("field %q: a place and a value are not the same", f.Name)
	}
	to[0].fixed(binary.LittleEndian.AppendUint64(nil, uint64(at.Offset)))
	to[1].fixed(binary.LittleEndian.AppendUint64(nil, uint64(at.Length)))
	if f.Blocks {
		for n, v := range map[int]uint32{2: in.Stored, 3: in.Size, 4: in.Inner, 6: in.CRC32C} {
			to[n].fixed(binary.LittleEndian.AppendUint32(nil, v))
		}
		to[5].fixed([]byte{in.Codec})
	}
	return nil
}

// encodeArray compares the shape with the bytes, because a reader trusts that they fit.
func (f *Field) encodeArray(v Array, to []*column) error {
	n, err := elements(v.Shape)
	if err != nil {
		return fmt.Errorf("field %q: %w", f.Name, err)
	}
	if v.DType != f.DType {
		return fmt.Errorf("field %q has dtype %s, the array %.40q", f.Name, f.DType, v.DType)
	}
	if width := int64(dtypes[f.DType].Bytes()); int64(len(v.Data)) != n*width {
		return fmt.Errorf("field %q: an array of shape %v has %d bytes, %d were given", f.Name, v.Shape, n*width, len(v.Data))
	}
	if f.fixed() {
		// A column of arrays of one shape cannot store another shape.
		if fmt.Sprint(v.Shape) != fmt.Sprint(f.Shape) {
			return fmt.Errorf("field %q has shape %v, the array %v", f.Name, f.Shape, v.Shape)
		}
		return to[0].fixedArray(v.Data)
	}
	var shape []byte
	for _, d := range v.Shape {
		shape = binary.LittleEndian.AppendUint64(shape, uint64(d))
	}
	if err := f.variable(to[0], v.Data); err != nil {
		return err
	}
	return f.variable(to[1], shape)
}

// variable appends a row. If it is too long, the error names the field.
func (f *Field) variable(to *column, row []byte) error {
	if err := to.variable(row); err != nil {
		return fmt.Errorf("field %q: %w", f.Name, err)
	}
	return nil
}

func typeName(v any) string {
	switch v.(type) {
	case int64:
		return string(Int)
	case float64:
		return string(Float)
	case string:
		return string(Str)
	case []byte:
		return string(Bytes)
	case Array:
		return string(ArrayType)
	}
	return fmt.Sprintf("%T", v)
}
