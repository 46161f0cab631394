package scan

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/internal/pathjson"
	"github.com/headrace/headrace/mmap"
)

// Locations are samples whose places the caller knows: a table with a row for each sample. Numbers are little-endian,
// with 8 bytes each, so that in JSON a column is one base64 text.
// The table comes through the C ABI, so every count, end and number in it is checked here.
type Locations struct {
	Files  []pathjson.Text  `json:"files"`
	File   []byte           `json:"file"` // the number of the row's file in Files
	Offset []byte           `json:"offset"`
	Length []byte           `json:"length"`
	Label  []byte           `json:"label"` // nil: there are no labels
	Keys   *Texts           `json:"keys"`  // nil: CONTAINER/ROW
	Fields []LocationsField `json:"fields"`
}

// Texts are texts or bytes, stored one after the other.
// n texts have n ends; the first text begins at 0.
type Texts struct {
	Ends []byte `json:"ends"` // where each text ends in Data, as numbers
	Data []byte `json:"data"`
}

// LocationsField is a field with its values, which are in Numbers for ints and floats, otherwise in Texts.
type LocationsField struct {
	Name    string            `json:"name"`
	Type    catalog.FieldType `json:"type"`
	DType   string            `json:"dtype"` // of vectors, whose bytes are in Texts
	Shape   []int64           `json:"shape"`
	Numbers []byte            `json:"numbers"`
	Texts   *Texts            `json:"texts"`
}

const numberBytes = 8

// numberAt checks nothing, because its caller has checked that the column has the row.
func numberAt(column []byte, row int) int64 {
	return int64(binary.LittleEndian.Uint64(column[row*numberBytes:]))
}

// wrongRow makes the error for a value in a row.
func wrongRow(kind fault.Kind, file string, row int, format string, args ...any) error {
	e := catalog.NewError(kind, file, format, args...)
	e.Record = int64(row)
	return e
}

// FromLocations makes a dataset of places in files. It checks that every row lies inside its file, so that no later
// number can lead out of it.
// Without names of classes a label may be any number from -1 on. With names it has to be -1 or the number of a class.
func FromLocations(l *Locations, classes []string) (*catalog.Dataset, error) {
	rows := len(l.File) / numberBytes
	if rows == 0 || len(l.Files) == 0 {
		return nil, catalog.NewError(fault.KindEmpty, "", "the table has %d rows and there are %d files", rows, len(l.Files))
	}
	for name, column := range map[string][]byte{"file": l.File, "offset": l.Offset, "length": l.Length, "label": l.Label} {
		if len(column) != rows*numberBytes && !(name == "label" && column == nil) {
			return nil, catalog.NewError(fault.KindArgument, "", "the column %q has %d bytes (expected %d, 8 for each of %d rows)", name, len(column), rows*numberBytes, rows)
		}
	}
	// Each row takes memory beside the caller's columns: four numbers, a key, and what slices allocate in advance.
	if short := headroom.Memory(int64(rows) * 64); short != nil {
		return nil, short
	}
	// The files come first, because the rows' places are compared with their sizes.
	t, err := located(l)
	if err == nil {
		err = l.fill(t, rows, classes)
	}
	if err != nil {
		return nil, err
	}
	return catalog.FromTable(t)
}

// located makes the table without its rows.
// It has the files, with their sizes and the checksums of their ends.
func located(l *Locations) (*catalog.Table, error) {
	files := make([]string, len(l.Files))
	first := make(map[string]int, len(files))
	for i, file := range l.Files {
		files[i] = string(file)
		// If one file had two numbers, its rows and its checks would be counted twice.
		if j, ok := first[files[i]]; ok {
			return nil, catalog.NewError(fault.KindArgument, files[i], "files[%d] is files[%d] once more", i, j)
		}
		first[files[i]] = i
	}
	root, names := catalog.CommonRoot(files)
	t := &catalog.Table{Root: root, Source: catalog.SourceInfo{Format: "locations"}}
	// Each file is opened once here. Size and checksums of the ends show later whether it has changed.
	for i, file := range files {
		f, err := mmap.OpenRegular(file)
		if err != nil {
			return nil, catalog.IOError(file, fmt.Sprintf("cannot open files[%d]", i), err)
		}
		shard, err := catalog.ShardOf(names[i], f)
		f.Close()
		if err != nil {
			return nil, catalog.IOError(file, fmt.Sprintf("cannot read files[%d]", i), err)
		}
		t.Shards = append(t.Shards, shard)
	}
	return t, nil
}

