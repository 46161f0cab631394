package pack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/headrace/headrace/internal/catalog"
)

// parquetFile is a Parquet manifest: flat columns of numbers, texts and bytes, and lists of
// numbers, which become arrays.
type parquetFile struct {
	file   string
	f      *os.File
	groups []parquet.RowGroup
	rows   parquet.Rows
	cols   []catalog.Field
	column []int // of a leaf: its place in cols
	wide   []bool

	buffer []parquet.Row
	held   []parquet.Row
	row    int64
}

// openParquet reads the footer. The library panics over some malformed files; they are errors here.
func openParquet(file string) (_ tableFile, err error) {
	p := &parquetFile{file: file, buffer: make([]parquet.Row, 64)}
	if p.f, err = os.Open(file); err != nil {
		return nil, catalog.IOError(file, "cannot open the manifest", err)
	}
	defer func() {
		if r := recover(); r != nil {
			err = catalog.NewError(catalog.KindBadFile, file, "the Parquet file is malformed: %v", r)
		}
		if err != nil {
			p.f.Close()
		}
	}()
	info, err := p.f.Stat()
	if err != nil {
		return nil, catalog.IOError(file, "cannot open the manifest", err)
	}
	pf, err := parquet.OpenFile(p.f, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, catalog.NewError(catalog.KindBadFile, file, "this is no Parquet file: %v", err)
	}
	if err := p.describe(pf.Schema()); err != nil {
		return nil, catalog.NewError(catalog.KindUnsupported, file, "%v", err)
	}
	p.groups = pf.RowGroups()
	return p, nil
}

// describe turns leaf columns into fields. One level of repetition is a list; deeper nesting, and
// structs such as an image with its path, are refused by name.
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
		p.wide = append(p.wide, unsignedLong(leaf.Node.Type()))
		p.cols = append(p.cols, f)
	}
	return catalog.CheckFields(p.cols)
}

// parquetField is the field of a column: by physical type, for logical ones (dates, decimals) have
// no counterpart in a sample. Text is bytes that the schema says are UTF-8.
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

// unsignedLong columns hold numbers that an int64 may not: they are looked at one by one.
func unsignedLong(t parquet.Type) bool {
	if l := t.LogicalType(); l != nil {
		i, ok := l.Value.(*format.IntType)
		return ok && !i.IsSigned && i.BitWidth == 64
	}
	return false
}

func (p *parquetFile) place() (line, offset int64) { return 0, -1 }

func (p *parquetFile) columns() []catalog.Field { return p.cols }

func (p *parquetFile) close() {
	if p.rows != nil {
		p.rows.Close()
	}
	p.f.Close()
}

// next puts the values of one row together: a row comes as values with their column's number.
func (p *parquetFile) next(cells []any) (more bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = catalog.NewError(catalog.KindBadFile, p.file, "the Parquet file is malformed: %v", r)
		}
	}()
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
			e := catalog.NewError(catalog.KindBadFile, p.file, "%v", err)
			e.Record = p.row
			return false, e
		}
	}
	p.row++
	return true, nil
}

// fill reads the next rows, of the next row group where one is over.
func (p *parquetFile) fill() (bool, error) {
	if p.rows == nil {
		if len(p.groups) == 0 {
			return false, nil
		}
		p.rows, p.groups = p.groups[0].Rows(), p.groups[1:]
	}
	n, err := p.rows.ReadRows(p.buffer)
	p.held = p.buffer[:n]
	if errors.Is(err, io.EOF) {
		err = p.rows.Close()
		p.rows = nil
	}
	if err != nil {
		return false, catalog.NewError(catalog.KindBadFile, p.file, "the Parquet file cannot be read: %v", err)
	}
	return true, nil
}

// put takes one value into its cell. Values of a list come one by one.
func (p *parquetFile) put(cells []any, v parquet.Value) error {
	if v.Column() < 0 || v.Column() >= len(p.column) {
		return fmt.Errorf("a value of column %d of %d", v.Column(), len(p.column))
	}
	at := p.column[v.Column()]
	f := p.cols[at]
	if v.IsNull() {
		value, ok := missing(f)
		if !ok {
			return fmt.Errorf("the column %q has no value; whole numbers have no stand-in", f.Name)
		}
		cells[at] = value
		return nil
	}
	switch f.Type {
	case catalog.Int:
		cells[at] = wholeNumber(v)
		if p.wide[v.Column()] && v.Int64() < 0 {
			return fmt.Errorf("the column %q holds %d, more than an int64", f.Name, v.Uint64())
		}
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

// wholeNumber, realNumber and appendNumber widen a physical value.
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
