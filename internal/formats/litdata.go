package formats

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// LitData walks a chunk of LitData (litdata/streaming/writer.py, item_loader.py, framed_zstd.py). There are five forms:
//
//	classic: uint32 items N | uint32 offsets[N+1] in the file | items
//	footer:  the same with equal offsets | an Arrow file of the rows | its uint32 length | "LDARW01\0"
//	framed:  "LDFZ01\0\0" | uint16 version 1, flags | uint32 N, rows a frame, frames F | uint32 offsets[N+1] in
//	         the decoded items | F frames | zstd frames of items one after the other
//	sample:  classic, of which each item is a zstd frame
//	chunk:   classic, compressed by zstd as a whole
//
// A frame has uint32 first item, items, uint64 offset, uint32 length, decoded length. An item has the uint32 size of
// each leaf and then all leaves. All numbers are little-endian. index.json says which leaves there are.
type LitData struct {
	Leaves []Leaf

	r     io.ReaderAt
	size  int64
	most  int64 // largest size of a block that is decoded
	index *LitIndex

	arrow *Arrow // of a footer; it begins at byte shift
	shift int64

	table   io.ReaderAt // has the offsets, from byte offsets on
	offsets int64
	samples int64
	next    int64
	end     int64    // end of the item before the next
	some    []uint32 // offsets, from number first on
	first   int64

	body    []byte // decoded items, which begin at offset base; nil: items are read from the file
	base    int64
	block   *Block
	frames  int64 // number of frames of a framed chunk; their table is at byte place
	frame   int64 // the next frame
	place   int64
	framed  int64 // number of the item after those of the last frame
	stored  int64 // end of the last frame
	decoded int64 // size of all items that were decoded
}

const (
	litFooter     = "LDARW01\x00"
	litFramed     = "LDFZ01\x00\x00"
	litPrefix     = 24
	litFrame      = 24
	litOffsets    = 4096           // number of offsets that are read together
	maxLitDecoded = math.MaxUint32 // a chunk's offsets cannot express more
	litFooterEnd  = 4 + int64(len(litFooter))
)

// IsLitData recognises a chunk by its offsets, because most have no magic. A chunk that is compressed as a whole is
// recognised only by its index.
func IsLitData(r io.ReaderAt, size int64) bool {
	var head [8]byte
	if size < 12 || readAt(r, head[:], 0) != nil {
		return false
	}
	if string(head[:]) == litFramed {
		return true
	}
	samples, begin := int64(binary.LittleEndian.Uint32(head[:])), int64(binary.LittleEndian.Uint32(head[4:]))
	// The first item begins right after the offsets, which in another container would be a rare coincidence.
	if samples == 0 || begin != 4+4*(samples+1) || begin > size || readAt(r, head[:4], begin-4) != nil {
		return false
	}
	// The last offset is the end of the file, or of what precedes a footer of Arrow.
	if end := int64(binary.LittleEndian.Uint32(head[:])); end < begin || end != size && end+litFooterEnd > size {
		return end > size // the chunk was cut
	}
	return true
}

// NewLitData opens a chunk with that many samples, as its folder's index describes it. Blocks larger than most are
// refused.
func NewLitData(r io.ReaderAt, size int64, index *LitIndex, samples, most int64) (*LitData, error) {
	l := &LitData{Leaves: slices.Clone(index.leaves), r: r, size: size, most: most, index: index, table: r, offsets: 4}
	var head [8]byte
	if size < int64(len(head)) {
		return nil, &WalkError{0, fmt.Errorf("%w: a chunk of %d bytes", ErrTruncated, size)}
	}
	if err := readAt(r, head[:], 0); err != nil {
		return nil, err
	}
	if string(head[:]) == litFramed {
		if err := l.openFramed(); err != nil {
			return nil, err
		}
		return l, l.checkSamples(samples)
	}
	// Such a dataset may also have decompressed chunks: LitData writes one beside the compressed chunk when it reads it.
	if index.level == "chunk" && string(head[:4]) == "\x28\xb5\x2f\xfd" {
		if err := l.openWhole(); err != nil {
			return nil, err
		}
		copy(head[:], l.body)
	}
	l.samples = int64(binary.LittleEndian.Uint32(head[:]))
	header, content := 4+4*(l.samples+1), l.size
	if l.body != nil {
		content = int64(len(l.body))
	}
	switch begin := int64(binary.LittleEndian.Uint32(head[4:])); {
	case header > content:
		return nil, &WalkError{0, fmt.Errorf("%w: the offsets of %d items end at byte %d of %d", ErrTruncated, l.samples, header, content)}
	case begin != header:
		return nil, &WalkError{4, fmt.Errorf("%w: the first of %d items begins at byte %d (expected %d)", ErrBad, l.samples, begin, header)}
	}
	if err := l.checkSamples(samples); err != nil {
		return nil, err
	}
	// A sample takes memory in the index even if it has no bytes.
	if tooManyRows(l.samples, int64(len(l.Leaves)), size) {
		return nil, &WalkError{0, fmt.Errorf("%w: %d items of %d leaves in a file of %d bytes", ErrLimit, l.samples, len(l.Leaves), size)}
	}
	l.end = header
	return l, l.openFooter(header)
}

