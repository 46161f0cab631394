package catalog

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"unicode/utf8"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/mmap"
)

// Extent is where a value lies in its sample's container. An index holds this for a located field.
type Extent struct{ Offset, Length int64 }

// BlockExtent is where a value lies that may be in a compressed block. An index holds this for a field in blocks. If
// the value is in a block, Offset is the block's, and Length is the value's.
type BlockExtent struct {
	Extent
	ValuePlace
}

// Check refuses a value that lies outside its block, and a block or a value that lies outside a container of so many
// bytes.
func (b *BlockExtent) Check(size int64) error {
	length := uint64(b.Length)
	if b.Codec != blocks.None {
		if err := b.BlockPlace.Check(length); err != nil {
			return err
		}
		length = uint64(b.Stored)
	}
	// The numbers are unsigned and compared before they are added, so offset + length cannot wrap around.
	if offset := uint64(b.Offset); offset > uint64(size) || length > uint64(size)-offset {
		return fmt.Errorf("offset %d with %d bytes lies outside the %d bytes", offset, length, size)
	}
	return nil
}

// FieldReader says how the bytes of values that lie in containers are read. Its zero value reads each one by itself:
// nothing ends the wait for a store or caches the bytes, and a block is decoded again for every value in it.
type FieldReader struct {
	// Away fills to with the bytes of a container in a store, from offset on.
	Away func(container *Shard, to []byte, offset int64) error
	// Block fills to with a value that lies in a block. Its place is given like a sample's, with the number of the
	// sample and of the container.
	Block func(to []byte, value Sample) error
	// Unverified says that values are not compared with their checksums.
	Unverified bool
}

// StoredValue returns a field of sample i as an index holds it: an Extent or a BlockExtent if it lies in the container.
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

// InContainers is true for a sample in containers of other formats, where its fields may lie as well.
func (d *Dataset) InContainers(i int64) bool {
	kind := d.Holder(i).kind
	return kind == Scanned || kind == Contained
}

// contained returns the value of a field of a sample in a container.
func (d *Dataset) contained(i int64, name string, read FieldReader) (any, error) {
	stored, err := d.StoredValue(i, name)
	if err != nil {
		return nil, err
	}
	// A value in a block is read like a sample, because that is how the cache of blocks is asked.
	value := Sample{Index: i}
	switch v := stored.(type) {
	case Extent:
		value.Offset, value.Length = v.Offset, v.Length
	case BlockExtent:
		value.Offset, value.Length, value.Block = v.Offset, v.Length, v.BlockPlace
		value.CRC32C, value.HasCRC = v.CRC32C, v.CRC32C != 0 && !read.Unverified
	default:
		return stored, d.checkHeld(i, name, stored)
	}
	s, err := d.Sample(i)
	if err != nil {
		return nil, err
	}
	// This was checked when tables and batches were made, but an index out of range would end the process.
	if int(s.Shard) >= len(d.Shards()) {
		return nil, NewError(fault.KindInternal, d.path, "container %d of %d", s.Shard, len(d.Shards()))
	}
	value.Shard = s.Shard
	data, err := d.readLocated(value, read)
	if err != nil {
		return nil, d.ofField(err, i, name)
	}
	field, _ := d.Field(name)
	bad := func(format string, a ...any) error {
		return &Error{Kind: fault.KindBadFile, File: d.ShardPath(int(s.Shard)), Record: i, Offset: value.Offset, Text: fmt.Sprintf("field %q", name) + fmt.Sprintf(format, a...)}
	}
	switch field.Type {
	case Str:
		if !utf8.Valid(data) {
			return nil, bad(" is not UTF-8")
		}
		return string(data), nil
	case ArrayType:
		a := field.located(data)
		if a.Shape == nil {
			return nil, bad(": %d bytes are no array of %s and shape %v", len(data), field.DType, field.Shape)
		}
		return a, nil
	}
	return data, nil
}

// checkHeld refuses a value in a table that does not fit its field.
func (d *Dataset) checkHeld(i int64, name string, value any) error {
	text := ""
	switch v := value.(type) {
	case string:
		if !utf8.ValidString(v) {
			text = fmt.Sprintf("field %q is not UTF-8", name)
		}
	case Array:
		if v.Shape == nil {
			text = fmt.Sprintf("field %q: %d bytes are no array of %s", name, len(v.Data), v.DType)
		}
	}
	if text == "" {
		return nil
	}
	path, _ := d.Path(i)
	key, _ := d.Key(i) // a held value has no place of its own in the file
	return &Error{Kind: fault.KindBadFile, File: path, Record: i, Key: key, Offset: -1, Text: text}
}

