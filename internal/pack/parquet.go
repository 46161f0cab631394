package pack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/mmap"
)

// parquetFile is a Parquet manifest: flat columns of numbers, texts and bytes, and lists of
// numbers, which become arrays.
// It is read by a library, parquet-go, and not by package formats: that finds places of images, and here values are wanted.
type parquetFile struct {
	file   string
	f      *os.File
	groups []parquet.RowGroup
	rows   parquet.Rows
	cols   []catalog.Field
	column []int // of a leaf: its place in cols
	leaf   []leaf

	buffer []parquet.Row
	held   []parquet.Row
	row    int64
}

// leaf is what the values of a column are taken by.
// One for each leaf of the schema, by its number in the file.
type leaf struct {
	unsigned int // bits, where the schema says that its whole numbers have no sign; else 0
	present  int // definition level of an element of a list, also of one that is null
}

// openParquet reads the footer. The library panics over some malformed files; they are errors here.
func openParquet(file string) (_ tableFile, err error) {
	// Several rows at a time, for each call has a cost in the library.
	p := &parquetFile{file: file, buffer: make([]parquet.Row, 64)}
	if p.f, err = mmap.OpenRegular(file); err != nil {
		return nil, catalog.IOError(file, "cannot open the list of files", err)
	}
	defer func() {
		if r := recover(); r != nil {
			err = catalog.NewError(fault.KindBadFile, file, "the Parquet file is malformed: %v", r)
		}
		if err != nil {
			p.f.Close()
		}
	}()
	info, err := p.f.Stat()
	if err != nil {
		return nil, catalog.IOError(file, "cannot open the list of files", err)
	}
	// A section refuses places before and behind the file itself, as what the file says is wrong. The system's refusal
	// would be taken for the disk's. Indexes of pages and filters are of no use to who reads all rows.
	pf, err := parquet.OpenFile(io.NewSectionReader(p.f, 0, info.Size()), info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, parquetError(file, "this is no Parquet file", err)
	}
	if err := checkLogicalTypes(pf.Metadata().Schema); err != nil {
		return nil, catalog.NewError(fault.KindUnsupported, file, "%v", err)
	}
	if err := p.describe(pf.Schema()); err != nil {
		return nil, catalog.NewError(fault.KindUnsupported, file, "%v", err)
	}
	for _, g := range pf.RowGroups() {
		if g.NumRows() > 0 { // the library cannot seek in the pages of one without
			p.groups = append(p.groups, g)
		}
	}
	return p, nil
}

// parquetError is an error of the library. It reads the file itself, so it may be one of the disk.
func parquetError(file, text string, err error) error {
	if disk := (*fs.PathError)(nil); errors.As(err, &disk) {
		return catalog.IOError(file, "cannot read the list of files", disk.Err)
	}
	return catalog.NewError(fault.KindBadFile, file, "%s: %v", text, err)
}

// checkLogicalTypes refuses numbers whose physical form is another number, or bytes. It looks at the
// footer itself: the library's own description of a column forgets that it is of halves.
// Decimals are whole numbers with a point elsewhere, halves are two bytes (parquet-format, LogicalTypes.md).
func checkLogicalTypes(schema []format.SchemaElement) error {
	for i := range schema {
		switch l := schema[i].LogicalType.Value.(type) {
		// Both are stored as bytes or whole numbers, which would be taken for the value.
		case *format.DecimalType, *format.Float16Type:
			return fmt.Errorf("the column %q is of the type %s, which is not read", schema[i].Name, l)
		}
	}
	return nil
}

