package scan

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"unicode/utf8"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// A table is written column by column, in the order of its struct's fields, so that a column added later is kept too.
// Numbers and structs of numbers are written by encoding/binary, little-endian; lists of texts as lengths and texts;
// all else as JSON. Before each column comes the number of its elements, 2^64-1 if there is no such column.
const noColumn = math.MaxUint64

// errKept is not shown to users: on this error the files are scanned again.
var errKept = errors.New("a table that was kept is damaged")

// encodeTable uses reflection over the fields of Table, so that no column can be forgotten.
func encodeTable(t *catalog.Table) (data []byte, err error) {
	v := reflect.ValueOf(t).Elem()
	for i := range v.NumField() {
		if data, err = appendColumn(data, v.Field(i)); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// isNumbers is true for slices whose elements have a fixed size.
// binary.Size is -1 for a type without one, for example with a string or an int in it.
func isNumbers(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && binary.Size(reflect.Zero(t.Elem()).Interface()) > 0
}

// Lists of texts are recognised by type. encoding/binary and JSON cannot see the members of Names.
var (
	namesType     = reflect.TypeFor[formats.Names]()
	namesListType = reflect.TypeFor[[]*formats.Names]()
)

// appendColumn has the same cases as keptReader.column, which reads its output.
func appendColumn(data []byte, v reflect.Value) ([]byte, error) {
	t := v.Type()
	switch {
	case t == namesType:
		return appendNames(data, v.Addr().Interface().(*formats.Names)), nil
	case t.Kind() == reflect.Slice && v.IsNil():
		return binary.LittleEndian.AppendUint64(data, noColumn), nil
	case isNumbers(t):
		return binary.Append(binary.LittleEndian.AppendUint64(data, uint64(v.Len())), binary.LittleEndian, v.Interface())
	case t == namesListType:
		data = binary.LittleEndian.AppendUint64(data, uint64(v.Len()))
		for _, names := range v.Interface().([]*formats.Names) {
			data = appendNames(data, names)
		}
		return data, nil
	case t.Kind() == reflect.Slice && isNumbers(t.Elem()):
		data = binary.LittleEndian.AppendUint64(data, uint64(v.Len()))
		for i := range v.Len() {
			var err error
			if data, err = appendColumn(data, v.Index(i)); err != nil {
				return nil, err
			}
		}
		return data, nil
	}
	text, err := json.Marshal(v.Interface())
	return append(binary.LittleEndian.AppendUint64(data, uint64(len(text))), text...), err
}

// appendNames writes the number of texts, and each text after its length in four bytes.
func appendNames(data []byte, names *formats.Names) []byte {
	if names == nil {
		return binary.LittleEndian.AppendUint64(data, noColumn)
	}
	data = binary.LittleEndian.AppendUint64(data, uint64(names.Len()))
	for i := range names.Len() {
		name := names.Bytes(i)
		data = append(binary.LittleEndian.AppendUint32(data, uint32(len(name))), name...)
	}
	return data
}

// decodeTable reads what encodeTable wrote, and refuses all else, because the bytes come from a disk.
// The cache's own checksum finds most damage, but somebody may have made the file. So each count is limited by the
// bytes that follow, and no number is used before fits has checked it.
func decodeTable(data []byte) (*catalog.Table, error) {
	t := new(catalog.Table)
	d, v := &keptReader{data}, reflect.ValueOf(t).Elem()
	for i := range v.NumField() {
		if err := d.column(v.Field(i)); err != nil {
			return nil, err
		}
	}
	// No number of a damaged table is used, because later code trusts that they lie in their containers.
	if len(d.data) > 0 || !fits(t) {
		return nil, errKept
	}
	return t, nil
}

// keptReader reads columns from the front of data.
type keptReader struct{ data []byte }

// count reads how many elements of at least size bytes follow; ok is false if there is no column.
// size is never 0 (isNumbers), so it can be a divisor.
func (d *keptReader) count(size int) (n int, ok bool, err error) {
	if len(d.data) < 8 {
		return 0, false, errKept
	}
	found := binary.LittleEndian.Uint64(d.data)
	if d.data = d.data[8:]; found == noColumn {
		return 0, false, nil
	}
	// This check comes before any allocation, because the count comes from the file.
	if found > uint64(len(d.data)/size) {
		return 0, false, errKept
	}
	return int(found), true, nil
}

// column reads one column into v. The type of v says in which form it was written.
func (d *keptReader) column(v reflect.Value) error {
	t := v.Type()
	if t == namesType {
		names, err := d.names()
		if err != nil || names == nil {
			return errKept
		}
		v.Set(reflect.ValueOf(names).Elem())
		return nil
	}
	size := 1 // of a character of JSON
	switch {
	case isNumbers(t):
		size = binary.Size(reflect.Zero(t.Elem()).Interface())
	case t == namesListType, t.Kind() == reflect.Slice && isNumbers(t.Elem()):
		size = 8 // of the count of each
	}
	n, ok, err := d.count(size)
	if err != nil || !ok {
		return err
	}
	switch {
	case isNumbers(t):
		// count has checked that n elements are there, so Decode cannot run out of bytes.
		v.Set(reflect.MakeSlice(t, n, n))
		used, err := binary.Decode(d.data, binary.LittleEndian, v.Interface())
		d.data = d.data[used:]
		return err
	case t == namesListType:
		list := make([]*formats.Names, n)
		for i := range list {
			if list[i], err = d.names(); err != nil {
				return err
			}
		}
		v.Set(reflect.ValueOf(list))
		return nil
	case size == 8:
		v.Set(reflect.MakeSlice(t, n, n))
		for i := range n {
			if err := d.column(v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}
	text := d.data[:n]
	d.data = d.data[n:]
	return json.Unmarshal(text, v.Addr().Interface())
}

// names reads a list of texts; nil if there is none.
func (d *keptReader) names() (*formats.Names, error) {
	n, ok, err := d.count(4)
	if err != nil || !ok {
		return nil, err
	}
	names := new(formats.Names)
	for range n {
		if len(d.data) < 4 {
			return nil, errKept
		}
		length := binary.LittleEndian.Uint32(d.data)
		if d.data = d.data[4:]; uint64(length) > uint64(len(d.data)) {
			return nil, errKept
		}
		names.Append(string(d.data[:length]))
		d.data = d.data[length:]
	}
	return names, nil
}

// fits is true if all columns have the same length and no number leads out of its container.
// The walkers obey the same limits, and readers rely on them later.
func fits(t *catalog.Table) bool {
	rows := len(t.Shard)
	if len(t.Offset) != rows || len(t.Length) != rows || len(t.Label) != rows || t.Keys.Len() != int64(rows) ||
		t.Blocks != nil && len(t.Blocks) != rows || t.Frames != nil && len(t.Frames) != rows || t.Raw != nil && len(t.Raw) != rows || !fieldsFit(t) {
		return false
	}
	for i := range rows {
		key := t.Keys.Bytes(int64(i))
		if int(t.Shard[i]) >= len(t.Shards) || len(key) > 2*formats.MaxNameBytes || !utf8.Valid(key) {
			return false
		}
		size, length := t.Shards[t.Shard[i]].Size, int64(t.Length[i])
		if t.Raw != nil && !t.Raw[i].Fills(t.Length[i]) {
			return false
		}
		if t.Blocks != nil && t.Blocks[i].Codec != 0 {
			if t.Blocks[i].Check(uint64(length)) != nil {
				return false
			}
			length = int64(t.Blocks[i].Stored)
		}
		if !inside(t.Offset[i], length, size) || t.Frames != nil && !inside(t.Frames[i].Offset, t.Frames[i].Length, size) {
			return false
		}
		if n := int64(len(t.Classes)); n > 0 && (t.Label[i] < catalog.NoLabel || t.Label[i] >= n) {
			return false
		}
	}
	return true
}

// fieldsFit is true if every field has a value for each row, and its places in blocks lie there.
// A field's type decides in which list its values are, as in addField.
func fieldsFit(t *catalog.Table) bool {
	n, rows := len(t.Fields), len(t.Shard)
	if len(t.Numbers) != n || len(t.Ints) != n || len(t.Extents) != n || len(t.Texts) != n || len(t.FieldBlocks) != n {
		return false
	}
	for i, f := range t.Fields {
		found := len(t.Numbers[i])
		switch {
		case f.Located:
			found = len(t.Extents[i])
		case f.Type == catalog.Int:
			found = len(t.Ints[i])
		case f.Type == catalog.Str, f.Type == catalog.Bytes, f.Type == catalog.ArrayType:
			found = -1
			if t.Texts[i] != nil {
				found = int(t.Texts[i].Len())
			}
		}
		if found != rows || f.Blocks != (t.FieldBlocks[i] != nil) || f.Blocks && (!f.Located || !valuesFit(t, i)) {
			return false
		}
	}
	return true
}

// valuesFit is true if the field's values lie in their blocks, and the blocks in their containers.
func valuesFit(t *catalog.Table, field int) bool {
	if len(t.FieldBlocks[field]) != len(t.Shard) {
		return false
	}
	for i, place := range t.FieldBlocks[field] {
		at := catalog.BlockExtent{Extent: t.Extents[field][i], ValuePlace: place}
		if int(t.Shard[i]) >= len(t.Shards) || at.Check(t.Shards[t.Shard[i]].Size) != nil {
			return false
		}
	}
	return true
}

// inside compares the length with what is left behind the offset, because a sum could overflow.
func inside(offset, length, size int64) bool {
	return offset >= 0 && length >= 0 && offset <= size && length <= size-offset
}
