package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync"
	"unicode/utf8"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/internal/remote"
	"github.com/headrace/headrace/mmap"
)

// Table is what a scan of containers found: the rows of an index in memory, of which nothing was decoded.
type Table struct {
	Root   string // the folder that the names of Shards are below
	Source SourceInfo
	Shards []ShardInfo // the containers

	Shard   []uint32
	Offset  []int64
	Length  []uint32
	Label   []int64
	Keys    formats.Names
	Classes []string

	Fields  []Field
	Numbers [][]float64 // of each field of numbers, else nil
	Ints    [][]int64
	Places  [][]Place        // of each located field, else nil
	Texts   []*formats.Names // of each field whose texts or bytes are held, else nil

	Blocks   []BlockPlace // of containers that are compressed in places, else nil
	Raw      []RawSize    // of containers with images that are pixels, else nil
	Frames   []Frame      // of containers whose records have checksums, else nil
	Warnings []string     // sentences for the user
}

// SourceInfo says how the samples of containers were found. It stands in the manifest of an index.
type SourceInfo struct {
	Format  string         `json:"format"`          // "webdataset", "tar", "tfrecord"
	Image   string         `json:"image"`           // column of the images; alternatives are separated by ";"
	Label   string         `json:"label,omitempty"` // column of the labels
	Columns []SourceColumn `json:"columns,omitempty"`
	Sample  []string       `json:"sample,omitempty"` // names of what the first sample has
	Blocks  bool           `json:"blocks,omitempty"` // the index has columns of blocks
}

// SourceColumn is a column of a container and what became of it.
type SourceColumn struct {
	Name    string `json:"name"`
	Type    string `json:"type,omitempty"` // "int", "float", "str", "bytes", "array of float32", "list" or "mixed"
	Samples int64  `json:"samples"`        // that have it
	Use     string `json:"use"`            // "image", "label", "field" or "" for none; of a source that was only inspected "image?" and "label?" for what may be either
}

// Place is where a value lies in its sample's container, which is what an index has of a located field.
type Place struct{ Offset, Length int64 }

// Frame is a record around a sample's image, or the image itself, that the container has a checksum of. Of an
// image in a block that is the image once it is decoded.
type Frame struct {
	Place
	CRC  uint32
	IEEE bool // zip's CRC-32; else CRC-32C
}

// Checksum is that of the frame's bytes.
func (f *Frame) Checksum(data []byte) uint32 {
	if f.IEEE {
		return crc32.ChecksumIEEE(data)
	}
	return crc32.Checksum(data, castagnoli)
}

// FromTable makes a dataset of what a scan found. The table is the dataset's from now on.
func FromTable(t *Table) (*Dataset, error) {
	rows := len(t.Shard)
	if rows == 0 {
		return nil, NewError(fault.KindEmpty, t.Root, "the containers hold no sample")
	}
	if len(t.Offset) != rows || len(t.Length) != rows || len(t.Label) != rows || t.Keys.Len() != int64(rows) {
		return nil, NewError(fault.KindInternal, t.Root, "the columns of the scan differ in length")
	}
	if err := CheckFields(t.Fields); err != nil {
		return nil, NewError(fault.KindUnsupported, t.Root, "%v; fields= chooses some of them", err)
	}
	d := &Dataset{path: t.Root, kind: Scanned, rows: int64(rows), table: t, classes: t.Classes}
	d.fingerprint = sync.OnceValue(t.fingerprint)
	d.refs.Store(1)
	return d, nil
}

func (t *Table) sample(i int64) Sample {
	s := Sample{Index: i, Shard: t.Shard[i], Offset: t.Offset[i], Length: int64(t.Length[i]), Label: t.Label[i]}
	if t.Blocks != nil {
		s.Block = t.Blocks[i]
	}
	if t.Raw != nil && t.Raw[i] != (RawSize{}) {
		s.MakeRaw(t.Raw[i])
	}
	return s
}

