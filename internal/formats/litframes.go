package formats

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/klauspost/compress/zstd"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/headroom"
)

// openFramed reads the head of a framed chunk.
func (l *LitData) openFramed() error {
	if l.size < litPrefix {
		return &WalkError{0, fmt.Errorf("%w: a chunk of %d bytes", ErrTruncated, l.size)}
	}
	var head [litPrefix]byte
	if err := readAt(l.r, head[:], 0); err != nil {
		return err
	}
	le := binary.LittleEndian
	l.samples, l.frames = int64(le.Uint32(head[12:])), int64(le.Uint32(head[20:]))
	l.offsets, l.place = litPrefix, litPrefix+4*(l.samples+1)
	l.stored = l.place + litFrame*l.frames
	switch version := le.Uint16(head[8:]); {
	case version != 1:
		return &WalkError{8, fmt.Errorf("%w: frames of version %d (expected 1)", ErrUnsupported, version)}
	case l.frames == 0:
		return &WalkError{20, fmt.Errorf("%w: a chunk of %d items without frames", ErrBad, l.samples)}
	case l.stored > l.size:
		return &WalkError{12, fmt.Errorf("%w: the tables of %d items and %d frames end at byte %d of %d", ErrTruncated, l.samples, l.frames, l.stored, l.size)}
	}
	return nil
}

// nextFrame decodes the frame of the next item, unless it is the frame of the item before. Frames and their items
// follow each other.
func (l *LitData) nextFrame() error {
	if l.next < l.framed {
		return nil
	}
	at := l.place + litFrame*l.frame
	if l.frame == l.frames {
		return &WalkError{at, fmt.Errorf("%w: %d frames hold %d of %d items", ErrBad, l.frames, l.framed, l.samples)}
	}
	var raw [litFrame]byte
	if err := readAt(l.r, raw[:], at); err != nil {
		return err
	}
	le := binary.LittleEndian
	first, items := int64(le.Uint32(raw[:])), int64(le.Uint32(raw[4:]))
	offset := le.Uint64(raw[8:])
	b := Block{Offset: int64(offset), Stored: int64(le.Uint32(raw[16:])), Size: int64(le.Uint32(raw[20:]))}
	switch {
	// Frames without items would be decoded without end. A frame that begins with another item holds other items than the
	// offsets say.
	case first != l.next || items == 0:
		return &WalkError{at, fmt.Errorf("%w: a frame of %d items from item %d (expected %d)", ErrBad, items, first, l.next)}
	// Frames must follow each other too: if one could be used twice, a small file would take hours.
	case offset < uint64(l.stored) || offset > uint64(l.size):
		return &WalkError{at, fmt.Errorf("%w: a frame at byte %d (expected from %d to %d)", ErrBad, offset, l.stored, l.size)}
	case b.Stored > l.size-b.Offset:
		return &WalkError{at, fmt.Errorf("%w: a frame of %d bytes at byte %d of %d", ErrTruncated, b.Stored, b.Offset, l.size)}
	}
	l.frame, l.framed, l.stored = l.frame+1, first+items, b.Offset+b.Stored
	return l.decode(b, int64(l.some[l.next-l.first]))
}

// openWhole decodes a chunk that is compressed as a whole.
func (l *LitData) openWhole() error {
	if err := l.decode(Block{Stored: l.size}, 0); err != nil {
		return err
	}
	if len(l.body) < 8 {
		return &WalkError{0, fmt.Errorf("%w: a chunk of %d bytes once it is decoded", ErrTruncated, len(l.body))}
	}
	l.table = bytes.NewReader(l.body)
	return nil
}

// decode makes a block's content that of the items from base on. If nothing else gives its decoded size, the block's
// own head does.
func (l *LitData) decode(b Block, base int64) error {
	wrong := func(kind error, format string, a ...any) error {
		return &WalkError{b.Offset, fmt.Errorf("%w: "+format, append([]any{kind}, a...)...)}
	}
	if b.Stored > l.most {
		return wrong(ErrLimit, "a block of %d bytes (expected at most %d, %s)", b.Stored, l.most, blocks.NameOfBlock)
	}
	if short := headroom.Memory(b.Stored + b.Size); short != nil {
		return short
	}
	stored := make([]byte, b.Stored)
	if err := readAt(l.r, stored, b.Offset); err != nil {
		return err
	}
	// For chunks and single items only zstd's own head has the size, if their writer put it there.
	if b.Size == 0 {
		var head zstd.Header
		if err := head.Decode(stored); err != nil {
			return wrong(ErrBad, "the zstd block: %v", err)
		}
		b.Size = int64(min(head.FrameContentSize, math.MaxInt64))
		if !head.HasFCS {
			var err error
			if b.Size, err = blocks.Length(blocks.Zstd, stored, l.most); err != nil {
				return wrong(ErrBad, "%v", err)
			}
		}
	}
	// A decompression bomb is refused by its stated size, before a byte is decoded. The sizes of all blocks are added up,
	// because each alone may be small.
	if l.decoded += min(b.Size, maxLitDecoded); b.Size > l.most || l.decoded > maxLitDecoded {
		return wrong(ErrLimit, "a block of %d bytes once it is decoded (expected at most %d, %s, and %d in a chunk)", b.Size, l.most, blocks.NameOfBlock, int64(maxLitDecoded))
	}
	if short := headroom.Memory(b.Size); short != nil {
		return short
	}
	b.Codec = blocks.Zstd
	l.body, l.base, l.block = make([]byte, b.Size), base, &b
	if err := blocks.Decode(b.Codec, l.body, stored); err != nil {
		return wrong(ErrBad, "%v", err)
	}
	return nil
}
