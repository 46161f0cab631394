package formats

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/flat"
	"github.com/headrace/headrace/internal/headroom"
)

// arrowBuffer is a stretch of a batch's body. It may be compressed as a whole.
type arrowBuffer struct {
	offset, length int64 // in the body
	size           int64 // size of its content
	codec          uint8 // of package blocks; None: the stretch is the content
}

// block returns a compressed buffer as a block; nil if the buffer is not compressed.
func (x *arrowBuffer) block(body int64) *Block {
	if x.codec == blocks.None {
		return nil
	}
	return &Block{Offset: body + x.offset, Stored: x.length, Size: x.size, Codec: x.codec}
}

// arrowCodecs are the codecs of BodyCompression (Message.fbs), by number.
var arrowCodecs = []uint8{blocks.LZ4Frame, blocks.Zstd}

// arrowBatch is a record batch: the nodes and buffers of all fields, depth first.
type arrowBatch struct {
	at, body, length int64
	rows             int64
	nulls            []int64
	lengths          []int64
	first, last      []int // each field's first buffer, and the one after its last
	buffers          []arrowBuffer
	decoded          map[int64][]byte // contents of compressed buffers, by their offset
	held             int64            // size of these contents
	most             int64            // largest size of one
}

// open reads the metadata of a batch.
func (b *arrowBatch) open(r io.ReaderAt, t flat.Table, fields []arrowField) error {
	b.rows = t.I64(flat.BatchLength)
	if b.rows < 0 {
		return fmt.Errorf("%w: a record batch of %d rows", ErrBad, b.rows)
	}
	nodes, _, count := t.Vector(flat.BatchNodes, 16)
	buffers, _, places := t.Vector(flat.BatchBuffers, 16)
	counts, _, views := t.Vector(flat.BatchVariadicCounts, 8)
	// Nodes and buffers are identified only by their order, depth first. If there were one too few or too many, every
	// later column would get another one's.
	if count != len(fields) {
		return fmt.Errorf("%w: a record batch of %d arrays (expected %d, as the schema has fields)", ErrBad, count, len(fields))
	}
	for i := range places {
		x := arrowBuffer{offset: flat.I64(buffers, uint64(16*i)), length: flat.I64(buffers, uint64(16*i+8))}
		// The place is compared with the body before anything is added, because outside the body it may be outside the file.
		if x.offset < 0 || x.length < 0 || x.offset > b.length || x.length > b.length-x.offset {
			return fmt.Errorf("%w: a buffer at %d of %d bytes in a body of %d", ErrBad, x.offset, x.length, b.length)
		}
		x.size = x.length
		b.buffers = append(b.buffers, x)
	}
	if compression := t.Table(flat.BatchCompression); compression.Present() {
		if err := b.compressed(r, compression.U8(0)); err != nil {
			return err
		}
	}
	place := 0
	for i := range fields {
		b.lengths, b.nulls = append(b.lengths, flat.I64(nodes, uint64(16*i))), append(b.nulls, flat.I64(nodes, uint64(16*i+8)))
		b.first = append(b.first, place)
		place += fields[i].buffers
		// The batch says how many buffers a column of views has, in a list of its own (variadicBufferCounts in Message.fbs).
		if fields[i].views {
			more := int64(-1)
			if views > 0 {
				more, counts, views = flat.I64(counts, 0), counts[8:], views-1
			}
			if more < 0 || more > int64(places) {
				return fmt.Errorf("%w: a column of views with %d buffers", ErrBad, more)
			}
			place += int(more)
		}
		b.last = append(b.last, place)
	}
	if place != places {
		return fmt.Errorf("%w: a record batch of %d buffers (expected %d)", ErrBad, places, place)
	}
	return nil
}

// compressed reads the size of each buffer's content, which precedes it. The size is -1 if the content could not be
// made smaller.
func (b *arrowBatch) compressed(r io.ReaderAt, codec uint8) error {
	if int(codec) >= len(arrowCodecs) {
		return fmt.Errorf("%w: buffers compressed by codec %d", ErrUnsupported, codec)
	}
	for i := range b.buffers {
		x := &b.buffers[i]
		// For an empty buffer writers leave out the size.
		if x.length == 0 {
			continue
		}
		var raw [8]byte
		if x.length < int64(len(raw)) {
			return fmt.Errorf("%w: a compressed buffer of %d bytes", ErrBad, x.length)
		}
		if err := readAt(r, raw[:], b.body+x.offset); err != nil {
			return err
		}
		x.offset, x.length = x.offset+int64(len(raw)), x.length-int64(len(raw))
		switch x.size = int64(binary.LittleEndian.Uint64(raw[:])); {
		// BodyCompressionMethod.BUFFER of Message.fbs: -1 means that what follows is not compressed.
		case x.size == -1:
			x.size = x.length
		case x.size < 0:
			return fmt.Errorf("%w: a buffer of %d bytes once it is decoded", ErrBad, x.size)
		case x.size > blocks.MostBytes || x.length > blocks.MostBytes:
			return fmt.Errorf("%w: a buffer of %d bytes, %d once it is decoded (expected at most %d)", ErrLimit, x.length, x.size, int64(blocks.MostBytes))
		default:
			x.codec = arrowCodecs[codec]
		}
	}
	return nil
}

