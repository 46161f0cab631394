package catalog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/headrace/headrace/internal/fault"
)

// Row is one sample that is written into an index.
type Row struct {
	Sample
	Key    string
	Path   string // for indexed folders: below the folder
	Fields []any  // in the order of the writer's fields
}

// Writer writes an index row by row, and holds one record batch in memory. The maker of its file decides where and when
// the file becomes visible.
type Writer struct {
	path    string // shown in texts
	kind    Kind
	blocks  bool
	pixels  bool // whether a row needs a reader of version inBlocksReader
	fields  []Field
	file    Made
	out     *countingWriter
	arrow   *ipc.FileWriter
	schema  *arrow.Schema
	columns []*column
	rows    int // in columns
	head    int64
	info    IndexFile
	total   int64
	content *Content
}

// NewWriter begins an index at path, which must not exist.
func NewWriter(path string, kind Kind, fields []Field) (*Writer, error) {
	return NewWriterInBlocks(path, kind, false, fields)
}

// NewWriterInBlocks begins an index of containers that may have compressed parts.
func NewWriterInBlocks(path string, kind Kind, blocks bool, fields []Field) (*Writer, error) {
	if err := CheckFields(fields); err != nil {
		return nil, NewError(fault.KindArgument, "", "%v", err)
	}
	file, err := Create(path)
	if err != nil {
		return nil, IOError(path, "cannot create the index", err)
	}
	return NewWriterTo(file, kind, blocks, fields)
}

// NewWriterTo begins an index in a file that was made for it. The file belongs to the writer from now on, even after an
// error.
func NewWriterTo(file Made, kind Kind, blocks bool, fields []Field) (*Writer, error) {
	w, err := newWriter(file, kind, blocks, fields)
	if err != nil {
		file.Abandon()
		return nil, err
	}
	return w, nil
}

func newWriter(file Made, kind Kind, blocks bool, fields []Field) (*Writer, error) {
	if err := CheckFields(fields); err != nil {
		return nil, NewError(fault.KindArgument, "", "%v", err)
	}
	path := file.Name()
	w := &Writer{path: path, file: file, kind: kind, blocks: blocks, fields: fields, schema: schemaOf(kind, blocks, fields), content: NewContent(fields)}
	var err error
	if w.head, err = headBytes(w.schema); err != nil {
		return nil, NewError(fault.KindInternal, path, "%v", err)
	}
	for _, f := range columnsOf(kind, blocks, fields) {
		w.columns = append(w.columns, newColumn(f.Type))
	}
	w.out = &countingWriter{to: bufio.NewWriterSize(w.file, 1<<20), boundary: w.head}
	w.arrow, err = ipc.NewFileWriter(w.out, ipc.WithSchema(w.schema))
	if err != nil {
		return nil, NewError(fault.KindInternal, path, "%v", err)
	}
	return w, nil
}

// headBytes returns how many bytes come before the first record batch. Arrow's writer emits the schema with the first
// batch and does not state their lengths, so a file without batches is written to find out.
func headBytes(schema *arrow.Schema) (int64, error) {
	var b bytes.Buffer
	w, err := ipc.NewFileWriter(&b, ipc.WithSchema(schema))
	if err == nil {
		err = w.Close()
	}
	if err != nil || b.Len() < 10 {
		return 0, fmt.Errorf("the schema cannot be written: %v", err)
	}
	const endOfStream, sizeAndMagic = 8, 4 + 6
	footer := binary.LittleEndian.Uint32(b.Bytes()[b.Len()-sizeAndMagic:])
	return int64(b.Len()) - sizeAndMagic - int64(footer) - endOfStream, nil
}

// Len is the number of rows so far.
func (w *Writer) Len() int64 { return w.total }

// Append adds a row. After an error only Abort may be called.
func (w *Writer) Append(r *Row) error {
	err := w.encode(r)
	if errors.Is(err, errFull) && w.rows > 0 {
		for _, c := range w.columns {
			c.cut(w.rows)
		}
		if err := w.flush(); err != nil {
			return err
		}
		err = w.encode(r)
	}
	if err != nil {
		return &Error{Kind: fault.KindArgument, File: r.Key, Record: w.total, Offset: -1, Text: err.Error()}
	}
	w.content.Add(r)
	w.pixels = w.pixels || w.kind == Contained && r.newlyRaw()
	w.total++
	if w.rows++; w.rows == RowsPerBatch {
		return w.flush()
	}
	return nil
}

