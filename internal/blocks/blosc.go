package blocks

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrUnknown says of a block that it may be right, and is written in a way that is not read here.
var ErrUnknown = errors.New("not read")

// What the header of a Blosc frame says (c-blosc/README_CHUNK_FORMAT.rst): versions, flags, the bytes
// of a value, and the lengths of all, of a block and of the frame.
const (
	bloscHeader     = 16
	bloscStored     = 1 << 1 // the bytes are as they were
	bloscBits       = 1 << 2 // the bits of eight values are shuffled
	bloscMostFormat = 2
)

// bloscCodecs are by the number in the flags; BloscLZ is its own and is not read.
var bloscCodecs = []uint8{None, LZ4, Snappy, Zlib, Zstd}

// unblosc decodes a frame of C-Blosc 1. Shuffling the bytes of values of one byte leaves them as they are.
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
	// cbytes counts the header too.
	case int64(stored) != int64(len(from)):
		return fmt.Errorf("the Blosc frame says that it has %d bytes (expected %d)", stored, len(from))
	// A frame of memcpy has no places of blocks, whatever the codec in its flags.
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
		// Behind the header stands where each block begins (bstarts).
		at := bloscHeader + 4*number
		if at+4 > int64(len(from)) {
			return errors.New("the Blosc frame ends among the places of its blocks")
		}
		room := whole
		if flags&bloscBits != 0 && len(whole)%8 == 0 {
			// C-Blosc shuffles bits of whole groups of eight values only, and copies a block that is none (bitshuffle
			// in shuffle.c).
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

// unbloscBlock decodes one block: its stored length, and one stream, which is as it was where it did not
// become smaller.
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

// unshuffleBits brings the eight bits of a value together, which lie in as many rows of one bit a value
// (bitshuffle's, of elements of one byte). It transposes eight rows of eight bits at a time (Hacker's
// Delight 7-3).
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
