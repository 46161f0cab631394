package formats

import (
	"encoding/binary"
	"fmt"
)

// delta reads whole numbers of DELTA_BINARY_PACKED (Parquet's Encodings.md) one by one, so that millions of equal
// ones cost nothing. parquet-go's own decoder allocates what the header says before it has looked at a number, and
// takes widths of more than 64 bits.
type delta struct {
	data   []byte // behind what was read
	left   int64  // numbers that are to come
	begun  bool
	value  int64
	minis  int64  // miniblocks in a block
	mini   int64  // numbers in a miniblock
	least  int64  // of the block's steps
	widths []byte // of its miniblocks that are to come
	inMini int64  // numbers of the miniblock that are to come
	width  uint
	pack   []byte // of the miniblock
	bit    uint64 // of pack that comes next
	alone  bool   // nothing stands behind the numbers, and some writers leave out what would fill the last miniblock
}

const maxDeltaBlock = 1 << 30 // numbers in a block: the format has no bound

// newDelta reads the header before at most so many numbers, and finds what stands behind them.
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
	// The format asks for blocks of a multiple of 128 and miniblocks of one of 32. Whole bytes are what reading
	// needs: 8 numbers of any width are such.
	if minis == 0 || block > maxDeltaBlock || block%minis != 0 || block/minis%8 != 0 || block == 0 {
		return nil, nil, fmt.Errorf("%w: blocks of %d DELTA_BINARY_PACKED numbers in %d parts", ErrBad, block, minis)
	}
	d = &delta{data: data, left: int64(count), value: int64(head[3]>>1) ^ -int64(head[3]&1), minis: int64(minis), mini: int64(block / minis), alone: alone}
	// Gone through once before a number is taken, for what stands behind the numbers begins where they end, and no
	// length says where.
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
		// The head of a block: the least step, in zigzag, and a byte of width for each miniblock.
		least, n := binary.Varint(d.data)
		if n <= 0 || d.minis > int64(len(d.data)-n) {
			return fmt.Errorf("%w: a block of DELTA_BINARY_PACKED numbers without its head, %d are missing", ErrBad, d.left)
		}
		d.least, d.widths, d.data = least, d.data[n:][:d.minis], d.data[int64(n)+d.minis:]
	}
	d.width, d.widths = uint(d.widths[0]), d.widths[1:]
	size, have := d.mini/8*int64(d.width), int64(len(d.data))
	needed := (min(d.left, d.mini)*int64(d.width) + 7) / 8
	// All miniblocks are full of bytes by the format, also the last one, whose numbers may end before.
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
	// Sums wrap around: a writer takes differences in the same arithmetic.
	d.value += d.least + int64(d.step())
	return d.value, nil
}

// step is the next number of the miniblock. Whoever made pack has seen that it is there.
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
	return v & (1<<d.width - 1) // a shift by 64 gives 0, and 0 - 1 all bits
}
