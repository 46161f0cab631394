package blocks

import (
	"encoding/binary"
	"fmt"
)

// Interrupted is true for blocks that are not compressed, but whose bytes lie in several parts with short headers
// between them. Joining the parts takes no longer than copying them, so such blocks are not cached.
func Interrupted(codec uint8) bool { return codec == RecordIO || codec == ZstdRaw }

// A part of a record has a frame (dmlc-core, include/dmlc/recordio.h): the magic, a word with 3 bits of flag and 29 of
// length, and the part, padded to 4 bytes. A record is split where it contains the magic itself, which is then left
// out.
const (
	RecordIOMagic = 0xced7230a
	RecordIOHead  = 8
	recordIOBits  = 29
)

// ParseRecordIO splits the second word of a frame. flag is 0 for a whole record, 1 for the first part of a record, 2
// for a middle part and 3 for the last part.
func ParseRecordIO(word uint32) (flag uint32, length int64) {
	return word >> recordIOBits, int64(word & (1<<recordIOBits - 1))
}

// The header of a zstd block (RFC 8878, 3.1.1.2) has 1 bit for last, 2 for the type and 21 for the size.
const (
	zstdHead = 3
	zstdRaw  = 0
)

// join fills to with what the parts in from hold together, beginning at byte skip. They must hold size bytes.
func join(codec uint8, to []byte, skip, size int64, from []byte) error {
	at := int64(0) // position in the joined bytes
	add := func(part []byte) {
		if begin := skip - at; begin < int64(len(part)) && at < skip+int64(len(to)) {
			copy(to[max(-begin, 0):], part[max(begin, 0):])
		}
		at += int64(len(part))
	}
	next := nextRecordIO
	if codec == ZstdRaw {
		next = nextZstdRaw
	}
	for begin := 0; begin < len(from); {
		part, between, used, err := next(from[begin:])
		if err != nil {
			return fmt.Errorf("byte %d of the stretch: %w", begin, err)
		}
		if begin > 0 {
			add(between)
		}
		add(part)
		begin += used
	}
	// Every length is the file's claim, so the sum of the parts has to be that of the index.
	if at != size {
		return fmt.Errorf("the parts hold %d bytes (expected %d)", at, size)
	}
	return nil
}

// nextRecordIO returns a part, the bytes between it and the part before, and how many bytes its frame takes.
func nextRecordIO(from []byte) (part, between []byte, used int, err error) {
	if len(from) < RecordIOHead || binary.LittleEndian.Uint32(from) != RecordIOMagic {
		return nil, nil, 0, fmt.Errorf("no frame of RecordIO begins here")
	}
	_, length := ParseRecordIO(binary.LittleEndian.Uint32(from[4:]))
	if length > int64(len(from)-RecordIOHead) {
		return nil, nil, 0, fmt.Errorf("a part of %d bytes, %d are left", length, len(from)-RecordIOHead)
	}
	end := RecordIOHead + int(length)
	return from[RecordIOHead:end], from[:4], min((end+3)&^3, len(from)), nil // the last part's padding may be left out
}

// nextZstdRaw does the same for a zstd block.
func nextZstdRaw(from []byte) (part, between []byte, used int, err error) {
	if len(from) < zstdHead {
		return nil, nil, 0, fmt.Errorf("%d bytes are no block of zstd", len(from))
	}
	kind, size := ParseZstdBlock(from)
	if end := zstdHead + int(size); kind == zstdRaw && end <= len(from) {
		return from[zstdHead:end], nil, end, nil
	}
	return nil, nil, 0, fmt.Errorf("a block of zstd of type %d and %d bytes (expected one that is not compressed, of at most %d)", kind, size, len(from)-zstdHead)
}

// ParseZstdBlock returns type and size of the block with this header.
func ParseZstdBlock(head []byte) (kind uint8, size int64) {
	return head[0] >> 1 & 3, int64(uint32(head[0])|uint32(head[1])<<8|uint32(head[2])<<16) >> 3
}
