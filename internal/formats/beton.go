package formats

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/headrace/headrace/internal/headroom"
)

// Beton is a file of FFCV, version 2 (ffcv/types.py, ffcv/writer.py):
//
//	header | a description of each field | a row a sample | padding | pages | table of allocations
//
// All numbers are little-endian. A row is a NumPy struct with align=True. It holds numbers themselves. For images,
// bytes and arrays it holds their place in the pages; how many bytes an image has, only the table says.
type Beton struct {
	Fields []BetonField

	r             io.ReaderAt
	at, row       int64 // place of the next sample's row, and its size
	samples, next int64
	buffer        []byte
	ptrs, sizes   []uint64 // of the allocations, sorted by ptrs
}

// BetonField is a column of a beton.
type BetonField struct {
	Name   string
	Kind   BetonKind
	DType  string  // of arrays, by NumPy's name; "" if it has none here
	Shape  []int64 // of arrays
	offset int64   // in the row
	bytes  int64   // of an array
}

// BetonKind is a field's type_id.
type BetonKind uint8

// These are the types (TYPE_ID_HANDLER of ffcv/types.py).
const (
	BetonFloat BetonKind = iota
	BetonInt
	BetonImage
	BetonBytes
	BetonArray
	BetonJSON
	BetonTensor
	betonKinds
)

// BetonValue is a field's value in one sample.
type BetonValue struct {
	Int            int64
	Float          float64
	Offset, Length int64 // of an image, bytes, JSON or an array
	Raw            bool  // an image is stored as rows of RGB, and not as a JPEG
	Width, Height  uint16
}

const (
	betonVersion = 2
	// These are sizes of the structs of ffcv/types.py: HeaderType, FieldDescType and its name, and ALLOC_TABLE_TYPE.
	betonHead       = 24
	betonField      = 1041
	betonName       = 16
	betonShape      = 32 // sides in the arguments of an array, of 8 bytes each
	betonAllocation = 24
	maxBetonFields  = 1024
	maxBetonPage    = 1 << 31
)

// betonRow returns the size of a field in a row, and its alignment. The structs of images and bytes are packed.
func betonRow(kind BetonKind) (bytes, align int64) {
	switch kind {
	case BetonImage:
		return 13, 1 // u8 mode, u16 width, u16 height, u64 place
	case BetonBytes, BetonJSON:
		return 16, 1
	}
	return 8, 8
}

// IsBeton recognises the header, which has no magic: its version, a page size, a table that lies in the file, and the
// type and name of its first field.
func IsBeton(r io.ReaderAt, size int64) bool {
	var b [betonHead + 1 + betonName]byte
	if size < int64(len(b)) || readAt(r, b[:], 0) != nil {
		return false
	}
	le := binary.LittleEndian
	page, table, name := int64(le.Uint32(b[4:])), le.Uint64(b[16:]), b[betonHead+1:]
	kind := b[betonHead]
	// All these signs have to match, because other containers may begin with similar small numbers.
	return le.Uint16(b[:]) == betonVersion && le.Uint16(b[2:]) > 0 && page >= 512 && page <= maxBetonPage && page&(page-1) == 0 &&
		table <= uint64(size) && (BetonKind(kind) < betonKinds || kind == math.MaxUint8) && strings.Trim(string(name), "\x00") != "" &&
		!slices.ContainsFunc(name, func(c byte) bool { return c >= utf8.RuneSelf })
}

