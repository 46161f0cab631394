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

// parquetFile is a Parquet manifest: flat columns of numbers, texts and bytes, and lists of numbers, which become
// arrays.
// A library, parquet-go, reads it, and not package formats, which finds the places of images but not values.
type parquetFile struct {
	file   string
	f      *os.File
	groups []parquet.RowGroup
	rows   parquet.Rows
	cols   []catalog.Field
	column []int // from each leaf to its place in cols
	leaf   []leaf

	buffer []parquet.Row
	held   []parquet.Row
	row    int64
}

// leaf says how to read the values of a column.
// There is one for each leaf of the schema, by its number in the file.
type leaf struct {
	unsigned int // number of bits if the schema says that the whole numbers are unsigned; otherwise 0
	present  int // definition level of a list's element that exists, even if it is null
}

// openParquet reads the footer. The library panics on some malformed files; here that becomes an error.
func openParquet(file string) (_ tableFile, err error) {
	// Several rows are read at a time, because each call of the library has a cost.
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
	// The section refuses places outside the file as an error of the file, because the file's own data name them. The
	// system's error would look like one of the disk. Page indexes and filters are skipped, because all rows are read.
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
		if g.NumRows() > 0 { // the library cannot seek in the pages of an empty group
			p.groups = append(p.groups, g)
		}
	}
	return p, nil
}

// parquetError converts an error of the library. The library reads the file, so the error may be one of the disk.
func parquetError(file, text string, err error) error {
	if disk := (*fs.PathError)(nil); errors.As(err, &disk) {
		return catalog.IOError(file, "cannot read the list of files", disk.Err)
	}
	return catalog.NewError(fault.KindBadFile, file, "%s: %v", text, err)
}

// checkLogicalTypes refuses numbers that are stored as another number or as bytes. It uses the footer itself, because
// the library's own description of a column does not show half floats.
// Decimals are whole numbers with a shifted point, half floats are two bytes (parquet-format, LogicalTypes.md).
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

// describe turns leaf columns into fields. One level of repetition is a list. Deeper nesting and structs, such as an
// image with its path, are refused with their names.
// A value's column number is that of its leaf in the schema's order.
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
		// With 8 and 16 bits, the int32 that Parquet stores is the number itself.
		if list && at.unsigned >= 32 {
			f.DType = "u" + f.DType
		}
		p.leaf = append(p.leaf, at)
		p.cols = append(p.cols, f)
	}
	return catalog.CheckFields(p.cols)
}

// parquetField returns the field of a column. It uses the physical type, because most logical ones have no counterpart
// in a sample: a date is its days, a time its ticks. Text is bytes that the schema says are UTF-8.
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

// leafOf returns the leaf of a column, from the schema.
func leafOf(column parquet.LeafColumn) leaf {
	// The highest definition level means that there is a value. If elements may be null, the level below means that an
	// element exists and is null (Parquet's README, "Nested Encoding").
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

// place is unknown: Parquet has no lines, and its rows have no offset that a person could look at.
func (p *parquetFile) place() (line, offset int64) { return 0, -1 }

func (p *parquetFile) columns() []catalog.Field { return p.cols }

// close closes the library's rows before the file that they are read from.
func (p *parquetFile) close() {
	if p.rows != nil {
		p.rows.Close()
	}
	p.f.Close()
}

// next fills the cells of one row. The library gives a row as values with their column's number.
// A row's values are the library's memory; put copies what is kept.
func (p *parquetFile) next(cells []any) (more bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = catalog.NewError(fault.KindBadFile, p.file, "the Parquet file is malformed: %v", r)
		}
	}()
	// At the end of a row group ReadRows may return no rows and no error.
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

// fill reads the next rows, and begins the next row group when one ends.
// A file may have thousands of row groups, so only one is open at a time.
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

// put stores one value in its cell. Values of a list come one by one.
func (p *parquetFile) put(cells []any, v parquet.Value) error {
	if v.Column() < 0 || v.Column() >= len(p.column) {
		return fmt.Errorf("a value of column %d of %d", v.Column(), len(p.column))
	}
	at := p.column[v.Column()]
	f, l := p.cols[at], p.leaf[v.Column()]
	// This is a null inside a list. At a lower level there is no list, or an empty one.
	if v.IsNull() && f.Type == catalog.ArrayType && v.DefinitionLevel() >= l.present {
		// If the null were left out, the numbers after it would move.
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
		case l.unsigned == 32: // Parquet stores it as the int32 with the same bits
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

// notANumber has the value for "missing" in a list, by dtype.
var notANumber = map[string]parquet.Value{"float32": parquet.FloatValue(float32(math.NaN())), "float64": parquet.DoubleValue(math.NaN())}

// wholeNumber, realNumber and appendNumber widen a physical value.
// They handle only the kinds that parquetField accepts.
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

// appendNumber appends a list's element, little-endian as in NumPy.
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
