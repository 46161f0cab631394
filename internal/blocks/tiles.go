package blocks

import (
	"fmt"

	"github.com/headrace/headrace/internal/headroom"
)

// These codecs are in no index, and no chunk has them. Only arrays make blocks with them.
const (
	Fill  uint8 = 62 // a chunk that was never written: every byte is the lowest one of Offset, and nothing is stored
	Tiled uint8 = 63 // assembled from the chunks of Tiles
)

// Tiles are chunks that divide a block along its axes, so that each chunk holds a piece of it. The values of block and
// chunk are bytes in row-major order. Along the first axis each chunk is at least as long as the block.
type Tiles struct {
	Shape [4]int64 // of the block
	Chunk [4]int64 // of every chunk; the block takes only a part of a chunk at the end of an axis
	Parts []Block  // the chunks; the last axis changes first; codec Fill is allowed
}

// Size returns the bytes of the block; Check bounds it.
func (t *Tiles) Size() int64 { return volume(t.Shape) }

// Check refuses tiles that cannot make a block; the sentence says which number is wrong.
func (t *Tiles) Check() error {
	count := int64(1)
	for axis := range t.Shape {
		length, step := t.Shape[axis], t.Chunk[axis]
		if length < 1 || step < 1 || length > MostBytes || step > MostBytes || axis == 0 && length > step {
			return fmt.Errorf("tiles of %v do not make a block of %v", t.Chunk, t.Shape)
		}
		// Both factors are below 2^29 and the count is capped, so no product overflows.
		count = min(count*((length+step-1)/step), MostBytes+1)
	}
	size := volume(t.Chunk)
	if whole := volume(t.Shape); whole > MostBytes || size > MostBytes {
		return fmt.Errorf("a block of %d bytes of tiles of %d (at most %d are allowed)", whole, size, int64(MostBytes))
	}
	if count != int64(len(t.Parts)) {
		return fmt.Errorf("%d tiles (expected %d)", len(t.Parts), count)
	}
	for i := range t.Parts {
		if b := &t.Parts[i]; !Known(b.Codec) && b.Codec != Fill && b.Codec != Plain || int64(b.Size) != size || b.Stored > MostBytes {
			return fmt.Errorf("tile %d is of codec %d, %d bytes stored and %d decoded (expected %d)", i, b.Codec, b.Stored, b.Size, size)
		}
	}
	return nil
}

// volume returns the product of lengths, none of which is negative. Beyond MostBytes it only says that it is larger.
func volume(shape [4]int64) int64 {
	all := int64(1)
	for _, length := range shape {
		if all *= length; all > MostBytes {
			return MostBytes + 1
		}
	}
	return all
}

// CopyTiled does what Copy does for a block of tiles. b names the block in the cache. fetch reads a stored tile; what
// it returns may be reused at its next call.
func (c *Cache) CopyTiled(to []byte, from int64, b Block, t *Tiles, fetch func(Block) ([]byte, error)) error {
	if b.Codec != Tiled || int64(b.Size) != t.Size() || from < 0 || from > int64(b.Size)-int64(len(to)) {
		return fmt.Errorf("%d bytes at %d of a block of %d bytes, of tiles of codec %d", len(to), from, b.Size, b.Codec)
	}
	if err := c.limits.check(b); err != nil {
		return err
	}
	return c.copied(to, from, b, func(room []byte) ([]byte, error) { return t.assembled(room, fetch) })
}

// assembled decodes the tiles one after the other and puts their pieces where they belong. They cover every byte of the
// block. The block goes into room, or into new memory if room is nil.
func (t *Tiles) assembled(room []byte, fetch func(Block) ([]byte, error)) ([]byte, error) {
	size, needed := volume(t.Chunk), volume(t.Chunk)
	if room == nil {
		needed += t.Size()
	}
	if short := headroom.Memory(needed); short != nil {
		return nil, short
	}
	if room == nil {
		room = make([]byte, t.Size())
	}
	// All chunks use the same memory, because they are put into place one by one.
	block, chunk := room[:t.Size()], make([]byte, size)
	at, filled := [4]int64{}, -1 // filled: the value that the whole chunk was filled with
	for i := range t.Parts {
		part := t.Parts[i]
		if part.Codec == Fill {
			if value := byte(part.Offset); filled != int(value) {
				paint(chunk, value)
				filled = int(value)
			}
		} else {
			filled = -1
			stored, err := fetch(part)
			if err != nil {
				return nil, err
			}
			if err := Decode(part.Codec, chunk, stored); err != nil {
				return nil, &MalformedError{fmt.Errorf("tile %d of %d: %w", i, len(t.Parts), err)}
			}
		}
		t.put(block, chunk, at)
		for axis := 3; axis > 0; axis-- {
			if at[axis] += t.Chunk[axis]; at[axis] < t.Shape[axis] {
				break
			}
			at[axis] = 0
		}
	}
	return block, nil
}

// put copies the part of a chunk that the block takes; the chunk's first value is at `at`. If a chunk has all of the
// last axis, as is usual for colours, the rows of the axis before are copied together.
func (t *Tiles) put(block, chunk []byte, at [4]int64) {
	shape, step := t.Shape, t.Chunk
	if shape[3] == step[3] {
		shape = [4]int64{1, shape[0], shape[1], shape[2] * shape[3]}
		step = [4]int64{1, step[0], step[1], step[2] * step[3]}
		at = [4]int64{0, at[0], at[1], at[2] * t.Shape[3]}
	}
	var held [4]int64
	for axis := range held {
		held[axis] = min(step[axis], shape[axis]-at[axis])
	}
	for a := range held[0] {
		for b := range held[1] {
			to := (((at[0]+a)*shape[1]+at[1]+b)*shape[2]+at[2])*shape[3] + at[3]
			from := (a*step[1] + b) * step[2] * step[3]
			if held[3] == 1 {
				for range held[2] {
					block[to] = chunk[from]
					to, from = to+shape[3], from+step[3]
				}
				continue
			}
			for range held[2] {
				copy(block[to:to+held[3]], chunk[from:])
				to, from = to+shape[3], from+step[3]
			}
		}
	}
}

// paint sets every byte to value.
func paint(to []byte, value byte) {
	for i := range to {
		to[i] = value
	}
}
