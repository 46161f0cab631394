package catalog

import (
	"fmt"
	"unicode/utf8"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/mmap"
)

// Extent is where a value lies in its sample's container, which is what an index has of a located field.
type Extent struct{ Offset, Length int64 }

// ReadValue fills to with the bytes of a container in a store from offset on.
type ReadValue func(container *Shard, to []byte, offset int64) error

// StoredValue is a field of sample i as an index holds it: an Extent for what lies in the container.
func (d *Dataset) StoredValue(i int64, field string) (any, error) {
	if d.table == nil {
		return d.index.field(i, field)
	}
	for n := range d.table.Fields {
		if d.table.Fields[n].Name == field {
			return d.table.value(i, n), nil
		}
	}
	return nil, NewError(fault.KindArgument, d.path, "there is no field %q", field)
}

// contained is the value of a field of a sample in a container.
func (d *Dataset) contained(i int64, name string, read ReadValue) (any, error) {
	stored, err := d.StoredValue(i, name)
	if err != nil {
		return nil, err
	}
	at, ok := stored.(Extent)
	if text, is := stored.(string); is && !utf8.ValidString(text) {
		path, _ := d.Path(i)
		return nil, &Error{Kind: fault.KindBadFile, File: path, Record: i, Offset: -1, Text: fmt.Sprintf("field %q is not UTF-8", name)}
	}
	if a, is := stored.(Array); is && a.Shape == nil {
		path, _ := d.Path(i)
		return nil, &Error{Kind: fault.KindBadFile, File: path, Record: i, Offset: -1, Text: fmt.Sprintf("field %q: %d bytes are no array of %s", name, len(a.Data), a.DType)}
	}
	if !ok {
		return stored, nil
	}
	s, err := d.Sample(i)
	if err != nil {
		return nil, err
	}
	if int(s.Shard) >= len(d.Shards()) {
		return nil, NewError(fault.KindInternal, d.path, "container %d of %d", s.Shard, len(d.Shards()))
	}
	var data []byte
	if shard := d.Shard(int(s.Shard)); shard != nil {
		data, err = shard.readExtent(at, read)
	} else {
		data, err = readExtent(d.ShardPath(int(s.Shard)), d.Shards()[s.Shard].Size, at)
	}
	if err != nil {
		return nil, renamed(err, i)
	}
	field, _ := d.Field(name)
	switch field.Type {
	case Str:
	case ArrayType:
		a := field.located(data)
		if a.Shape == nil {
			return nil, &Error{Kind: fault.KindBadFile, File: d.ShardPath(int(s.Shard)), Record: i, Offset: at.Offset,
				Text: fmt.Sprintf("field %q: %d bytes are no array of %s and shape %v", name, len(data), field.DType, field.Shape)}
		}
		return a, nil
	default:
		return data, nil
	}
	if !utf8.Valid(data) {
		return nil, &Error{Kind: fault.KindBadFile, File: d.ShardPath(int(s.Shard)), Record: i, Offset: at.Offset,
			Text: fmt.Sprintf("field %q is not UTF-8", name)}
	}
	return string(data), nil
}

// mostLocated are the bytes of the longest value of a field.
func (d *Dataset) mostLocated(field string) (int64, error) {
	most := int64(8) // of a number
	for i := range d.rows {
		stored, err := d.StoredValue(i, field)
		if err != nil {
			return 0, err
		}
		switch v := stored.(type) {
		case Extent:
			most = max(most, v.Length)
		case string:
			most = max(most, int64(len(v)))
		case []byte:
			most = max(most, int64(len(v)))
		case Array:
			most = max(most, int64(len(v.Data)))
		}
	}
	return most, nil
}

// renamed says which sample an error of a place is about.
func renamed(err error, record int64) error {
	if e, ok := err.(*Error); ok {
		e.Record = record
	}
	return err
}

// readExtent reads a value out of a container that must be as long as it was. Fields are read one by one
// and seldom, so the file is opened for each.
func readExtent(path string, size int64, at Extent) ([]byte, error) {
	f, err := mmap.OpenRegular(path)
	if err != nil {
		return nil, IOError(path, "cannot open the container", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, IOError(path, "cannot look at the container", err)
	}
	if info.Size() != size {
		return nil, sizeError(path, "the container", size, info.Size())
	}
	if at.Offset < 0 || at.Length < 0 || at.Offset > size-at.Length {
		return nil, &Error{Kind: fault.KindBadFile, File: path, Record: -1, Offset: at.Offset, Text: fmt.Sprintf("a value of %d bytes lies outside the container", at.Length)}
	}
	if short := headroom.Memory(at.Length); short != nil {
		return nil, short
	}
	data := make([]byte, at.Length)
	if _, err := f.ReadAt(data, at.Offset); err != nil {
		return nil, IOError(path, "cannot read the container", err)
	}
	return data, nil
}