// fill adds the rows.
func (l *Locations) fill(t *catalog.Table, rows int, classes []string) error {
	t.Classes = classes
	for row := range rows {
		file, offset, length, label := numberAt(l.File, row), numberAt(l.Offset, row), numberAt(l.Length, row), int64(catalog.NoLabel)
		if l.Label != nil {
			label = numberAt(l.Label, row)
		}
		if file < 0 || file >= int64(len(l.Files)) {
			return wrongRow(fault.KindArgument, "", row, "file is %d (expected 0 to %d, the number of one of files)", file, len(l.Files)-1)
		}
		name, size := string(l.Files[file]), t.Shards[file].Size
		switch {
		// These are compared one by one, because a sum of the caller's numbers could overflow.
		case offset < 0 || offset > size:
			return wrongRow(fault.KindArgument, name, row, "offset is %d (expected 0 to %d, the bytes of the file)", offset, size)
		case length < 0 || length > size-offset:
			return wrongRow(fault.KindArgument, name, row, "length is %d (expected 0 to %d, what the file has behind offset %d)", length, size-offset, offset)
		case length > math.MaxUint32:
			return wrongRow(fault.KindLimit, name, row, "length is %d (expected at most %d)", length, uint32(math.MaxUint32))
		case label < catalog.NoLabel:
			return wrongRow(fault.KindArgument, name, row, "label is %d (expected 0 or more, or -1 for none)", label)
		case len(classes) > 0 && label >= int64(len(classes)):
			return wrongRow(fault.KindArgument, name, row, "label is %d (expected less than %d, the number of classes)", label, len(classes))
		}
		t.Shard, t.Offset, t.Length = append(t.Shard, uint32(file)), append(t.Offset, offset), append(t.Length, uint32(length))
		t.Label = append(t.Label, label)
		t.Shards[file].Rows++
	}
	keys, err := l.keys(rows)
	if err != nil {
		return err
	}
	uniqueKeys(t, keys)
	for i := range l.Fields {
		if err := l.Fields[i].addTo(t, rows); err != nil {
			return err
		}
	}
	return nil
}

// keys returns the caller's keys, which must be unique, or as many empty ones.
// An empty key means that the sample has none.
func (l *Locations) keys(rows int) (*formats.Names, error) {
	if l.Keys == nil {
		empty := new(formats.Names)
		for range rows {
			empty.Append("")
		}
		return empty, nil
	}
	keys, err := l.Keys.names("key", rows, true)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]int, rows)
	for row := range rows {
		key := string(keys.Bytes(int64(row)))
		first, ok := seen[key]
		switch {
		case len(key) > formats.MaxNameBytes:
			return nil, wrongRow(fault.KindArgument, "", row, "key has %d bytes (expected at most %d)", len(key), formats.MaxNameBytes)
		case ok && key != "":
			return nil, wrongRow(fault.KindDuplicateKey, "", row, "key is %q, which row %d has already", key, first)
		}
		seen[key] = row
	}
	return keys, nil
}

// names returns the texts. With text, each must be UTF-8.
// The lengths together cannot exceed the data, because no end is below the one before.
func (x *Texts) names(column string, rows int, text bool) (*formats.Names, error) {
	if x == nil || len(x.Ends) != rows*numberBytes {
		return nil, catalog.NewError(fault.KindArgument, "", "the column %.80q has not a text for each of %d rows", column, rows)
	}
	names, begin := new(formats.Names), int64(0)
	for row := range rows {
		end := numberAt(x.Ends, row)
		if end < begin || end > int64(len(x.Data)) {
			return nil, wrongRow(fault.KindArgument, "", row, "the column %.80q: a text ends at %d (expected %d to %d)", column, end, begin, len(x.Data))
		}
		if value := x.Data[begin:end]; text && !utf8.Valid(value) {
			return nil, wrongRow(fault.KindArgument, "", row, "%.80q is %.40q (expected UTF-8)", column, value)
		}
		names.Append(string(x.Data[begin:end]))
		begin = end
	}
	return names, nil
}

// addTo adds the field to the table.
// In Numbers a float is stored as its 64 bits.
func (f *LocationsField) addTo(t *catalog.Table, rows int) error {
	field := catalog.Field{Name: f.Name, Type: f.Type}
	t.Source.Columns = append(t.Source.Columns, catalog.SourceColumn{Name: f.Name, Samples: int64(rows), Use: "field"})
	if f.Type == catalog.ArrayType {
		field.DType, field.Shape = f.DType, f.Shape
	}
	if f.Type == catalog.Str || f.Type == catalog.Bytes || f.Type == catalog.ArrayType {
		texts, err := f.Texts.names(f.Name, rows, f.Type == catalog.Str)
		if err == nil {
			addField(t, field, nil, nil, nil, texts)
		}
		return err
	}
	if len(f.Numbers) != rows*numberBytes {
		return catalog.NewError(fault.KindArgument, "", "the column %.80q has %d bytes (expected %d, 8 for each of %d rows)", f.Name, len(f.Numbers), rows*numberBytes, rows)
	}
	switch f.Type {
	case catalog.Int:
		ints := make([]int64, rows)
		for row := range ints {
			ints[row] = numberAt(f.Numbers, row)
		}
		addNumbers(t, field, ints, nil)
	case catalog.Float:
		floats := make([]float64, rows)
		for row := range floats {
			floats[row] = math.Float64frombits(uint64(numberAt(f.Numbers, row)))
		}
		addNumbers(t, field, nil, floats)
	default:
		return catalog.NewError(fault.KindArgument, "", "the column %.80q is of type %.40q (expected int, float, str, bytes or array)", f.Name, f.Type)
	}
	return nil
}
