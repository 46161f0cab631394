package cache

import (
	"encoding/binary"
	"hash/crc32"
)

// Key names a value. It is a hash of all that the value depends on.
type Key [16]byte

// These are sizes and the head of a segment's files.
const (
	headBytes  = 32
	entryBytes = 32
	magic      = "HRCACHE\x00"
	version    = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// head returns the beginning of every NAME.keys.
func head() []byte {
	h := append(make([]byte, 0, headBytes), magic...)
	h = binary.LittleEndian.AppendUint32(h, version)
	return h[:headBytes]
}

// entry says where a record is in NAME.data. It has 16 bytes of key, offset, length and CRC-32C of the record, and the
// CRC-32C of these 28 bytes, all numbers as uint32, little-endian.
type entry struct {
	key            Key
	offset, length uint32 // of the record, which is the key and the value
	crc            uint32 // of the record
}

func (e *entry) append(to []byte) []byte {
	begin := len(to)
	to = append(to, e.key[:]...)
	for _, number := range [...]uint32{e.offset, e.length, e.crc} {
		to = binary.LittleEndian.AppendUint32(to, number)
	}
	return binary.LittleEndian.AppendUint32(to, crc32.Checksum(to[begin:], castagnoli))
}

// parse returns false if the bytes are no entry, or an impossible one.
func (e *entry) parse(b []byte) bool {
	if binary.LittleEndian.Uint32(b[28:]) != crc32.Checksum(b[:28], castagnoli) {
		return false
	}
	copy(e.key[:], b)
	e.offset = binary.LittleEndian.Uint32(b[16:])
	e.length = binary.LittleEndian.Uint32(b[20:])
	e.crc = binary.LittleEndian.Uint32(b[24:])
	return e.length >= uint32(len(e.key)) && e.length <= mostRecord
}

// holds says whether a record is that of an entry and of this key.
func holds(record []byte, key Key, crc uint32) bool {
	return crc32.Checksum(record, castagnoli) == crc && Key(record[:len(key)]) == key
}