// NewBeton reads header, fields and the table of allocations.
func NewBeton(r io.ReaderAt, size int64) (*Beton, error) {
	var head [betonHead]byte
	if size < betonHead {
		return nil, &WalkError{0, fmt.Errorf("%w: a header of %d bytes (expected %d)", ErrTruncated, size, betonHead)}
	}
	if err := readAt(r, head[:], 0); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	fields, samples, table := int64(le.Uint16(head[2:])), le.Uint64(head[8:]), le.Uint64(head[16:])
	b := &Beton{r: r, at: betonHead + fields*betonField}
	switch {
	case le.Uint16(head[:]) != betonVersion:
		return nil, &WalkError{0, fmt.Errorf("%w: a beton of version %d (expected %d)", ErrUnsupported, le.Uint16(head[:]), betonVersion)}
	case fields > maxBetonFields:
		return nil, &WalkError{2, fmt.Errorf("%w: %d fields (expected at most %d)", ErrLimit, fields, maxBetonFields)}
	// The writer fills in the header last (DatasetWriter.finalize in ffcv/writer.py), so a table at byte 0 means that the
	// file was not finished.
	case b.at > size || table > uint64(size) || int64(table) < b.at:
		return nil, &WalkError{0, fmt.Errorf("%w: %d fields up to byte %d, and a table of allocations at %d, in a file of %d bytes (its writer did not end, or it was cut)", ErrTruncated, fields, b.at, table, size)}
	}
	align := int64(1)
	for i := range fields {
		a, err := b.addField(betonHead + i*betonField)
		if err != nil {
			return nil, err
		}
		align = max(align, a)
	}
	// The size of a NumPy struct with align=True is a multiple of its widest member, so that rows in an array are aligned
	// as well.
	b.row = roundUp(b.row, align)
	// This divides instead of multiplying, because the file's count has 64 bits.
	if b.row == 0 || samples > uint64(int64(table)-b.at)/uint64(b.row) {
		return nil, &WalkError{8, fmt.Errorf("%w: %d rows of %d bytes, the table of allocations begins at %d", ErrTruncated, samples, b.row, table)}
	}
	b.samples, b.buffer = int64(samples), make([]byte, b.row)
	return b, b.readTable(int64(table), size)
}

func roundUp(n, align int64) int64 { return (n + align - 1) / align * align }

// addField reads the description of a field, and assigns its place in a row.
func (b *Beton) addField(at int64) (align int64, err error) {
	var d [betonField]byte
	if err := readAt(b.r, d[:], at); err != nil {
		return 0, &WalkError{at, err}
	}
	name, _, _ := strings.Cut(string(d[1:1+betonName]), "\x00")
	f := BetonField{Name: TextName(name), Kind: BetonKind(d[0])}
	if f.Kind >= betonKinds {
		// Type 255 is a Field that a program wrote itself; only its code knows what it stored.
		return 0, &WalkError{at, fmt.Errorf("%w: the field %.80q of type %d, which is a class of its writer's own", ErrUnsupported, f.Name, d[0])}
	}
	if f.Kind == BetonArray || f.Kind == BetonTensor {
		if err := f.readArray(d[1+betonName:]); err != nil {
			return 0, &WalkError{at, err}
		}
	}
	bytes, align := betonRow(f.Kind)
	f.offset = roundUp(b.row, align)
	b.row = f.offset + bytes
	b.Fields = append(b.Fields, f)
	return align, nil
}

// readArray reads the arguments of a field of arrays: up to 32 sides, and NumPy's description of its dtype as JSON,
// [["", "<f4"]].
func (f *BetonField) readArray(arguments []byte) error {
	le := binary.LittleEndian
	f.bytes = 1
	for i := range betonShape {
		side := le.Uint64(arguments[8*i:])
		if side == 0 {
			break
		}
		if side > math.MaxInt32 || f.bytes > math.MaxInt32/int64(side) {
			return fmt.Errorf("%w: the field %.80q of arrays of more than %d elements", ErrLimit, f.Name, math.MaxInt32)
		}
		f.Shape, f.bytes = append(f.Shape, int64(side)), f.bytes*int64(side)
	}
	length := le.Uint64(arguments[8*betonShape:])
	text := arguments[8*betonShape+8:]
	var descr [][]any
	if length > uint64(len(text)) || json.Unmarshal(text[:length], &descr) != nil || len(descr) != 1 || len(descr[0]) != 2 {
		return fmt.Errorf("%w: the field %.80q says its dtype in %d bytes that are no description of one", ErrBad, f.Name, length)
	}
	dtype, ok := numpyTypes[fmt.Sprint(descr[0][1])]
	if ok {
		f.DType, f.bytes = dtype.name, f.bytes*dtype.bytes
	}
	return nil
}

// numpyTypes are the dtypes that a field may have, by NumPy's codes. Arrays of others cannot be fields.
var numpyTypes = map[string]struct {
	name  string
	bytes int64
}{
	"|b1": {"bool", 1}, "|u1": {"uint8", 1}, "|i1": {"int8", 1}, "<u2": {"uint16", 2}, "<i2": {"int16", 2}, "<u4": {"uint32", 4},
	"<i4": {"int32", 4}, "<u8": {"uint64", 8}, "<i8": {"int64", 8}, "<f2": {"float16", 2}, "<f4": {"float32", 4}, "<f8": {"float64", 8},
}

