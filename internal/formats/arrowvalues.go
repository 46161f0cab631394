package formats

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow-go/v18/arrow/float16"
)

// This file finds the values of a record batch ("Physical Memory Layout" in Arrow's Columnar.html): their places, by
// offsets and views, and the numbers themselves.

// arrowChunk has some rows of a leaf.
type arrowChunk struct {
	field  *arrowField
	valid  [][]byte // bits of the leaf and of the structs around it
	raw    []byte   // numbers, or the offsets of values
	body   int64    // of the batch
	batch  *arrowBatch
	values arrowBuffer
	views  []arrowBuffer // the buffers that views refer to
	data   []byte        // the values from byte first on, if they are asked for
	first  int64
	gaps   arrowBuffer // for lists with a null inside: the bits of all numbers
}

// value returns the value in a row of the chunk.
func (c *arrowChunk) value(r io.ReaderAt, row int, leaf *Leaf) (v Value, err error) {
	for _, bits := range c.valid {
		// A value in a struct that is null is null, whatever its own bits say ("Struct Layout").
		if bits != nil && bits[row>>3]>>(row&7)&1 == 0 {
			return Value{Null: true}, nil
		}
	}
	f := c.field
	if f.dictionary != nil {
		return f.dictionary.value(c, row, leaf, r)
	}
	if leaf.Kind == IntLeaf || leaf.Kind == FloatLeaf {
		f.number(&v, c.raw, row)
		return v, nil
	}
	in := c.values
	from, to := c.first+int64(row)*int64(f.width), c.first+int64(row+1)*int64(f.width)
	switch {
	case f.element > 0:
		from, to = c.list(row)
	case f.offsets > 0:
		from, to = f.offset(c.raw, row), f.offset(c.raw, row+1)
	case f.views:
		if in, from, to, err = c.view(row); err != nil {
			return v, fmt.Errorf("%w (in the column %.80q)", err, leaf.Path[0])
		}
	}
	// Offsets are hostile as well: they may decrease, be negative, or lead out of the buffer.
	if from < 0 || to < from || to > in.size {
		return v, fmt.Errorf("%w: the column %.80q: a value from byte %d to %d of %d", ErrBad, leaf.Path[0], from, to, in.size)
	}
	// NumPy's arrays have no null, so a list with a null is no array.
	if c.gaps.size > 0 {
		if null, err := c.hasNull(r, from/int64(f.element), to/int64(f.element)); null || err != nil {
			return Value{Null: true, Gaps: null}, err
		}
	}
	if v.Block = in.block(c.body); v.Block != nil {
		v.Offset, v.Length = from, to-from
		// The block is decoded, so its bytes are in memory and cost nothing.
		v.Data, err = c.batch.stretch(r, in, from, to-from)
		return v, err
	}
	v.Offset, v.Length = c.body+in.offset+from, to-from
	switch {
	case !leaf.Want || v.Length > maxShortValue:
	case f.offsets > 0 && from >= c.first && to-c.first <= int64(len(c.data)):
		v.Data = c.data[from-c.first : to-c.first]
	default:
		v.Data = make([]byte, v.Length)
		err = readAt(r, v.Data, v.Offset)
	}
	return v, err
}

// view returns where the value in a row is: in the view itself, or at an offset in a buffer. In the second case the
// view has the length, the value's first four bytes, the buffer's number and the offset.
func (c *arrowChunk) view(row int) (in arrowBuffer, from, to int64, err error) {
	le := binary.LittleEndian
	raw := c.raw[row*viewBytes:][:viewBytes]
	length := int64(int32(le.Uint32(raw)))
	if length <= inlineView {
		from = c.first + int64(row)*viewBytes + 4
		return c.values, from, from + length, nil
	}
	// "Variable-size Binary View Layout": length, the first four bytes again, number of the buffer, offset in it; each is
	// a word.
	number := le.Uint32(raw[8:])
	if uint64(number) >= uint64(len(c.views)) {
		return in, 0, 0, fmt.Errorf("%w: a view of buffer %d of %d", ErrBad, number, len(c.views))
	}
	from = int64(int32(le.Uint32(raw[12:])))
	return c.views[number], from, from + length, nil
}

// hasNull says whether a number of a list is null.
func (c *arrowChunk) hasNull(r io.ReaderAt, first, end int64) (bool, error) {
	const most = 1 << 15 // numbers whose bits are read at once, because a list may be as long as the file
	for ; first < end; first = min(first-first%8+most, end) {
		upTo := min(first-first%8+most, end)
		bits, err := c.batch.stretch(r, c.gaps, first/8, (upTo+7)/8-first/8)
		if err != nil {
			return false, err
		}
		for n := first; n < upTo; n++ {
			if bits[n/8-first/8]>>(n%8)&1 == 0 {
				return true, nil
			}
		}
	}
	return false, nil
}

// list returns where the numbers of a row's list are among those of all rows; -1 if the offsets are invalid.
func (c *arrowChunk) list(row int) (from, to int64) {
	f := c.field
	width := int64(f.element)
	if f.listed > 0 {
		bytes := int64(f.listed) * width
		return c.first + int64(row)*bytes, c.first + int64(row+1)*bytes
	}
	from, to = f.offset(c.raw, row), f.offset(c.raw, row+1)
	if from < 0 || to < from || to > c.values.size/width {
		return -1, -1
	}
	return from * width, to * width
}

// offset returns number n of the values' offsets. An offset of 2^63 or more becomes negative, and is refused.
func (f *arrowField) offset(raw []byte, n int) int64 {
	if f.offsets == 4 {
		return int64(int32(binary.LittleEndian.Uint32(raw[4*n:])))
	}
	return int64(binary.LittleEndian.Uint64(raw[8*n:]))
}

// number reads the number in a row.
func (f *arrowField) number(v *Value, raw []byte, row int) {
	le := binary.LittleEndian
	if f.width == 0 { // bits
		v.Int = int64(raw[row>>3] >> (row & 7) & 1)
		v.Float = float64(v.Int)
		return
	}
	b := raw[row*f.width:][:f.width]
	if f.float {
		switch f.width {
		case 2:
			v.Float = float64(float16.FromLEBytes(b).Float32())
		case 4:
			v.Float = float64(math.Float32frombits(le.Uint32(b)))
		default:
			v.Float = math.Float64frombits(le.Uint64(b))
		}
		return
	}
	var bits uint64
	// The number is little-endian, of any width, and is extended by its sign.
	for i, c := range b {
		bits |= uint64(c) << (8 * i)
	}
	if v.Int = int64(bits); !f.unsigned {
		shift := 64 - 8*f.width
		v.Int = v.Int << shift >> shift
	}
	v.Float = float64(v.Int)
	if f.unsigned && v.Int < 0 { // above 2^63 only a float has room for it
		v.Float, v.Large = float64(bits), true
	}
}