func (l *LitData) checkSamples(expected int64) error {
	if l.samples != expected {
		return &WalkError{0, fmt.Errorf("%w: a chunk of %d items (expected %d, as index.json says)", ErrBad, l.samples, expected)}
	}
	return nil
}

// openFooter finds the rows after items that are all empty.
func (l *LitData) openFooter(header int64) error {
	var end [litFooterEnd]byte
	if l.body != nil || l.size < header+litFooterEnd {
		return nil
	}
	if err := readAt(l.r, end[:4], header-4); err != nil {
		return err
	}
	if int64(binary.LittleEndian.Uint32(end[:])) != header {
		return nil
	}
	at := l.size - litFooterEnd
	if err := readAt(l.r, end[:], at); err != nil {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	switch {
	case string(end[4:]) != litFooter:
		return &WalkError{at, fmt.Errorf("%w: %d items without a byte, and no Arrow file of them at the end", ErrTruncated, l.samples)}
	// The length is compared with the room in between before it is subtracted from a place.
	case length > at-header:
		return &WalkError{at, fmt.Errorf("%w: an Arrow file of %d bytes between byte %d and %d", ErrBad, length, header, at)}
	}
	l.shift = at - length
	arrow, err := NewArrow(io.NewSectionReader(l.r, l.shift, length), length, l.most)
	if err != nil {
		return l.shifted(err)
	}
	l.arrow, l.Leaves = arrow, arrow.Leaves
	return nil
}

// shifted converts a place in the Arrow file to one in the chunk.
func (l *LitData) shifted(err error) error {
	var at *WalkError
	if errors.As(err, &at) {
		return &WalkError{at.Offset + l.shift, at.Err}
	}
	return err
}

// nextRow returns a row of the Arrow file.
func (l *LitData) nextRow(values []Value) (int64, error) {
	at, err := l.arrow.Next(values)
	if errors.Is(err, io.EOF) && l.next != l.samples {
		// Both the index and the chunk's head have the number of rows. Otherwise a file that was cut and repaired would
		// silently lack some.
		return 0, &WalkError{l.shift, fmt.Errorf("%w: an Arrow file of %d rows (expected %d)", ErrBad, l.next, l.samples)}
	}
	if err != nil {
		return 0, l.shifted(err)
	}
	if l.next++; l.next > l.samples {
		return 0, &WalkError{l.shift, fmt.Errorf("%w: an Arrow file of more rows than %d", ErrBad, l.samples)}
	}
	for i := range values {
		switch v := &values[i]; {
		case v.Block != nil:
			block := *v.Block
			block.Offset += l.shift
			v.Block = &block
		case !v.Null:
			v.Offset += l.shift
		}
	}
	return at + l.shift, nil
}

// Next fills values, one for each leaf, with those of the next item, and returns where the item or its block begins;
// io.EOF after the last.
func (l *LitData) Next(values []Value) (int64, error) {
	if l.arrow != nil {
		return l.nextRow(values)
	}
	if l.next == l.samples {
		return 0, io.EOF
	}
	begin, end, err := l.item()
	if err != nil {
		return 0, err
	}
	switch {
	case l.frames > 0:
		err = l.nextFrame()
	case l.index.level == "sample":
		// The offsets are those of frames in the file. The sizes of leaves are those in the decoded frame.
		err = l.decode(Block{Offset: begin, Stored: end - begin}, begin)
		end = begin + int64(len(l.body))
	}
	if err != nil {
		return 0, err
	}
	at := begin
	if l.block != nil {
		at = l.block.Offset
	}
	if err := l.leavesOf(values, begin, end); err != nil {
		var already *WalkError
		if !errors.As(err, &already) {
			err = &WalkError{at, err}
		}
		return 0, err
	}
	l.next++
	return at, nil
}

// item returns where the next item begins and ends.
func (l *LitData) item() (begin, end int64, err error) {
	if l.next+1 >= l.first+int64(len(l.some)) {
		raw := make([]byte, 4*min(litOffsets, l.samples+1-l.next))
		if err := readAt(l.table, raw, l.offsets+4*l.next); err != nil {
			return 0, 0, err
		}
		l.some, l.first = l.some[:0], l.next
		for ; len(raw) > 0; raw = raw[4:] {
			l.some = append(l.some, binary.LittleEndian.Uint32(raw))
		}
	}
	begin, end = int64(l.some[l.next-l.first]), int64(l.some[l.next-l.first+1])
	limit := l.size
	switch {
	case l.frames > 0:
		limit = maxLitDecoded
	case l.body != nil && l.index.level == "chunk":
		limit = int64(len(l.body))
	}
	switch {
	// Items follow each other in every form. If an item could begin inside an earlier one, it would be decoded again and
	// again.
	case end < begin || begin < l.end:
		return 0, 0, &WalkError{l.offsets + 4*l.next, fmt.Errorf("%w: an item from byte %d to %d, the one before ends at %d", ErrBad, begin, end, l.end)}
	case end > limit:
		return 0, 0, &WalkError{l.offsets + 4*l.next, fmt.Errorf("%w: an item that ends at byte %d of %d", ErrTruncated, end, limit)}
	}
	l.end = end
	return begin, end, nil
}

// leavesOf fills values with the leaves of the item from begin to end.
func (l *LitData) leavesOf(values []Value, begin, end int64) error {
	// An item does not say how many leaves it has; the index does.
	at := begin + 4*int64(len(l.Leaves))
	if at > end {
		return fmt.Errorf("%w: an item of %d bytes (expected at least %d, the sizes of its leaves)", ErrBad, end-begin, at-begin)
	}
	sizes, err := l.bytes(begin, at-begin)
	if err != nil {
		return err
	}
	for i := range l.Leaves {
		length := int64(binary.LittleEndian.Uint32(sizes[4*i:]))
		if length > end-at {
			return fmt.Errorf("%w: the leaf %.80q of %d bytes ends behind its item", ErrBad, l.Leaves[i].Path, length)
		}
		if values[i], err = l.value(i, at, length); err != nil {
			return err
		}
		at += length
	}
	// If bytes are left over, the index is another dataset's.
	if at != end {
		return fmt.Errorf("%w: the leaves of an item have %d bytes, the item %d", ErrBad, at-begin, end-begin)
	}
	return nil
}

// value returns the value of a leaf.
func (l *LitData) value(i int, at, length int64) (v Value, err error) {
	leaf, width := &l.Leaves[i], l.index.widths[i]
	if leaf.Skip || leaf.Kind == RefusedLeaf {
		return Value{Null: true}, nil
	}
	if width > 0 {
		if length != width {
			return v, fmt.Errorf("%w: the leaf %.80q of %d bytes (expected %d)", ErrBad, leaf.Path, length, width)
		}
		raw, err := l.bytes(at, length)
		if err != nil {
			return v, err
		}
		// This is a bool.
		if width == 1 {
			raw = []byte{raw[0], 0, 0, 0, 0, 0, 0, 0}
		}
		v.Int = int64(binary.LittleEndian.Uint64(raw))
		if v.Float = float64(v.Int); leaf.Kind == FloatLeaf {
			v.Int, v.Float = 0, math.Float64frombits(uint64(v.Int))
		}
		return v, nil
	}
	v = Value{Offset: at, Length: length, Block: l.block}
	if l.block != nil {
		v.Offset -= l.base
	}
	if l.block != nil || leaf.Want && length <= maxShortValue {
		v.Data, err = l.bytes(at, length)
	}
	return v, err
}

// bytes returns bytes of items, from an offset on.
func (l *LitData) bytes(at, length int64) ([]byte, error) {
	if l.block == nil {
		data := make([]byte, length)
		return data, readAt(l.r, data, at)
	}
	from := at - l.base
	if from < 0 || length > int64(len(l.body))-from {
		return nil, fmt.Errorf("%w: %d bytes at %d of a block of %d", ErrBad, length, from, len(l.body))
	}
	return l.body[from:][:length:length], nil
}
