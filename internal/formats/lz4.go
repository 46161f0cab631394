package formats

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/pierrec/lz4/v4"

	"github.com/headrace/headrace/internal/blocks"
)

// LZ4File is a value of a container that is a frame of LZ4 (lz4_Frame_format.md).
type LZ4File struct {
	Block Block
	Head  []byte // its first bytes after decompression
}

const (
	lz4Magic = "\x04\x22\x4d\x18"
	// HeadBytes is how many bytes of a value are enough to recognise an image.
	HeadBytes = 18
)

// IsLZ4 recognises a frame.
func IsLZ4(head []byte) bool { return bytes.HasPrefix(head, []byte(lz4Magic)) }

// ReadLZ4 reads the beginning of the frame at that place. The frame's head has its decompressed size if the writer put
// it there, as Python's lz4.frame does. Otherwise a frame that is wanted, by its first bytes, is decompressed once to
// find its size, up to most bytes.
func ReadLZ4(r io.ReaderAt, offset, length, most int64, wanted func(head []byte) bool) (f LZ4File, err error) {
	if length > blocks.MostBytes {
		return f, &WalkError{offset, fmt.Errorf("%w: a frame of LZ4 of %d bytes (expected at most %d)", ErrLimit, length, int64(blocks.MostBytes))}
	}
	wrong := func(err error) (LZ4File, error) { // the error may be the disk's or the store's, so it is wrapped and stays recognisable
		return f, &WalkError{offset, fmt.Errorf("%w: the frame of LZ4: %w", ErrBad, err)}
	}
	z := lz4.NewReader(io.NewSectionReader(r, offset, length))
	f.Head = make([]byte, HeadBytes)
	n, err := io.ReadFull(z, f.Head)
	if f.Head = f.Head[:n]; err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return wrong(err)
	}
	f.Block = Block{Offset: offset, Stored: length, Size: int64(z.Size()), Codec: blocks.LZ4Frame}
	if f.Block.Size == 0 && wanted(f.Head) {
		rest, err := io.Copy(io.Discard, io.LimitReader(z, most))
		if err != nil {
			return wrong(err)
		}
		if f.Block.Size = int64(n) + rest; f.Block.Size > most {
			return f, &WalkError{offset, fmt.Errorf("%w: a frame of LZ4 of %d bytes or more once it is decompressed (expected at most %d, %s)", ErrLimit, f.Block.Size, most, blocks.NameOfBlock)}
		}
	}
	if f.Block.Size < 0 || f.Block.Size > blocks.MostBytes {
		return f, &WalkError{offset, fmt.Errorf("%w: a frame of LZ4 of %d bytes once it is decompressed (expected at most %d)", ErrLimit, uint64(f.Block.Size), int64(blocks.MostBytes))}
	}
	return f, nil
}