// readLocated reads a value from its container.
func (d *Dataset) readLocated(value Sample, read FieldReader) ([]byte, error) {
	if value.Block.Codec == blocks.None {
		return d.stretch(value.Shard, Extent{value.Offset, value.Length}, read.Away)
	}
	if err := value.Block.Check(uint64(value.Length)); err != nil {
		return nil, &Error{Kind: fault.KindBadFile, File: d.ShardPath(int(value.Shard)), Record: value.Index, Offset: value.Offset, Text: err.Error()}
	}
	if short := headroom.Memory(value.Length); short != nil {
		return nil, short
	}
	data := make([]byte, value.Length)
	if len(data) == 0 { // no block has to be decoded for it
		return data, nil
	}
	block := read.Block
	if block == nil {
		block = d.BlockReader(blocks.NewCache(blocks.Limits{}), read.Away)
	}
	if err := block(data, value); err != nil {
		return nil, err
	}
	if found := crc32.Checksum(data, castagnoli); value.HasCRC && found != value.CRC32C {
		return nil, &Error{Kind: fault.KindChecksum, File: d.ShardPath(int(value.Shard)), Record: value.Index, Offset: value.Offset,
			Text: fault.Differs("the checksum of the value differs", fmt.Sprintf("%08x", value.CRC32C), fmt.Sprintf("%08x", found))}
	}
	return data, nil
}

// BlockReader returns a Block function for a FieldReader that keeps decoded blocks in a cache.
func (d *Dataset) BlockReader(cache *blocks.Cache, away func(container *Shard, to []byte, offset int64) error) func(to []byte, value Sample) error {
	return func(to []byte, value Sample) error {
		err := cache.Copy(to, int64(value.Block.Inner), value.InBlock(), func() ([]byte, error) {
			return d.stretch(value.Shard, Extent{value.Offset, value.Stored()}, away)
		})
		kind, text := fault.KindBadFile, "the block cannot be decoded"
		var malformed *blocks.MalformedError
		var large *blocks.TooLargeError
		switch {
		case errors.As(err, &malformed):
		case errors.As(err, &large):
			kind, text, err = fault.KindLimit, large.Error(), nil
		default:
			return err
		}
		return &Error{Kind: kind, File: d.ShardPath(int(value.Shard)), Record: value.Index, Offset: value.Offset, Text: text, Err: err}
	}
}

// stretch reads bytes of a container, on disk or in a store.
func (d *Dataset) stretch(container uint32, at Extent, away func(container *Shard, to []byte, offset int64) error) ([]byte, error) {
	if shard := d.Shard(int(container)); shard != nil {
		return shard.readExtent(at, away)
	}
	return readExtent(d.ShardPath(int(container)), d.Shards()[container].Size, at)
}

// mostLocated returns the bytes of the longest value of a field.
func (d *Dataset) mostLocated(field string) (int64, error) {
	most := int64(8) // the bytes of a number
	for i := range d.rows {
		stored, err := d.StoredValue(i, field)
		if err != nil {
			return 0, err
		}
		switch v := stored.(type) {
		case Extent:
			most = max(most, v.Length)
		case BlockExtent:
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

// renamed sets which sample an error about a place concerns.
func renamed(err error, record int64) error {
	if e, ok := err.(*Error); ok {
		e.Record = record
	}
	return err
}

// ofField adds to an error which field of which sample it is about.
func (d *Dataset) ofField(err error, record int64, name string) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	own := *e
	// A copy is changed, because several callers may hold the same error of a request.
	own.Record, own.Text = record, fmt.Sprintf("field %q: %s", name, e.Text)
	d.SayIfMoved(&own, record)
	if own.Key == "" {
		own.Key, _ = d.Key(record)
	}
	return &own
}

// SayIfMoved adds what to do to an error about a container that is not where its index says it is.
func (d *Dataset) SayIfMoved(e *Error, record int64) {
	if d.Holder(record).kind == Contained && errors.Is(e.Err, fs.ErrNotExist) {
		e.Text += " (root= takes the folder to which containers were moved)"
	}
}

// readExtent reads a value from a container that must still be as long as it was. Fields are read one by one and
// seldom, so the file is opened for each.
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

// readExtent reads a value of a container in a store.
func (s *Shard) readExtent(at Extent, read func(container *Shard, to []byte, offset int64) error) ([]byte, error) {
	if at.Offset < 0 || at.Length < 0 || at.Offset > s.size-at.Length {
		return nil, &Error{Kind: fault.KindBadFile, File: s.away.shown(s.name), Record: -1, Offset: at.Offset, Text: fmt.Sprintf("a value of %d bytes lies outside the container", at.Length)}
	}
	if short := headroom.Memory(at.Length); short != nil {
		return nil, short
	}
	data := make([]byte, at.Length)
	if read == nil {
		return data, s.ReadAt(context.Background(), data, at.Offset)
	}
	return data, read(s, data, at.Offset)
}
