package blocks

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zlib"
)

// What chunks of HDF5 and Zarr go through in addition to the common codecs.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// summed compares the checksum behind a block, and returns the bytes before it.
func summed(codec uint8, from []byte) ([]byte, error) {
	if codec&sums == 0 {
		return from, nil
	}
	if len(from) < 4 {
		return nil, fmt.Errorf("the block has %d bytes, of which four are its sum", len(from))
	}
	data := from[:len(from)-4]
	said, found := binary.LittleEndian.Uint32(from[len(data):]), uint32(0)
	if codec&sums == CRC32C {
		found = crc32.Checksum(data, castagnoli)
	} else {
		found = fletcher32(data)
	}
	if found != said {
		return nil, fmt.Errorf("the sum of the block differs (expected %08x, found %08x)", said, found)
	}
	return data, nil
}

// fletcher32 is HDF5's checksum, over words whose first byte is the high one (H5checksum.c, H5_checksum_fletcher32).
func fletcher32(data []byte) uint32 {
	const most = 360 // words before a sum could overflow
	one, two := uint32(0), uint32(0)
	fold := func() { one, two = one&0xFFFF+one>>16, two&0xFFFF+two>>16 }
	// Words are big-endian on little-endian machines as well, because HDF5 sums bytes and not numbers.
	for len(data) > 1 {
		part := data[:min(len(data)&^1, 2*most)]
		data = data[len(part):]
		for ; len(part) > 1; part = part[2:] {
			one += uint32(part[0])<<8 | uint32(part[1])
			two += one
		}
		fold()
	}
	// A last odd byte is the high byte of a word.
	if len(data) == 1 {
		one += uint32(data[0]) << 8
		two += one
		fold()
	}
	fold()
	return two<<16 | one
}

func inflate(to, from []byte) error {
	r, _ := zlibs.Get().(io.ReadCloser)
	var err error
	if r == nil {
		r, err = zlib.NewReader(bytes.NewReader(from))
	} else {
		err = r.(zlib.Resetter).Reset(bytes.NewReader(from), nil)
	}
	if err != nil {
		return fmt.Errorf("the zlib block: %w", err)
	}
	defer zlibs.Put(r)
	return fill(to, r)
}

// sizedLZ4 decodes what numcodecs writes: the length in four bytes, then a block.
func sizedLZ4(to, from []byte) error {
	if len(from) < 4 {
		return errors.New("the LZ4 block has no length")
	}
	// Python's lz4 stores the length like this (store_size=True), and numcodecs.LZ4 does the same in C.
	if said := binary.LittleEndian.Uint32(from); int64(said) != int64(len(to)) {
		return differs(int(said), len(to))
	}
	return Decode(LZ4, to, from[4:])
}

// piecesOfLZ4 decodes what HDF5's filter 32004 writes: the length in eight bytes, the length of a piece in four, then
// each piece behind its stored length. A piece that did not become smaller is stored as it was.
func piecesOfLZ4(to, from []byte) error {
	if len(from) < 12 {
		return errors.New("the LZ4 block has no header")
	}
	if said := binary.BigEndian.Uint64(from); said != uint64(len(to)) {
		return fmt.Errorf("the block decodes to %d bytes (expected %d)", said, len(to))
	}
	piece := int64(binary.BigEndian.Uint32(from[8:]))
	from = from[12:]
	for len(to) > 0 {
		length := min(piece, int64(len(to)))
		// A piece without bytes would make this loop endless.
		if length == 0 || len(from) < 4 {
			return fmt.Errorf("the LZ4 block ends %d bytes early", len(to))
		}
		stored := int64(binary.BigEndian.Uint32(from))
		if from = from[4:]; stored > int64(len(from)) {
			return fmt.Errorf("a piece of the LZ4 block has %d bytes, there are %d", stored, len(from))
		}
		if stored == length {
			copy(to[:length], from)
		} else if err := Decode(LZ4, to[:length], from[:stored]); err != nil {
			return err
		}
		to, from = to[length:], from[stored:]
	}
	if len(from) > 0 {
		return fmt.Errorf("%d bytes stand behind the LZ4 block", len(from))
	}
	return nil
}
