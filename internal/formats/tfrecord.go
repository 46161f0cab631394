package formats

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// TFRecord is one record of a TFRecord file. Its frame is that of tensorflow/core/lib/io/record_writer.h:
//
//	uint64 length | uint32 masked CRC-32C of the length | data | uint32 masked CRC-32C of the data
type TFRecord struct {
	Offset int64 // of the data
	Length int64
}

// TFRecordWalker lists the records of a file by reading only their frames. It compares the checksum of each length,
// because a wrong length leads anywhere. The reader of the data has to compare the data's checksum.
type TFRecordWalker struct {
	r        io.ReaderAt
	size, at int64
	space    [tfHeadBytes]byte // of each frame; what is read through an interface lies on the heap
}

const (
	tfHeadBytes = 12
	tfTailBytes = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// NewTFRecordWalker begins at the start of a file.
func NewTFRecordWalker(r io.ReaderAt, size int64) *TFRecordWalker {
	return &TFRecordWalker{r: r, size: size}
}

// unmask reverses the masking of a checksum that TensorFlow stores beside its bytes.
func unmask(crc uint32) uint32 {
	// TensorFlow masks checksums because a CRC over bytes that contain their own CRC says little
	// (tensorflow/core/lib/hash/crc32c.h).
	crc -= 0xa282ead8
	return crc>>17 | crc<<15
}

// IsTFRecord recognises a TFRecord file by the checksum of its first length, because it has no magic.
func IsTFRecord(head []byte) bool {
	return len(head) >= tfHeadBytes &&
		unmask(binary.LittleEndian.Uint32(head[8:])) == crc32.Checksum(head[:8], castagnoli)
}

// Next returns the next record, io.EOF after the last.
func (w *TFRecordWalker) Next() (TFRecord, error) {
	if w.at == w.size {
		return TFRecord{}, io.EOF
	}
	wrong := func(at int64, err error) (TFRecord, error) { return TFRecord{}, &WalkError{at, err} }
	if w.size-w.at < tfHeadBytes+tfTailBytes {
		return wrong(w.at, fmt.Errorf("%w: a record's frame of %d bytes (expected at least %d)", ErrTruncated, w.size-w.at, tfHeadBytes+tfTailBytes))
	}
	head := w.space[:]
	if err := readAt(w.r, head, w.at); err != nil {
		return wrong(w.at, err)
	}
	stated, found := unmask(binary.LittleEndian.Uint32(head[8:])), crc32.Checksum(head[:8], castagnoli)
	if stated != found {
		return wrong(w.at, fmt.Errorf("%w: the checksum of the record's length differs (expected %08x, found %08x)", ErrBad, stated, found))
	}
	// The length is unsigned, and is compared with what is left before it is added to anything.
	length := binary.LittleEndian.Uint64(head[:8])
	if left := w.size - w.at - tfHeadBytes - tfTailBytes; length > uint64(left) {
		return wrong(w.at, fmt.Errorf("%w: a record of %d bytes, %d are left of the file", ErrTruncated, length, left))
	}
	r := TFRecord{Offset: w.at + tfHeadBytes, Length: int64(length)}
	w.at = r.Offset + r.Length + tfTailBytes
	return r, nil
}

// Checksum returns the CRC-32C of a record's data as the file states it. It follows the data, so it should be asked for
// after the data was read; then a Window need not go back.
func (w *TFRecordWalker) Checksum(r TFRecord) (uint32, error) {
	tail := w.space[:tfTailBytes]
	if err := readAt(w.r, tail, r.Offset+r.Length); err != nil {
		return 0, &WalkError{r.Offset + r.Length, err}
	}
	return unmask(binary.LittleEndian.Uint32(tail)), nil
}

// Blame returns the error about a record that is no Example. If the record's checksum is right, its writer meant it so,
// and TFRecord files may hold anything.
func (w *TFRecordWalker) Blame(r TFRecord, wrong error) error {
	if !errors.Is(wrong, ErrBad) {
		return wrong
	}
	stated, err := w.Checksum(r)
	if err != nil {
		return err
	}
	sum := crc32.New(castagnoli)
	if _, err := io.Copy(sum, io.NewSectionReader(w.r, r.Offset, r.Length)); err != nil {
		return &WalkError{r.Offset, err}
	}
	if sum.Sum32() != stated {
		return wrong
	}
	return fmt.Errorf("%w: the record is whole by its checksum, and no tf.train.Example: %s", ErrUnsupported, Reason(wrong))
}