// describe turns leaf columns into fields. One level of repetition is a list; deeper nesting, and
// structs such as an image with its path, are refused by name.
// Column numbers of values are those of the schema's leaves in order.
func (p *parquetFile) describe(schema *parquet.Schema) error {
	for _, path := range schema.Columns() {
		leaf, _ := schema.Lookup(path...)
		list := leaf.MaxRepetitionLevel == 1
		if len(path) > 1 && !list || leaf.MaxRepetitionLevel > 1 {
			return fmt.Errorf("the column %q is nested; flat columns and lists of numbers are read", path[0])
		}
		f, err := parquetField(path[0], leaf.Node.Type(), list)
		if err != nil {
			return err
		}
		p.column = append(p.column, len(p.cols))
		at := leafOf(leaf)
		// Of 8 and 16 bits the int32 that Parquet stores has the number itself.
		if list && at.unsigned >= 32 {
			f.DType = "u" + f.DType
		}
		p.leaf = append(p.leaf, at)
		p.cols = append(p.cols, f)
	}
	return catalog.CheckFields(p.cols)
}

// parquetField is the field of a column: by physical type, for most logical ones have no counterpart in
// a sample; a date is its days, a time its ticks. Text is bytes that the schema says are UTF-8.
func parquetField(name string, t parquet.Type, list bool) (catalog.Field, error) {
	f := catalog.Field{Name: name}
	switch t.Kind() {
	case parquet.Boolean, parquet.Int32, parquet.Int64:
		f.Type, f.DType = catalog.Int, map[parquet.Kind]string{parquet.Boolean: "bool", parquet.Int32: "int32", parquet.Int64: "int64"}[t.Kind()]
	case parquet.Float, parquet.Double:
		f.Type, f.DType = catalog.Float, map[parquet.Kind]string{parquet.Float: "float32", parquet.Double: "float64"}[t.Kind()]
	case parquet.ByteArray, parquet.FixedLenByteArray:
		f.Type = catalog.Bytes
		if l := t.LogicalType(); l != nil {
			switch l.Value.(type) {
			case *format.StringType, *format.EnumType, *format.JsonType:
				f.Type = catalog.Str
			}
		}
	default:
		return f, fmt.Errorf("the column %q is of the type %s, which is not read", name, t)
	}
	if !list {
		f.DType = ""
		return f, nil
	}
	if f.DType == "" {
		return f, fmt.Errorf("the column %q is a list of %s; lists of numbers are read", name, t)
	}
	f.Type = catalog.ArrayType
	return f, nil
}

// leafOf reads the schema of a column.
func leafOf(column parquet.LeafColumn) leaf {
	// The highest definition level says that there is a value. Of an element that may be null the level below
	// says that it is there and null (Parquet's README, "Nested Encoding").
	l := leaf{present: column.MaxDefinitionLevel}
	if column.Node.Optional() {
		l.present--
	}
	if t := column.Node.Type().LogicalType(); t != nil {
		if i, ok := t.Value.(*format.IntType); ok && !i.IsSigned {
			l.unsigned = int(i.BitWidth)
		}
	}
	return l
}

// Parquet has no lines, and its rows no offset that a person could look at.
func (p *parquetFile) place() (line, offset int64) { return 0, -1 }

func (p *parquetFile) columns() []catalog.Field { return p.cols }

// close ends the library's rows first, which are read from the file.
func (p *parquetFile) close() {
	if p.rows != nil {
		p.rows.Close()
	}
	p.f.Close()
}

// next puts the values of one row together: a row comes as values with their column's number.
// A row's values are the library's memory; put copies what is kept.
func (p *parquetFile) next(cells []any) (more bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = catalog.NewError(fault.KindBadFile, p.file, "the Parquet file is malformed: %v", r)
		}
	}()
	// ReadRows may give none and no error at the end of a row group.
	for len(p.held) == 0 {
		if more, err := p.fill(); !more {
			return false, err
		}
	}
	row := p.held[0]
	p.held = p.held[1:]
	clear(cells)
	for _, v := range row {
		if err := p.put(cells, v); err != nil {
			e := catalog.NewError(fault.KindBadFile, p.file, "%v", err)
			e.Record = p.row
			return false, e
		}
	}
	p.row++
	return true, nil
}

