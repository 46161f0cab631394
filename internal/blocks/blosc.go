package blocks

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrUnknown says that a block may be right but is written in a way that is not read here.
var ErrUnknown = errors.New("not read")

// The header of a Blosc frame (c-blosc/README_CHUNK_FORMAT.rst) has versions, flags, the bytes of a value, and the
// lengths of the data, of a block and of the frame.
const (
	bloscHeader     = 16
	bloscStored     = 1 << 1 // the bytes are stored as they were
	bloscBits       = 1 << 2 // the bits of eight values are shuffled
	bloscMostFormat = 2
)

// bloscCodecs are the codecs by their number in the flags. BloscLZ exists only in Blosc and is not read.
var bloscCodecs = []uint8{None, LZ4, Snappy, Zlib, Zstd}

// unblosc decodes a frame of C-Blosc 1. Byte shuffling does not change values of one byte.
func unblosc(to, from []byte) error {
	if len(from) < bloscHeader {
		return fmt.Errorf("the Blosc frame has %d bytes (expected %d at least)", len(from), bloscHeader)
	}
	version, flags, width := from[0], from[2], from[3]
	size, block, stored := binary.LittleEndian.Uint32(from[4:]), int64(binary.LittleEndian.Uint32(from[8:])), binary.LittleEndian.Uint32(from[12:])
	switch {
	case version == 0 || version > bloscMostFormat:
		return fmt.Errorf("a Blosc frame of version %d is %w (expected 1 or 2)", version, ErrUnknown)
	case int64(size) != int64(len(to)):
		return differs(int(size), len(to))
	// cbytes includes the header.
	case int64(stored) != int64(len(from)):
		return fmt.Errorf("the Blosc frame says that it has %d bytes (expected %d)", stored, len(from))
	// A frame stored by memcpy has no list of blocks, whatever codec its flags name.
	case flags&bloscStored != 0:
		if len(from)-bloscHeader != len(to) {
			return differs(len(from)-bloscHeader, len(to))
		}
		copy(to, from[bloscHeader:])
		return nil
	case width != 1:
		return fmt.Errorf("a Blosc frame of values of %d bytes is %w (expected 1)", width, ErrUnknown)
	case int(flags>>5) >= len(bloscCodecs) || bloscCodecs[flags>>5] == None:
		return fmt.Errorf("a Blosc frame of codec %d is %w (expected LZ4, Snappy, zlib or zstd)", flags>>5, ErrUnknown)
	case block == 0 && size > 0:
		return errors.New("the Blosc frame has blocks of 0 bytes")
	}
	var shuffled []byte
	for number := int64(0); number*block < int64(size); number++ {
		whole := to[number*block : min((number+1)*block, int64(size))]
		// The offsets of the blocks (bstarts) follow the header.
		at := bloscHeader + 4*number
		if at+4 > int64(len(from)) {
			return errors.New("the Blosc frame ends among the places of its blocks")
		}
		room := whole
		if flags&bloscBits != 0 && len(whole)%8 == 0 {
			// C-Blosc shuffles bits only in whole groups of eight values, and copies a block that has no such group
			// (bitshuffle in shuffle.c).
			if shuffled == nil {
				shuffled = make([]byte, len(whole))
			}
			room = shuffled[:len(whole)]
		}
		if err := unbloscBlock(bloscCodecs[flags>>5], room, from, int64(binary.LittleEndian.Uint32(from[at:]))); err != nil {
			return err
		}
		if flags&bloscBits != 0 && len(whole)%8 == 0 {
			unshuffleBits(whole, room)
		}
	}
	return nil
}

// unbloscBlock decodes one block: its stored length, then one stream. A stream that did not become smaller is stored as
// it was.
func unbloscBlock(codec uint8, to, from []byte, at int64) error {
	if at < bloscHeader || at > int64(len(from))-4 {
		return fmt.Errorf("a block of the Blosc frame begins at byte %d of %d", at, len(from))
	}
	stored := int64(binary.LittleEndian.Uint32(from[at:]))
	if from = from[at+4:]; stored > int64(len(from)) {
		return fmt.Errorf("a block of the Blosc frame has %d bytes, there are %d", stored, len(from))
	}
	if stored == int64(len(to)) {
		copy(to, from)
		return nil
	}
	return Decode(codec, to, from[:stored])
}

// unshuffleBits brings together the eight bits of a value, which lie in eight rows with one bit for each value
// (bitshuffle's layout for elements of one byte). It transposes eight rows of eight bits at a time (Hacker's Delight
// 7-3).
func unshuffleBits(to, from []byte) {
	row := len(from) / 8
	for j := range row {
		x := uint64(0)
		for k := range 8 {
			x |= uint64(from[k*row+j]) << (8 * k)
		}
		t := (x ^ x>>7) & 0x00AA00AA00AA00AA
		x ^= t ^ t<<7
		t = (x ^ x>>14) & 0x0000CCCC0000CCCC
		x ^= t ^ t<<14
		t = (x ^ x>>28) & 0x00000000F0F0F0F0
		x ^= t ^ t<<28
		binary.LittleEndian.PutUint64(to[8*j:], x)
	}
}
