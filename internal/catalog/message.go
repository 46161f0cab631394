package catalog

import (
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/headrace/headrace/internal/flat"
)

var (
	arrowMagic     = []byte("ARROW1")
	continuation   = []byte{0xff, 0xff, 0xff, 0xff}
	messagePreface = 8 // continuation and length
)

// splitMessage divides an encapsulated message into metadata and body.
func splitMessage(data []byte) (metadata flat.Table, body []byte, err error) {
	if len(data) < messagePreface || string(data[:4]) != string(continuation) {
		return flat.Table{}, nil, fmt.Errorf("no Arrow message stands there")
	}
	// The comparison is unsigned, so that a length of 2^31 or more does not turn negative.
	n := uint64(binary.LittleEndian.Uint32(data[4:]))
	if n%8 != 0 || n > uint64(len(data)-messagePreface) {
		return flat.Table{}, nil, fmt.Errorf("metadata of %d bytes in a message of %d", n, len(data))
	}
	end := uint64(messagePreface) + n
	return flat.Root(data[messagePreface:end]), data[end:], nil
}

// checkSchema compares the schema at the head of the file with the expected columns. These come first and in this
// order. Columns behind them belong to a later version.
func checkSchema(head []byte, want []arrow.Field) error {
	if len(head) < 8 || string(head[:6]) != string(arrowMagic) {
		return fmt.Errorf("the file does not begin with %q", arrowMagic)
	}
	message, _, err := splitMessage(head[8:])
	if err != nil {
		return err
	}
	schema := message.Table(flat.MessageHeader)
	if message.U8(flat.MessageHeaderType) != flat.HeaderSchema || !schema.Present() {
		return fmt.Errorf("the first message is no schema")
	}
	if schema.U16(flat.SchemaEndianness) != 0 {
		return fmt.Errorf("the file is big-endian")
	}
	found := schema.Tables(flat.SchemaFields, func(i int, f flat.Table) {
		if err != nil || i >= len(want) {
			return
		}
		if name := f.Text(flat.FieldName); name != want[i].Name {
			err = fmt.Errorf("column %d is %.80q (expected %q)", i, name, want[i].Name)
		} else if !isType(f, want[i].Type) {
			err = fmt.Errorf("column %q is not of type %s", name, want[i].Type)
		}
	})
	if err == nil && found < len(want) {
		err = fmt.Errorf("there are %d columns (expected at least %d)", found, len(want))
	}
	return err
}

// isType compares a field of a schema with a type. It knows only the types that an index uses.
func isType(f flat.Table, want arrow.DataType) bool {
	detail := f.Table(flat.FieldType)
	if f.Field(flat.FieldDictionary) != 0 {
		return false
	}
	kind := f.U8(flat.FieldTypeType)
	switch want := want.(type) {
	case *arrow.StringType:
		return kind == flat.TypeUtf8
	case *arrow.BinaryType:
		return kind == flat.TypeBinary
	case *arrow.ListType:
		return kind == flat.TypeList && isChild(f, want.Elem())
	case *arrow.FixedSizeListType:
		return kind == flat.TypeFixedSizeList && int32(detail.U32(0)) == want.Len() && isChild(f, want.Elem())
	case *arrow.Float16Type:
		return kind == flat.TypeFloat && detail.U16(0) == 0
	case *arrow.Float32Type:
		return kind == flat.TypeFloat && detail.U16(0) == 1
	case *arrow.Float64Type:
		return kind == flat.TypeFloat && detail.U16(0) == 2
	case arrow.FixedWidthDataType:
		signed := want.ID() == arrow.INT8 || want.ID() == arrow.INT16 || want.ID() == arrow.INT32 || want.ID() == arrow.INT64
		return kind == flat.TypeInt && int(detail.U32(0)) == want.BitWidth() && (detail.U8(1) != 0) == signed
	}
	return false
}

// isChild compares the only child of a list with a type.
func isChild(f flat.Table, want arrow.DataType) bool {
	ok := false
	n := f.Tables(flat.FieldChildren, func(_ int, child flat.Table) { ok = isType(child, want) })
	return n == 1 && ok
}

// batchReader takes the columns of a record batch one by one. Arrow lists the lengths of all arrays (nodes) and the
// places of all buffers depth first.
type batchReader struct {
	rows           int
	nodes, buffers []byte // 16 bytes each: length and null count; offset and length
	body           []byte
	err            error
}

// openBatch reads the metadata of a record batch.
func openBatch(data []byte) (*batchReader, error) {
	message, body, err := splitMessage(data)
	if err != nil {
		return nil, err
	}
	batch := message.Table(flat.MessageHeader)
	if message.U8(flat.MessageHeaderType) != flat.HeaderRecordBatch || !batch.Present() {
		return nil, fmt.Errorf("the message is no record batch")
	}
	// The length of a batch in the manifest must be the message's own. Otherwise something is hidden behind it.
	if message.I64(flat.MessageBodyLength) != int64(len(body)) {
		return nil, fmt.Errorf("a body of %d bytes, %d are there", message.I64(flat.MessageBodyLength), len(body))
	}
	if batch.Field(flat.BatchCompression) != 0 {
		return nil, fmt.Errorf("it is compressed; an index is not")
	}
	r := &batchReader{body: body}
	length := batch.I64(flat.BatchLength)
	if length < 1 || length > RowsPerBatch {
		return nil, fmt.Errorf("it has %d rows (expected 1 to %d)", length, RowsPerBatch)
	}
	r.rows = int(length)
	r.nodes, _, _ = batch.Vector(flat.BatchNodes, 16)
	r.buffers, _, _ = batch.Vector(flat.BatchBuffers, 16)
	return r, nil
}

// node checks the next array: it must have so many entries, and none of them may be null.
func (r *batchReader) node(entries int) {
	if len(r.nodes) < 16 {
		r.fail("the description of an array is missing")
		return
	}
	n, nulls := flat.I64(r.nodes, 0), flat.I64(r.nodes, 8)
	r.nodes = r.nodes[16:]
	if n != int64(entries) || nulls != 0 {
		r.fail("%d entries and %d nulls (expected %d entries without nulls)", n, nulls, entries)
	}
}

// buffer returns the next buffer, which must have at least need bytes and begin at a multiple of align.
func (r *batchReader) buffer(need, align int) []byte {
	if len(r.buffers) < 16 {
		r.fail("the description of a buffer is missing")
		return nil
	}
	offset, length := uint64(flat.I64(r.buffers, 0)), uint64(flat.I64(r.buffers, 8))
	r.buffers = r.buffers[16:]
	switch {
	// The buffer of an array without bytes may lie anywhere, because nothing of it is read.
	case need == 0:
		return nil
	case offset > uint64(len(r.body)) || length > uint64(len(r.body))-offset || length < uint64(need):
		r.fail("a buffer at %d of %d bytes in a body of %d, %d bytes are needed", offset, length, len(r.body), need)
		return nil
	// The words are read in place. arrow-go aligns them to 8 bytes in the file, and a mapping begins at a page.
	case !aligned(r.body[offset:], align):
		r.fail("a buffer at %d is not aligned to %d bytes", offset, align)
		return nil
	}
	return r.body[offset : offset+uint64(need) : offset+uint64(need)]
}

// fail keeps the first error, because later ones only follow from it.
func (r *batchReader) fail(format string, a ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, a...)
	}
}