// fill reads the next rows, of the next row group where one is over.
// A file may have thousands of row groups; one is open at a time.
func (p *parquetFile) fill() (bool, error) {
	if p.rows == nil {
		if len(p.groups) == 0 {
			return false, nil
		}
		p.rows, p.groups = p.groups[0].Rows(), p.groups[1:]
	}
	n, err := p.rows.ReadRows(p.buffer)
	p.held = p.buffer[:n]
	// The last rows come together with io.EOF.
	if errors.Is(err, io.EOF) {
		err = p.rows.Close()
		p.rows = nil
	}
	if err != nil {
		return false, parquetError(p.file, "the Parquet file cannot be read", err)
	}
	return true, nil
}

// put takes one value into its cell. Values of a list come one by one.
func (p *parquetFile) put(cells []any, v parquet.Value) error {
	if v.Column() < 0 || v.Column() >= len(p.column) {
		return fmt.Errorf("a value of column %d of %d", v.Column(), len(p.column))
	}
	at := p.column[v.Column()]
	f, l := p.cols[at], p.leaf[v.Column()]
	// A null inside of a list; with a lower level there is no list, or an empty one.
	if v.IsNull() && f.Type == catalog.ArrayType && v.DefinitionLevel() >= l.present {
		// Left out, it would move the numbers behind it.
		nan, ok := notANumber[f.DType]
		if !ok {
			return fmt.Errorf("the column %q has a missing value in a list of whole numbers, which may not be missing", f.Name)
		}
		v = nan
	}
	if v.IsNull() {
		value, ok := missing(f)
		if !ok {
			return fmt.Errorf("the column %q has a missing value, and whole numbers may not be missing", f.Name)
		}
		cells[at] = value
		return nil
	}
	switch f.Type {
	case catalog.Int:
		n := wholeNumber(v)
		switch {
		case l.unsigned == 64 && n < 0:
			return fmt.Errorf("the column %q holds %d, more than an int64", f.Name, uint64(n))
		case l.unsigned == 32: // Parquet has it as the int32 of the same bits
			n = int64(uint32(n))
		}
		cells[at] = n
	case catalog.Float:
		cells[at] = realNumber(v)
	case catalog.Str:
		cells[at] = string(v.ByteArray())
	case catalog.Bytes:
		cells[at] = append([]byte{}, v.ByteArray()...)
	case catalog.ArrayType:
		a, _ := cells[at].(catalog.Array)
		a.DType, a.Data = f.DType, appendNumber(a.Data, v)
		n := int64(1)
		if len(a.Shape) == 1 {
			n += a.Shape[0]
		}
		a.Shape = []int64{n}
		cells[at] = a
	}
	return nil
}

// notANumber stands for nothing in a list, by dtype.
var notANumber = map[string]parquet.Value{"float32": parquet.FloatValue(float32(math.NaN())), "float64": parquet.DoubleValue(math.NaN())}

// wholeNumber, realNumber and appendNumber widen a physical value.
// The kinds are those that parquetField lets through.
func wholeNumber(v parquet.Value) int64 {
	switch v.Kind() {
	case parquet.Boolean:
		if v.Boolean() {
			return 1
		}
		return 0
	case parquet.Int32:
		return int64(v.Int32())
	}
	return v.Int64()
}

func realNumber(v parquet.Value) float64 {
	if v.Kind() == parquet.Float {
		return float64(v.Float())
	}
	return v.Double()
}

// Elements are little-endian, as NumPy writes them.
func appendNumber(b []byte, v parquet.Value) []byte {
	switch v.Kind() {
	case parquet.Boolean:
		return append(b, byte(wholeNumber(v)))
	case parquet.Int32:
		return binary.LittleEndian.AppendUint32(b, uint32(v.Int32()))
	case parquet.Float:
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(v.Float()))
	case parquet.Double:
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(v.Double()))
	}
	return binary.LittleEndian.AppendUint64(b, uint64(v.Int64()))
}