// content decodes a compressed buffer.
func (b *arrowBatch) content(r io.ReaderAt, x arrowBuffer) ([]byte, error) {
	data, have := b.decoded[x.offset]
	// Two buffers of a hostile batch may have one place and different sizes.
	if have && int64(len(data)) == x.size {
		return data, nil
	}
	if max(x.size, x.length) > b.most {
		return nil, fmt.Errorf("%w: a buffer of %d bytes, %d once it is decoded (expected at most %d, %s)", ErrLimit, x.length, x.size, b.most, blocks.NameOfBlock)
	}
	if b.held += x.size; b.held > maxTableHeld {
		return nil, fmt.Errorf("%w: the buffers of a record batch take more than %d bytes", ErrLimit, int64(maxTableHeld))
	}
	if short := headroom.Memory(x.size); short != nil {
		return nil, short
	}
	stored := make([]byte, x.length)
	if err := readAt(r, stored, b.body+x.offset); err != nil {
		return nil, err
	}
	data = make([]byte, x.size)
	if err := blocks.Decode(x.codec, data, stored); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBad, err)
	}
	if b.decoded == nil {
		b.decoded = make(map[int64][]byte)
	}
	b.decoded[x.offset] = data
	return data, nil
}

// valid returns the bitmap of the rows of a field that are not null; nil if none is null.
func (b *arrowBatch) valid(r io.ReaderAt, field int, from, rows int64) ([]byte, error) {
	if b.lengths[field] != b.rows {
		return nil, fmt.Errorf("%w: an array of %d values in a batch of %d rows", ErrBad, b.lengths[field], b.rows)
	}
	bits := b.buffers[b.first[field]]
	// Writers may leave out the bits only if nothing is null ("Validity bitmaps").
	if bits.size == 0 && b.nulls[field] == 0 {
		return nil, nil
	}
	return b.stretch(r, bits, from/8, (rows+7)/8)
}

// stretch reads a part of a buffer.
func (b *arrowBatch) stretch(r io.ReaderAt, x arrowBuffer, from, bytes int64) ([]byte, error) {
	if from > x.size || bytes > x.size-from {
		return nil, fmt.Errorf("%w: a buffer of %d bytes (expected at least %d for %d rows)", ErrBad, x.size, from+bytes, b.rows)
	}
	if x.codec != blocks.None {
		data, err := b.content(r, x)
		if err != nil {
			return nil, err
		}
		return data[from:][:bytes:bytes], nil
	}
	data := make([]byte, bytes)
	return data, readAt(r, data, b.body+x.offset+from)
}

// readLists sets in a chunk where the lists of its rows are among the numbers of all lists, which are the next field's.
func (b *arrowBatch) readLists(r io.ReaderAt, c *arrowChunk, field int, from, rows int64) (err error) {
	f := c.field
	if c.values, c.gaps = b.buffers[b.first[field+1]+1], (arrowBuffer{}); b.nulls[field+1] != 0 {
		if c.gaps = b.buffers[b.first[field+1]]; c.gaps.size == 0 {
			return fmt.Errorf("%w: %d numbers of lists are null and no bits say which", ErrBad, b.nulls[field+1])
		}
	}
	// A list without a fixed length is a pair of offsets into the numbers of all lists.
	if f.listed == 0 {
		width := int64(f.offsets)
		c.raw, err = b.stretch(r, b.buffers[b.first[field]+1], from*width, (rows+1)*width)
		return err
	}
	bytes := int64(f.listed) * int64(f.element)
	if c.first = from * bytes; from+rows > c.values.size/bytes {
		return fmt.Errorf("%w: a buffer of %d bytes (expected %d lists of %d)", ErrBad, c.values.size, from+rows, bytes)
	}
	return nil
}

// read fills a chunk with rows of a field. The first row is a multiple of 8.
func (b *arrowBatch) read(r io.ReaderAt, c *arrowChunk, field int, from, rows int64, want bool) (err error) {
	f := c.field
	c.batch = b
	c.valid, c.data, c.first = c.valid[:0], nil, 0
	for _, n := range append(f.around[:len(f.around):len(f.around)], field) {
		bits, err := b.valid(r, n, from, rows)
		if err != nil {
			return err
		}
		c.valid = append(c.valid, bits)
	}
	if f.element > 0 {
		return b.readLists(r, c, field, from, rows)
	}
	second := b.buffers[b.first[field]+1]
	if f.offsets == 0 {
		width := int64(f.width)
		switch c.values = second; { // there are fewer rows than bytes in the file (tooManyRows), so those of numbers cannot overflow
		case f.wide && from+rows > second.size/width:
			return fmt.Errorf("%w: a buffer of %d bytes (expected %d values of %d)", ErrBad, second.size, from+rows, width)
		case f.wide:
			c.first = from * width
		case f.views:
			c.first, c.views = from*width, b.buffers[b.first[field]+2:b.last[field]]
			c.raw, err = b.stretch(r, second, from*width, rows*width)
		case width == 0:
			c.raw, err = b.stretch(r, second, from/8, (rows+7)/8)
		default:
			c.raw, err = b.stretch(r, second, from*width, rows*width)
		}
		return err
	}
	width := int64(f.offsets)
	if c.raw, err = b.stretch(r, second, from*width, (rows+1)*width); err != nil {
		return err
	}
	c.values = b.buffers[b.first[field]+2]
	// Texts that are asked for are keys and labels. They have a few bytes each and are adjacent, so one read replaces
	// thousands.
	if want && c.values.codec == blocks.None {
		first, last := f.offset(c.raw, 0), f.offset(c.raw, int(rows))
		if first >= 0 && last >= first && last <= c.values.size && last-first <= maxArrowChunk {
			c.first = first
			c.data, err = b.stretch(r, c.values, first, last-first)
		}
	}
	return err
}