// encode appends one row to the columns, in the order of columnsOf.
func (w *Writer) encode(r *Row) error {
	// This is the column's width; a larger image exceeds every record limit.
	if r.Length < 0 || r.Length > math.MaxUint32 {
		return fmt.Errorf("the image has %d bytes (expected at most %d)", r.Length, uint32(math.MaxUint32))
	}
	if r.Seek.Length < 0 || r.Seek.Length > math.MaxUint32 {
		return fmt.Errorf("the seek points have %d bytes (expected at most %d)", r.Seek.Length, uint32(math.MaxUint32))
	}
	if err := checkName("key", []byte(r.Key)); err != nil {
		return err
	}
	if len(r.Fields) != len(w.fields) {
		return fmt.Errorf("the sample has %d fields (expected %d)", len(r.Fields), len(w.fields))
	}
	c := w.columns
	u32 := func(i int, v uint32) { c[i].values = binary.LittleEndian.AppendUint32(c[i].values, v) }
	u64 := func(i int, v uint64) { c[i].values = binary.LittleEndian.AppendUint64(c[i].values, v) }
	u32(0, r.Shard)
	u64(1, uint64(r.Offset))
	u32(2, uint32(r.Length))
	for i, v := range [...]uint8{r.Codec, r.Sampling, r.Process, r.Channels, r.Orientation, uint8(r.Verdict)} {
		c[3+i].values = append(c[3+i].values, v)
	}
	u32(9, r.Width)
	u32(10, r.Height)
	u32(11, r.CRC32C)
	u64(12, uint64(r.Seek.Offset))
	u32(13, uint32(r.Seek.Length))
	u32(14, r.Seek.CRC32C)
	u64(15, uint64(r.Label))
	if err := c[16].variable([]byte(r.Key)); err != nil {
		return err
	}
	next := 17
	if w.kind == Indexed {
		if err := checkName("path", []byte(r.Path)); err != nil {
			return err
		}
		if err := c[17].variable([]byte(r.Path)); err != nil {
			return err
		}
		u64(18, uint64(r.MTimeNs))
		next = 19
	}
	if w.blocks {
		u32(next, r.Block.Stored)
		u32(next+1, r.Block.Size)
		u32(next+2, r.Block.Inner)
		c[next+3].values = append(c[next+3].values, r.Block.Codec)
		next += len(blockColumns)
	} else if r.Block.Codec != 0 {
		return fmt.Errorf("the sample lies in a block, and the index has no columns for that")
	}
	for i := range w.fields {
		if err := w.fields[i].encode(r.Fields[i], c[next:]); err != nil {
			return err
		}
		next += len(w.fields[i].arrowFields())
	}
	return nil
}

// flush writes the rows held so far as one record batch.
func (w *Writer) flush() error {
	arrays := make([]arrow.Array, len(w.columns))
	for i, c := range w.columns {
		arrays[i] = c.array(w.rows)
	}
	// The first batch is written in one call with the schema, and begins behind it.
	begin := max(w.out.n, w.head)
	if err := w.arrow.Write(array.NewRecordBatch(w.schema, arrays, int64(w.rows))); err != nil {
		return IOError(w.path, "cannot write the index", err)
	}
	w.info.Batches = append(w.info.Batches, BatchInfo{Offset: begin, Length: w.out.n - begin, CRC32C: hexCRC(w.out.take()), Rows: int64(w.rows)})
	for _, c := range w.columns {
		c.reset()
	}
	w.rows = 0
	return nil
}

// Finish writes what is left, commits the file and returns a manifest in which shards and classes still have to be
// filled in. After an error only Abort may be called.
func (w *Writer) Finish() (*Manifest, error) {
	if w.total == 0 {
		return nil, NewError(fault.KindEmpty, "", "no sample was added")
	}
	if w.rows > 0 {
		if err := w.flush(); err != nil {
			return nil, err
		}
	}
	err := w.arrow.Close()
	if err == nil {
		err = w.out.to.Flush()
	}
	if err == nil {
		err = w.file.Commit()
	}
	if err != nil {
		return nil, IOError(w.path, "cannot write the index", err)
	}
	w.info.Size, w.info.Head, w.info.Tail = w.out.n, hexCRC(w.out.headCRC), hexCRC(w.out.take())
	// This is the oldest reader that understands the index: an older Headrace opens whatever it can.
	version, reader := formatVersion, 1
	if w.kind == Contained {
		version, reader = containedVersion, containedReader
	}
	if w.blocks {
		version, reader = blocksVersion, blocksReader
	}
	if w.pixels || slices.ContainsFunc(w.fields, func(f Field) bool { return f.Blocks }) {
		version, reader = inBlocksVersion, inBlocksReader
	}
	if w.equalBatches() {
		for i := range w.info.Batches {
			w.info.Batches[i].Rows = 0
		}
	} else {
		version, reader = shortVersion, shortReader
	}
	return &Manifest{
		Format: formatName, Version: version, MinReader: reader, CreatedBy: CreatedBy,
		Kind: w.kind.String(), Rows: w.total, Bytes: w.content.Bytes(), Fingerprint: w.content.Fingerprint(), Counts: w.content.Counts(),
		Fields: w.fields, RowsPerBatch: RowsPerBatch, Index: w.info,
	}, nil
}

// equalBatches is true if all record batches except the last have RowsPerBatch rows. Then the manifest need not state
// their rows.
func (w *Writer) equalBatches() bool {
	all := w.info.Batches
	return !slices.ContainsFunc(all[:len(all)-1], func(b BatchInfo) bool { return b.Rows != RowsPerBatch })
}

// Abort closes and removes the file.
func (w *Writer) Abort() { w.file.Abandon() }

// countingWriter counts and checksums what Arrow writes. The bytes before boundary have their own checksum; Arrow
// writes them in one call with the first batch.
type countingWriter struct {
	to       *bufio.Writer
	n        int64
	boundary int64
	headCRC  uint32
	crc      uint32
}

var _ io.Writer = (*countingWriter)(nil)

func (c *countingWriter) Write(p []byte) (int, error) {
	// Arrow writes the schema and the first batch in one call, so a write may cross the boundary.
	rest := p
	if head := c.boundary - c.n; head > 0 {
		head = min(head, int64(len(p)))
		c.headCRC = crc32.Update(c.headCRC, castagnoli, p[:head])
		rest = p[head:]
	}
	c.crc = crc32.Update(c.crc, castagnoli, rest)
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}

// take returns the checksum of what was written since its last call.
func (c *countingWriter) take() uint32 {
	crc := c.crc
	c.crc = 0
	return crc
}