// readTable reads the allocations: uint64 sample, uint64 place, uint64 size, in any order.
func (b *Beton) readTable(at, size int64) error {
	count := (size - at) / betonAllocation
	if (size-at)%betonAllocation != 0 {
		return &WalkError{at, fmt.Errorf("%w: a table of allocations of %d bytes (expected a multiple of %d)", ErrTruncated, size-at, betonAllocation)}
	}
	type allocation struct{ ptr, size uint64 }
	if short := headroom.Memory(2 * 16 * count); short != nil {
		return short
	}
	all := make([]allocation, 0, count)
	var chunk [512 * betonAllocation]byte
	for at < size {
		part := chunk[:min(int64(len(chunk)), size-at)]
		if err := readAt(b.r, part, at); err != nil {
			return &WalkError{at, err}
		}
		for i := 0; i < len(part); i += betonAllocation {
			a := allocation{binary.LittleEndian.Uint64(part[i+8:]), binary.LittleEndian.Uint64(part[i+16:])}
			// This is checked once here, so that no value's allocation can lead out of the file later.
			if a.ptr > uint64(size) || a.size > uint64(size)-a.ptr {
				return &WalkError{at + int64(i), fmt.Errorf("%w: an allocation of %d bytes at %d, the file has %d", ErrBad, a.size, a.ptr, size)}
			}
			all = append(all, a)
		}
		at += int64(len(part))
	}
	// A value without bytes has the same place as the next one, which then comes last among those of that place.
	slices.SortFunc(all, func(a, b allocation) int {
		return cmp.Or(cmp.Compare(a.ptr, b.ptr), cmp.Compare(a.size, b.size))
	})
	for _, a := range all {
		if n := len(b.ptrs); n > 0 && b.ptrs[n-1] == a.ptr {
			b.sizes[n-1] = a.size
			continue
		}
		b.ptrs, b.sizes = append(b.ptrs, a.ptr), append(b.sizes, a.size)
	}
	return nil
}

// Next fills values with those of the next sample and returns where its row begins; io.EOF after the last.
func (b *Beton) Next(values []BetonValue) (int64, error) {
	if b.next == b.samples {
		return 0, io.EOF
	}
	if err := readAt(b.r, b.buffer, b.at); err != nil {
		return b.at, &WalkError{b.at, err}
	}
	for i := range b.Fields {
		if err := b.value(&b.Fields[i], &values[i]); err != nil {
			return b.at, &WalkError{b.at, fmt.Errorf("%w (the field %.80q)", err, b.Fields[i].Name)}
		}
	}
	begin := b.at
	b.at, b.next = b.at+b.row, b.next+1
	return begin, nil
}

// value reads a field from the row.
func (b *Beton) value(f *BetonField, v *BetonValue) error {
	le, row := binary.LittleEndian, b.buffer[f.offset:]
	*v = BetonValue{}
	ptr, length := uint64(0), uint64(0)
	switch f.Kind {
	case BetonFloat:
		v.Float = math.Float64frombits(le.Uint64(row))
		return nil
	case BetonInt:
		v.Int = int64(le.Uint64(row))
		v.Float = float64(v.Int)
		return nil
	case BetonImage:
		v.Width, v.Height = le.Uint16(row[1:]), le.Uint16(row[3:])
		ptr = le.Uint64(row[5:])
		if v.Raw = row[0] == 1; row[0] > 1 {
			return fmt.Errorf("%w: an image of mode %d (expected 0, a JPEG, or 1, raw)", ErrUnsupported, row[0])
		}
	case BetonBytes, BetonJSON:
		ptr, length = le.Uint64(row), le.Uint64(row[8:])
	default:
		ptr, length = le.Uint64(row), uint64(f.bytes)
	}
	// The row of an image has its place but not its length, so the table is searched for each.
	place, found := slices.BinarySearch(b.ptrs, ptr)
	if !found {
		if (f.Kind == BetonBytes || f.Kind == BetonJSON) && length == 0 {
			return nil
		}
		return fmt.Errorf("%w: a value at byte %d, where the table of %d allocations has none", ErrBad, ptr, len(b.ptrs))
	}
	allocated := b.sizes[place]
	switch {
	// A JPEG fills its allocation, because the writer allocates exactly its bytes.
	case f.Kind == BetonImage && !v.Raw:
		length = allocated
	case f.Kind == BetonImage:
		length = 3 * uint64(v.Width) * uint64(v.Height)
	}
	if length > allocated {
		return fmt.Errorf("%w: a value of %d bytes at %d, where %d were allocated", ErrBad, length, ptr, allocated)
	}
	v.Offset, v.Length = int64(ptr), int64(length)
	return nil
}
