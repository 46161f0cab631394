package formats

import (
	"bytes"
	"encoding/binary"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/flat"
)

// flatBuffer is a FlatBuffer that is written by hand, because no writer lets its parts overlap.
type flatBuffer []byte

// table appends a table with so many fields, each of 8 bytes that are 0.
func (b *flatBuffer) table(fields int) (at int) {
	vtable := len(*b)
	*b = binary.LittleEndian.AppendUint16(*b, uint16(4+2*fields))
	*b = binary.LittleEndian.AppendUint16(*b, uint16(4+8*fields))
	for i := range fields {
		*b = binary.LittleEndian.AppendUint16(*b, uint16(4+8*i))
	}
	at = len(*b)
	*b = binary.LittleEndian.AppendUint32(*b, uint32(at-vtable))
	*b = append(*b, make([]byte, 8*fields)...)
	return at
}

// vector appends a vector of count elements. Its bytes are data, and zeros after it.
func (b *flatBuffer) vector(count, size int, data string) (at int) {
	at = len(*b)
	*b = binary.LittleEndian.AppendUint32(*b, uint32(count))
	*b = append(append(*b, data...), make([]byte, count*size-len(data))...)
	return at
}

func (b flatBuffer) put(at, value int) { binary.LittleEndian.PutUint32(b[at:], uint32(value)) }

func (b flatBuffer) set(table, field, value int) { b.put(table+4+8*field, value) }

func (b flatBuffer) point(table, field, to int) { b.set(table, field, to-(table+4+8*field)) }

// repeat makes all elements of a vector one table.
func (b flatBuffer) repeat(vector, table int) {
	for place := vector + 4; place < vector+4+4*int(binary.LittleEndian.Uint32(b[vector:])); place += 4 {
		b.put(place, table-place)
	}
}

// arrowFile has one record batch without rows, with padding in its metadata. The footer names it as often as batches
// says. The schema names one field, and one pair of texts, as often as fields and pairs say.
func arrowFile(fields int, name string, pairs int, value string, padding, batches int) []byte {
	message := flatBuffer{4, 0, 0, 0}
	message[0] = byte(message.table(4))
	root := int(message[0])
	message.set(root, flat.MessageHeaderType, flat.HeaderRecordBatch)
	batch := message.table(3)
	message.point(root, flat.MessageHeader, batch)
	message.point(batch, flat.BatchNodes, message.vector(fields, 16, ""))
	message.point(batch, flat.BatchBuffers, message.vector(2*fields, 16, ""))
	message = append(message, make([]byte, padding)...)

	footer := flatBuffer{0, 0, 0, 0}
	top := footer.table(4)
	footer.put(0, top)
	schema := footer.table(3)
	footer.point(top, flat.FooterSchema, schema)
	list := footer.vector(fields, 4, "")
	footer.point(schema, flat.SchemaFields, list)
	field := footer.table(4)
	footer.repeat(list, field)
	footer.set(field, flat.FieldTypeType, flat.TypeInt)
	typ := footer.table(2)
	footer.point(field, flat.FieldType, typ)
	footer.set(typ, 0, 32)
	footer.point(field, flat.FieldName, footer.vector(len(name), 1, name))
	list = footer.vector(pairs, 4, "")
	footer.point(schema, flat.SchemaMetadata, list)
	pair := footer.table(2)
	footer.repeat(list, pair)
	footer.point(pair, flat.KeyValueValue, footer.vector(len(value), 1, value))
	var places []byte
	for range batches {
		places = append(binary.LittleEndian.AppendUint64(places, 8), make([]byte, 16)...)
	}
	footer.point(top, flat.FooterBatches, footer.vector(batches, 24, string(places)))

	file := append([]byte(arrowMagic), 0, 0, 0xff, 0xff, 0xff, 0xff)
	file = append(binary.LittleEndian.AppendUint32(file, uint32(len(message))), message...)
	file = append(file, footer...)
	return append(binary.LittleEndian.AppendUint32(file, uint32(len(footer))), arrowMagic...)
}

// rowsOfArrow reads all rows of a file.
func rowsOfArrow(file []byte) (a *Arrow, rows int, err error) {
	if a, err = NewArrow(bytes.NewReader(file), int64(len(file)), blocks.MostBytes); err != nil {
		return nil, 0, err
	}
	values := make([]Value, len(a.Leaves))
	for {
		if _, err = a.Next(values); err != nil {
			return a, rows, err
		}
		rows++
	}
}

// allocated is how many bytes a call allocates.
func allocated(call func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestOverlappingTextsOfAnArrowSchemaAreRefusedInLittleMemory(t *testing.T) {
	a, _, err := rowsOfArrow(arrowFile(1, "image", 1, "{}", 0, 1))
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, []string{"image"}, a.Leaves[0].Path)
	require.Equal(t, map[string]string{"": "{}"}, a.Metadata)
	a, _, err = rowsOfArrow(arrowFile(1, strings.Repeat("n", MaxNameBytes), 1, "{}", 0, 1))
	require.ErrorIs(t, err, io.EOF)
	require.Len(t, a.Leaves[0].Path[0], MaxNameBytes)

	long := strings.Repeat("n", 1<<20)
	file := arrowFile(300, long, 0, "", 0, 1)
	require.Less(t, allocated(func() { _, _, err = rowsOfArrow(file) }), uint64(4*len(file)))
	require.ErrorIs(t, err, ErrLimit)
	require.ErrorContains(t, err, "a column's name of 1048576 bytes (expected at most 4096)")

	file = arrowFile(1, "image", 300, long, 0, 1)
	require.Less(t, allocated(func() { _, _, err = rowsOfArrow(file) }), uint64(4*len(file)))
	require.ErrorIs(t, err, ErrBad)
	require.ErrorContains(t, err, "texts of the schema's metadata that overlap")
}

func TestARecordBatchThatAnArrowFooterNamesTwiceIsAnErrorWithItsOffset(t *testing.T) {
	_, rows, err := rowsOfArrow(arrowFile(1, "image", 0, "", 10_000, 1))
	require.ErrorIs(t, err, io.EOF)
	require.Zero(t, rows)
	file := arrowFile(1, "image", 0, "", 10_000, 1000)
	_, _, err = rowsOfArrow(file)
	require.ErrorIs(t, err, ErrBad)
	var place *WalkError
	require.ErrorAs(t, err, &place)
	require.Equal(t, int64(8), place.Offset)
	require.ErrorContains(t, err, "record batches that overlap")
}
