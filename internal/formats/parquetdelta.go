package formats

import (
	"encoding/binary"
	"fmt"
)

// delta reads whole numbers of DELTA_BINARY_PACKED (Parquet's Encodings.md) one by one, so that millions of equal ones
// take no memory. parquet-go's own decoder allocates what the header says before it has read a number, and accepts
// widths of more than 64 bits.
type delta struct {
	data   []byte // after what was read
	left   int64  // numbers that are left
	begun  bool
	value  int64
	minis  int64  // miniblocks in a block
	mini   int64  // numbers in a miniblock
	least  int64  // least step in the block
	widths []byte // of the block's miniblocks that are left
	inMini int64  // numbers of the miniblock that are left
	width  uint
	pack   []byte // bytes of the miniblock
	bit    uint64 // next bit of pack
	alone  bool   // nothing follows the numbers, and some writers then leave out the padding of the last miniblock
}

const maxDeltaBlock = 1 << 30 // numbers in a block; the format has no limit

// newDelta reads the header of at most `most` numbers, and finds what follows them.
func newDelta(data []byte, most int64, alone bool) (d *delta, behind []byte, err error) {
	var head [4]uint64 // numbers in a block, miniblocks in it, numbers, the first one
	for i := range head {
		v, n := binary.Uvarint(data)
		if n <= 0 {
			return nil, nil, fmt.Errorf("%w: a page without the header of its DELTA_BINARY_PACKED numbers", ErrBad)
		}
		head[i], data = v, data[n:]
	}
	block, minis, count := head[0], head[1], head[2]
	if count > uint64(most) {
		return nil, nil, fmt.Errorf("%w: %d DELTA_BINARY_PACKED numbers in a page of %d values", ErrBad, count, most)
	}
	// The format requires blocks of a multiple of 128 and miniblocks of a multiple of 32. Reading only needs miniblocks of
	// whole bytes, which 8 numbers of any width are.
	if minis == 0 || block > maxDeltaBlock || block%minis != 0 || block/minis%8 != 0 || block == 0 {
		return nil, nil, fmt.Errorf("%w: blocks of %d DELTA_BINARY_PACKED numbers in %d parts", ErrBad, block, minis)
	}
	d = &delta{data: data, left: int64(count), value: int64(head[3]>>1) ^ -int64(head[3]&1), minis: int64(minis), mini: int64(block / minis), alone: alone}
	// All numbers are walked once before any is used: what follows the numbers begins at their end, and no length says
	// where that is.
	walk := *d
	for walk.left > 0 {
		if !walk.begun {
			walk.begun, walk.left = true, walk.left-1
			continue
		}
		if err := walk.part(); err != nil {
			return nil, nil, err
		}
		walk.left -= min(walk.left, walk.mini)
	}
	return d, walk.data, nil
}

// part goes to the next miniblock.
func (d *delta) part() error {
	if len(d.widths) == 0 {
		// A block's head is the least step, in zigzag, and a byte for the width of each miniblock.
		least, n := binary.Varint(d.data)
		if n <= 0 || d.minis > int64(len(d.data)-n) {
			return fmt.Errorf("%w: a block of DELTA_BINARY_PACKED numbers without its head, %d are missing", ErrBad, d.left)
		}
		d.least, d.widths, d.data = least, d.data[n:][:d.minis], d.data[int64(n)+d.minis:]
	}
	d.width, d.widths = uint(d.widths[0]), d.widths[1:]
	size, have := d.mini/8*int64(d.width), int64(len(d.data))
	needed := (min(d.left, d.mini)*int64(d.width) + 7) / 8
	// By the format all miniblocks have all their bytes, even the last one, whose numbers may end earlier.
	if d.width > 64 || needed > have || size > have && !d.alone {
		return fmt.Errorf("%w: DELTA_BINARY_PACKED numbers of %d bits, %d are missing and %d bytes are left", ErrBad, d.width, d.left, have)
	}
	d.pack, d.data = d.data[:min(size, have)], d.data[min(size, have):]
	d.inMini, d.bit = d.mini, 0
	return nil
}

func (d *delta) next() (int64, error) {
	if d.left == 0 {
		return 0, fmt.Errorf("%w: a page has fewer DELTA_BINARY_PACKED numbers than values", ErrBad)
	}
	if !d.begun {
		d.begun, d.left = true, d.left-1
		return d.value, nil
	}
	if d.inMini == 0 {
		if err := d.part(); err != nil {
			return 0, err
		}
	}
	d.inMini, d.left = d.inMini-1, d.left-1
	// The sums overflow as intended: writers compute the differences in the same arithmetic.
	d.value += d.least + int64(d.step())
	return d.value, nil
}

// step returns the next number of the miniblock. part has checked that it is in pack.
func (d *delta) step() uint64 {
	if d.width == 0 {
		return 0
	}
	at, shift := d.bit>>3, uint(d.bit&7)
	d.bit += uint64(d.width)
	raw := d.pack[at:]
	if len(raw) < 9 {
		var space [9]byte
		copy(space[:], raw)
		raw = space[:]
	}
	v := binary.LittleEndian.Uint64(raw) >> shift
	if shift+d.width > 64 {
		v |= uint64(raw[8]) << (64 - shift)
	}
	return v & (1<<d.width - 1) // a shift by 64 gives 0, and 0 - 1 has all bits
}