// fingerprint covers names, labels and lengths, for no byte of an image was read.
func (t *Table) fingerprint() string {
	h := sha256.New()
	var b []byte
	for i := range t.Shard {
		key := t.Keys.Bytes(int64(i))
		b = binary.LittleEndian.AppendUint64(b[:0], uint64(len(key)))
		b = append(b, key...)
		b = binary.LittleEndian.AppendUint64(b, uint64(t.Label[i]))
		b = binary.LittleEndian.AppendUint32(b, t.Length[i])
		h.Write(b)
	}
	return "scanned-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// value is what the table holds of field n of row i: a number, a text, bytes, an array or a Place.
func (t *Table) value(i int64, n int) any {
	switch {
	case t.Fields[n].Located:
		return t.Places[n][i]
	case t.Fields[n].Type == Int:
		return t.Ints[n][i]
	case t.Fields[n].Type == Str:
		return string(t.Texts[n].Bytes(i))
	case t.Fields[n].Type == Bytes:
		return bytes.Clone(t.Texts[n].Bytes(i))
	case t.Fields[n].Type == ArrayType:
		return t.Fields[n].located(bytes.Clone(t.Texts[n].Bytes(i)))
	}
	return t.Numbers[n][i]
}

// Source says how the samples of containers were found; nil for any other dataset.
func (d *Dataset) Source() *SourceInfo {
	switch {
	case d.table != nil:
		return &d.table.Source
	case d.info != nil:
		return d.info.Source
	}
	return nil
}

// Warnings are what a scan has to say to the user.
func (d *Dataset) Warnings() []string {
	if d.table == nil {
		return nil
	}
	return d.table.Warnings
}

// Frame is the record around sample i, where its container has a checksum of that.
func (d *Dataset) Frame(i int64) (Frame, bool) {
	if d.table == nil || d.table.Frames == nil || uint64(i) >= uint64(d.rows) {
		return Frame{}, false
	}
	return d.table.Frames[i], true
}

// StoredValue is a field of sample i as an index holds it: a Place for what lies in the container.
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
func (d *Dataset) contained(i int64, name string) (any, error) {
	stored, err := d.StoredValue(i, name)
	if err != nil {
		return nil, err
	}
	at, ok := stored.(Place)
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
		data, err = shard.readPlace(at)
	} else {
		data, err = readPlace(d.ShardPath(int(s.Shard)), d.Shards()[s.Shard].Size, at)
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
		case Place:
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

// readPlace reads a value out of a container that must be as long as it was. Fields are read one by one
// and seldom, so the file is opened for each.
func readPlace(path string, size int64, at Place) ([]byte, error) {
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

// endBytes of its beginning and of its end stand for a container whose time has changed. They hold what
// LMDB writes with every transaction: two pages.
const endBytes = 64 << 10

// EndsOf is the checksum of a container's first and last bytes, by which a copy or a touched file is told
// from another one of the same size.
func EndsOf(r io.ReaderAt, size int64) (uint32, error) {
	b := make([]byte, min(size, endBytes))
	crc := uint32(0)
	for _, at := range []int64{0, size - int64(len(b))} {
		if _, err := r.ReadAt(b, at); err != nil {
			return 0, err
		}
		crc = crc32.Update(crc, castagnoli, b)
	}
	return crc, nil
}

// ShardOf describes an open container.
func ShardOf(name string, f *os.File) (ShardInfo, error) {
	info, err := f.Stat()
	if err != nil {
		return ShardInfo{}, err
	}
	shard := ShardInfo{Name: name, Size: info.Size(), MTimeNs: info.ModTime().UnixNano()}
	ends, err := EndsOf(f, shard.Size)
	if err != nil {
		return shard, err
	}
	shard.Ends = hexCRC(ends)
	shard.Txn, err = formats.LMDBTransaction(f, shard.Size)
	return shard, err
}

// Check accepts a container of another time than it was indexed at if its ends are the same. An LMDB whose last
// transaction is another one is refused whatever its time: its pages may have been used again.
func (s *ShardInfo) Check(path string, record int64) error {
	f, err := mmap.OpenRegular(path)
	if err != nil {
		return IOError(path, "cannot open the container", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return IOError(path, "cannot look at the container", err)
	}
	if s.Txn != 0 {
		txn, err := formats.LMDBTransaction(f, info.Size())
		if err != nil {
			return IOError(path, "cannot read the container", err)
		}
		if txn != s.Txn {
			return &Error{Kind: fault.KindBadFile, File: path, Record: record, Offset: -1,
				Text: fault.Differs("the LMDB was written to since it was indexed, its last transaction is another", s.Txn, txn)}
		}
	}
	if info.ModTime().UnixNano() == s.MTimeNs {
		return nil
	}
	found, err := ShardOf(s.Name, f)
	if err != nil {
		return IOError(path, "cannot read the container", err)
	}
	if found.Ends != s.Ends || found.Size != s.Size {
		return &Error{Kind: fault.KindChecksum, File: path, Record: record, Offset: -1, Text: fault.Differs(
			"the container has another time than when it was indexed, and its first and last bytes have another checksum", s.Ends, found.Ends)}
	}
	return nil
}

// ContainersBelow is where the names of containers begin, for a manifest that lies in dir.
func (m *Manifest) ContainersBelow(dir string) string {
	root := filepath.FromSlash(string(m.Root))
	if filepath.IsAbs(root) || remote.IsURL(root) {
		return root
	}
	return filepath.Join(dir, root)
}

// CommonRoot is the folder that all files lie below, and their names there with slashes.
func CommonRoot(files []string) (root string, names []string) {
	root = filepath.Dir(files[0])
	for _, file := range files[1:] {
		for !isBelow(root, file) {
			up := filepath.Dir(root)
			if up == root {
				break
			}
			root = up
		}
	}
	for _, file := range files {
		name, err := filepath.Rel(root, file)
		if err != nil {
			name = file
		}
		names = append(names, filepath.ToSlash(name))
	}
	return root, names
}

func isBelow(root, file string) bool {
	name, err := filepath.Rel(root, file)
	return err == nil && filepath.IsLocal(name)
}
