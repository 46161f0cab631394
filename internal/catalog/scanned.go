package catalog

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"sync"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
)

// Table is what a scan of containers found: the rows of an index in memory. Nothing was decoded for it.
type Table struct {
	Root   string // the folder where the names of Shards begin
	Source SourceInfo
	Shards []ShardInfo // the containers

	Shard   []uint32
	Offset  []int64
	Length  []uint32
	Label   []int64
	Keys    formats.Names
	Classes []string

	Fields  []Field
	Numbers [][]float64 // for each field of numbers, else nil
	Ints    [][]int64
	Extents [][]Extent       // for each located field, else nil
	Texts   []*formats.Names // for each field whose texts or bytes are held, else nil

	FieldBlocks [][]ValuePlace // for each located field with values in blocks, else nil

	Blocks   []BlockPlace // for containers with compressed parts, else nil
	Raw      []RawSize    // for containers with images that are raw pixels, else nil
	Frames   []Frame      // for containers whose records have checksums, else nil
	Warnings []string     // sentences for the user
}

// SourceInfo says how the samples of containers were found. It is part of an index's manifest.
type SourceInfo struct {
	Format  string         `json:"format"`          // "webdataset", "tar", "tfrecord"
	Image   string         `json:"image"`           // column of the images; alternatives are separated by ";"
	Label   string         `json:"label,omitempty"` // column of the labels
	Columns []SourceColumn `json:"columns,omitempty"`
	Sample  []string       `json:"sample,omitempty"` // names of the first sample's values
	Blocks  bool           `json:"blocks,omitempty"` // the index has columns of blocks
}

// SourceColumn is a column of a container and what became of it.
type SourceColumn struct {
	Name    string `json:"name"`
	Type    string `json:"type,omitempty"` // "int", "float", "str", "bytes", "array of float32", "list" or "mixed"
	Samples int64  `json:"samples"`        // how many samples have it
	Use     string `json:"use"`            // "image", "label", "field", "" for none; inspected also "image?", "label?"
}

// Frame is a record around a sample's image, or the image itself, for which the container has a checksum. For an image
// in a block, it is the decoded image.
type Frame struct {
	Extent
	CRC  uint32
	IEEE bool // zip's CRC-32; otherwise CRC-32C
}

// Checksum computes the frame's checksum of data.
func (f *Frame) Checksum(data []byte) uint32 {
	if f.IEEE {
		return crc32.ChecksumIEEE(data)
	}
	return crc32.Checksum(data, castagnoli)
}

// FromTable makes a dataset of what a scan found. The table belongs to the dataset from now on.
func FromTable(t *Table) (*Dataset, error) {
	rows := len(t.Shard)
	if rows == 0 {
		return nil, NewError(fault.KindEmpty, t.Root, "the containers hold no sample")
	}
	if len(t.Offset) != rows || len(t.Length) != rows || len(t.Label) != rows || t.Keys.Len() != int64(rows) {
		return nil, NewError(fault.KindInternal, t.Root, "the columns of the scan differ in length")
	}
	for n := range t.Fields {
		if t.Fields[n].Blocks && (n >= len(t.FieldBlocks) || len(t.FieldBlocks[n]) != rows || len(t.Extents[n]) != rows) {
			return nil, NewError(fault.KindInternal, t.Root, "field %q lies in blocks that are not there", t.Fields[n].Name)
		}
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

// fingerprint covers names, labels and lengths, because no byte of an image was read.
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

// value returns what the table holds for field n of row i: a number, a text, bytes, an array or an Extent.
func (t *Table) value(i int64, n int) any {
	switch {
	case t.Fields[n].Blocks:
		return BlockExtent{t.Extents[n][i], t.FieldBlocks[n][i]}
	case t.Fields[n].Located:
		return t.Extents[n][i]
	case t.Fields[n].Type == Int:
		return t.Ints[n][i]
	case t.Fields[n].Type == Str:
		return string(t.Texts[n].Bytes(i))
	case t.Fields[n].Type == Bytes:
		return append([]byte{}, t.Texts[n].Bytes(i)...) // never nil, which would mean no value
	case t.Fields[n].Type == ArrayType:
		return t.Fields[n].located(append([]byte{}, t.Texts[n].Bytes(i)...))
	}
	return t.Numbers[n][i]
}

// Source returns how the samples of containers were found; nil for any other dataset.
func (d *Dataset) Source() *SourceInfo {
	switch {
	case d.table != nil:
		return &d.table.Source
	case d.info != nil:
		return d.info.Source
	}
	return nil
}

// Warn adds a warning about a folder of classes that was found before the dataset was opened.
func (d *Dataset) Warn(text string) { d.said = append(d.said, text) }

// Warnings returns what a scan, a list of files or a folder has to tell the user.
func (d *Dataset) Warnings() []string {
	if l := d.listed(); l != nil {
		return l.Warnings
	}
	if d.table == nil {
		return d.said
	}
	return d.table.Warnings
}

// Frame returns the record around sample i, if its container has a checksum of it.
func (d *Dataset) Frame(i int64) (Frame, bool) {
	d, i = d.held(i)
	if d.table == nil || d.table.Frames == nil || uint64(i) >= uint64(d.rows) {
		return Frame{}, false
	}
	return d.table.Frames[i], true
}
