package catalog

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// column is one column of one record batch as Arrow lays it out: values and, for types of variable length, where each
// begins (rows+1 numbers). In the writer it is filled row by row. In the reader it points into the mapping.
type column struct {
	typ     arrow.DataType
	values  []byte
	offsets []int32
	most    int // the most bytes of values; only in the writer
}

func newColumn(typ arrow.DataType) *column {
	c := &column{typ: typ, most: mostColumnBytes}
	c.reset()
	return c
}

// reset empties the column and keeps its memory for the next batch.
func (c *column) reset() {
	c.values = c.values[:0]
	if hasOffsets(c.typ) {
		c.offsets = append(c.offsets[:0], 0)
	}
}

// hasOffsets says whether rows of a type differ in length.
func hasOffsets(t arrow.DataType) bool {
	return t.ID() == arrow.STRING || t.ID() == arrow.BINARY || t.ID() == arrow.LIST
}

// element returns the type of the values in the values buffer and, for types of fixed size, how many of them a row has.
func element(t arrow.DataType) (arrow.DataType, int) {
	switch t := t.(type) {
	case *arrow.ListType:
		return t.Elem(), 1
	case *arrow.FixedSizeListType:
		return t.Elem(), int(t.Len())
	}
	return t, 1
}

// width returns the bytes of one element; text and bytes count single bytes.
func width(t arrow.DataType) int {
	e, _ := element(t)
	if f, ok := e.(arrow.FixedWidthDataType); ok {
		return f.Bytes()
	}
	return 1
}

// mostColumnBytes bounds a field's column in a record batch: Arrow's offsets have 31 bits, and a batch is held in
// memory until it is full.
const mostColumnBytes = 1 << 30

// errFull says that the batch has no room for a row; the next batch may have.
var errFull = errors.New("the record batch is full")

// room returns an error if another row of so many bytes does not fit.
func (c *column) room(bytes int) error {
	if len(c.values) > 0 && bytes > c.most-len(c.values) {
		return errFull
	}
	return nil
}

// cut removes what was appended after so many rows.
func (c *column) cut(rows int) {
	_, perRow := element(c.typ)
	end := rows * perRow * width(c.typ)
	if c.offsets != nil {
		c.offsets = c.offsets[:rows+1]
		end = int(c.offsets[rows]) * width(c.typ)
	}
	c.values = c.values[:end]
}

// fixed appends a row of a type of fixed size, little-endian.
func (c *column) fixed(row []byte) { c.values = append(c.values, row...) }

// fixedArray appends a row of an array field whose arrays all have one shape.
func (c *column) fixedArray(row []byte) error {
	if err := c.room(len(row)); err != nil {
		return err
	}
	c.fixed(row)
	return nil
}

// variable appends a row of a type with offsets.
func (c *column) variable(row []byte) error {
	if len(row) > c.most {
		return fmt.Errorf("a value of %d bytes (expected at most %d); keep it in a file of its own", len(row), c.most)
	}
	if err := c.room(len(row)); err != nil {
		return err
	}
	c.values = append(c.values, row...)
	c.offsets = append(c.offsets, int32(len(c.values)/width(c.typ)))
	return nil
}

// array hands the column to Arrow without copying.
func (c *column) array(rows int) arrow.Array {
	values := memory.NewBufferBytes(c.values)
	var offsets *memory.Buffer
	if c.offsets != nil {
		offsets = memory.NewBufferBytes(bytesOf(c.offsets))
	}
	data := func(t arrow.DataType, n int, buffers []*memory.Buffer, children ...arrow.ArrayData) *array.Data {
		return array.NewData(t, n, buffers, children, 0, 0)
	}
	child := func() *array.Data {
		e, _ := element(c.typ)
		return data(e, len(c.values)/width(c.typ), []*memory.Buffer{nil, values})
	}
	switch c.typ.ID() {
	case arrow.LIST:
		return array.MakeFromData(data(c.typ, rows, []*memory.Buffer{nil, offsets}, child()))
	case arrow.FIXED_SIZE_LIST:
		return array.MakeFromData(data(c.typ, rows, []*memory.Buffer{nil}, child()))
	case arrow.STRING, arrow.BINARY:
		return array.MakeFromData(data(c.typ, rows, []*memory.Buffer{nil, offsets, values}))
	}
	return array.MakeFromData(data(c.typ, rows, []*memory.Buffer{nil, values}))
}

// readColumn takes the next column of a batch. Nothing is copied: the column points into the body.
func readColumn(r *batchReader, typ arrow.DataType) (*column, error) {
	c := &column{typ: typ}
	e, perRow := element(typ)
	count := r.rows * perRow
	r.node(r.rows)
	r.buffer(0, 1) // validity bits would be here, but there are no nulls
	if hasOffsets(typ) {
		raw := r.buffer(4*(r.rows+1), 4)
		if r.err != nil {
			return nil, r.err
		}
		c.offsets = unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(raw))), r.rows+1)
		if err := ascending(c.offsets); err != nil {
			return nil, err
		}
		count = int(c.offsets[r.rows])
	}
	// The child of a list is an array as well, with its own node and bits ("Variable-size List Layout").
	if e != typ {
		r.node(count)
		r.buffer(0, 1)
	}
	c.values = r.buffer(count*width(typ), width(typ))
	return c, r.err
}

// aligned reports whether words of so many bytes may be read from part in place.
func aligned(part []byte, bytes int) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(part)))%uintptr(bytes) == 0
}

// ascending makes row() safe: offsets that begin at 0 and never fall stay inside the values.
func ascending(offsets []int32) error {
	if offsets[0] != 0 {
		return fmt.Errorf("the first offset is %d, not 0", offsets[0])
	}
	for i := 1; i < len(offsets); i++ {
		if offsets[i] < offsets[i-1] {
			return fmt.Errorf("offset %d is %d, below the one before, %d", i, offsets[i], offsets[i-1])
		}
	}
	return nil
}

// row returns the bytes of row i.
func (c *column) row(i int) []byte {
	if c.offsets != nil {
		w := width(c.typ)
		return c.values[int(c.offsets[i])*w : int(c.offsets[i+1])*w]
	}
	_, perRow := element(c.typ)
	n := perRow * width(c.typ)
	return c.values[i*n : (i+1)*n]
}

// bytesOf and sliceOf turn an array into bytes and back. Arrow's memory is little-endian, and so are the machines on
// which this runs (init checks).
func bytesOf[T any](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

func sliceOf[T any](c *column) []T {
	var zero T
	n := len(c.values) / int(unsafe.Sizeof(zero))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(c.values))), n)
}

func init() {
	one := uint16(1)
	if *(*byte)(unsafe.Pointer(&one)) != 1 || math.MaxInt < math.MaxInt64 {
		panic("only little-endian machines of 64 bits are supported")
	}
}
