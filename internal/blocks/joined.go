package blocks

import (
	"encoding/binary"
	"fmt"
)

// Interrupted is true of blocks whose bytes are not compressed, but stand in several parts with short heads
// between them. To join the parts takes no longer than to copy them, so such blocks are not cached.
func Interrupted(codec uint8) bool { return codec == RecordIO || codec == ZstdRaw }

// The frame of a part of a record (dmlc-core, include/dmlc/recordio.h): the magic, a word of 3 bits of flag
// and 29 of length, and the part, padded to 4 bytes. A record is split where it holds the magic itself, which
// is left out there.
const (
	RecordIOMagic = 0xced7230a
	RecordIOHead  = 8
	recordIOBits  = 29
)

// ParseRecordIO splits the second word of a frame. flag is 0 of a whole record, 1 of the first part of one, 2 of
// a middle part and 3 of the last.
func ParseRecordIO(word uint32) (flag uint32, length int64) {
	return word >> recordIOBits, int64(word & (1<<recordIOBits - 1))
}

// The head of a block of zstd (RFC 8878, 3.1.1.2): 1 bit of last, 2 of type and 21 of size.
const (
	zstdHead = 3
	zstdRaw  = 0
)

// join fills to with what the parts in from hold together, from byte skip on. They must hold size bytes.
func join(codec uint8, to []byte, skip, size int64, from []byte) error {
	at := int64(0) // of what is joined
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
	// Every length is the file's word: the sum of the parts has to be that of the index.
	if at != size {
		return fmt.Errorf("the parts hold %d bytes (expected %d)", at, size)
	}
	return nil
}

// nextRecordIO is a part, what stands between it and the one before, and how many bytes its frame takes.
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

// nextZstdRaw is the same of a block of zstd.
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

// ParseZstdBlock is type and size of the block that has this head.
func ParseZstdBlock(head []byte) (kind uint8, size int64) {
	return head[0] >> 1 & 3, int64(uint32(head[0])|uint32(head[1])<<8|uint32(head[2])<<16) >> 3
}
